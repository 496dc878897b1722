"""``elmgrove share``, ``merge`` and ``forget``: cooperation by files, on a stick if need be."""

from pathlib import Path
from typing import Annotated

import typer

from elmgrove.cli.options import SavedState, notes
from elmgrove.errors import BadInput, Mismatch
from elmgrove.federation import Contribution, Member
from elmgrove.storage import load, locked, save


def share(
    state: SavedState,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write \\[default: NAME.evidence]."),
    ] = None,
    guard: Annotated[
        bool,
        typer.Option(help="Share only what covers enough new rows (counting, not privacy)."),
    ] = True,
) -> None:
    """Write what this device learned itself, for others to merge.

    The file holds sums over rows and no row. It is not private by itself: from two of them
    that are few rows apart, the rows between can be computed. So with too few new rows the file
    holds what was shared before; [bold]--no-guard[/] shares them all the same.

    Example: [bold]elmgrove share --state fan-1.elm -o fan-1.evidence[/]
    """
    with locked(state):
        member = load(state, Member.from_bytes)
        path = output or Path(f"{member.name}.evidence")
        if path.exists() and path.samefile(state):
            raise BadInput(f"{path} is the state itself; evidence in its place would destroy it")
        missing = member.rows_missing(guarded=guard)
        contribution = member.offer(guarded=guard)
        if contribution is None:
            raise BadInput(
                f"{missing} more rows are needed before rows can't be computed from what is "
                "shared; --no-guard shares them all the same"
            )
        # First the state: who forgets what was shared can't keep the guard.
        save(state, member)
        save(path, contribution)
    held_back = f" {missing} more rows are needed before the newer ones follow." if missing else ""
    rows = f"{contribution.evidence.count:.0f} rows"
    notes.print(f"Wrote {path}: {contribution.origin}, {rows}.{held_back}")


def merge(
    state: SavedState,
    evidence: Annotated[
        list[Path],
        typer.Argument(help="Files that others shared.", exists=True, dir_okay=False),
    ],
) -> None:
    """Take in what others learned, as if their rows had been learned here.

    Merging a file twice changes nothing; a newer file of the same origin replaces the older.

    Example: [bold]elmgrove merge --state fan-2.elm fan-1.evidence[/]
    """
    heard = [load(path, Contribution.from_bytes) for path in evidence]
    with locked(state):
        member = load(state, Member.from_bytes)
        try:
            news = [member.receive(contribution) for contribution in heard]
        except Mismatch as error:
            hint = "States that shall merge are made with: learn --like"
            raise Mismatch(f"{error}\n  {hint}") from error
        if any(news):
            save(state, member)
    for contribution, new in zip(heard, news, strict=True):
        outcome = "merged" if new else "nothing new, so it was left out"
        notes.print(f"{contribution.origin}, {contribution.epoch} rows learned: {outcome}.")
    others = ", ".join(held.origin for held in member.ledger)
    notes.print(f"{member.name} now rests on its own rows and those of {others}.")


def forget(
    state: SavedState,
    origin: Annotated[
        str,
        typer.Option(help="The device whose part is taken out, or a federation for its sum."),
    ],
) -> None:
    """Take one device's contribution out again, exactly.

    Example: [bold]elmgrove forget --state fan-2.elm --origin fan-1[/]
    """
    with locked(state):
        member = load(state, Member.from_bytes)
        if member.merged is not None and origin == member.merged.federation:
            member.rest_on(None)
        elif not member.forget(origin):
            known = ", ".join(held.origin for held in member.ledger) or "nobody"
            raise BadInput(f"{member.name} never merged {origin!r}; it heard from {known}")
        save(state, member)
    notes.print(f"{member.name} no longer holds anything of {origin}.")
