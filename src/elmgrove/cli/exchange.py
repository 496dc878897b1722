"""``elmgrove share``, ``merge`` and ``forget``: cooperation by files, without a network."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.algebra.scaling import OWN
from elmgrove.cli.options import SavedState, note_alike, note_others, notes
from elmgrove.detector.state import STATE_FORMAT
from elmgrove.errors import BadInput, Mismatch
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.federation.similarity import Comparison, compare_each
from elmgrove.storage.disk import load, locked, save
from elmgrove.storage.sealed import format_of


def share(
    state: SavedState,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write \\[default: NAME.evidence]."),
    ] = None,
    guard: Annotated[
        bool,
        typer.Option(help="Share only after enough new rows; this is no proof of privacy."),
    ] = True,
) -> None:
    """Write what this device learned, for others to merge.

    The file holds sums over rows and no row. It is not private by itself: from two such files
    with few rows between them, these rows can be computed. So with too few new rows the file
    holds what was shared before; [bold]--no-guard[/] shares the new ones as well.

    Example: [bold]elmgrove share --state fan-1.elm -o fan-1.evidence[/]
    """
    with locked(state):
        member = load(state, Member.from_bytes)
        path = output or Path(f"{member.name}.evidence")
        if path.exists() and path.samefile(state):
            raise BadInput(f"{path} is the state itself; writing evidence there would destroy it")
        missing = member.rows_missing(guarded=guard)
        reason = member.blocked_reason(guarded=guard)
        contribution = member.offer(guarded=guard)
        if contribution is None:
            raise BadInput(
                f"{reason or f'{_more_rows(missing)} needed'}, or rows could be computed from what "
                "is shared; --no-guard shares it nevertheless"
            )
        # First the state: without knowing what was shared, the guard can't be kept.
        save(state, member)
        save(path, contribution)
    held_back = f" {_more_rows(missing)} needed before the newer ones follow." if missing else ""
    if reason is not None:
        held_back = f" Newer ones are held back: {reason}."
    notes.print(f"Wrote {path}: {contribution.origin}, {_rows(contribution)}.{held_back}")


def merge(
    state: SavedState,
    evidence: Annotated[
        list[Path],
        typer.Argument(help="Files that others shared.", exists=True, dir_okay=False),
    ],
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show feature by feature what would be merged; merge none."),
    ] = False,
) -> None:
    """Take in what others shared.

    The device asks them about anomalous rows from then on; a state made with [bold]--merged[/] adds
    their sums, as if it had learned their rows. Merging a file twice changes nothing; a newer file
    of the same origin replaces the older one. The output says first which devices are alike: at the
    same levels and scales.

    Example: [bold]elmgrove merge --state fan-2.elm fan-1.evidence[/]
    """
    contributions = [_shared(path) for path in evidence]
    with locked(state):
        member = load(state, Member.from_bytes)
        try:
            taken = [member.receive(contribution) for contribution in contributions]
        except Mismatch as error:
            hint = "To merge, make one of the two with: learn --like THE OTHER, and no other --like"
            raise Mismatch(f"{error}\n  {hint}") from error
        others = {held.origin: held.evidence for held in (*member.ledger, *contributions)}
        found = compare_each(member.detector.evidence, others)
        if dry_run:
            for one in found:
                _show(member, one)
        note_alike(member, found)
        if dry_run:
            notes.print(f"Nothing was merged: {state} is as it was.")
            return
        if any(taken):
            save(state, member)
    for contribution, new in zip(contributions, taken, strict=True):
        outcome = ("merged" if member.merges else "taken in") if new else "nothing new"
        notes.print(f"{contribution.origin}, {_rows(contribution)} learned: {outcome}.")
    note_others(member)


def _shared(path: Path) -> Contribution:
    """Load what a device shared; a state, which is not meant for others, is refused."""

    def read(blob: bytes) -> Contribution:
        if format_of(blob) == STATE_FORMAT:
            raise BadInput(
                f"{path} is a device's state; others merge what it shares: 'elmgrove share --state "
                f"{path} -o {path.with_suffix('.evidence')}' writes that"
            )
        return Contribution.from_bytes(blob)

    return load(path, read)


def forget(
    state: SavedState,
    origin: Annotated[
        str,
        typer.Option(help="The device to forget, or a federation, to forget all of its devices."),
    ],
) -> None:
    """Take one device's contribution out again, exactly.

    Example: [bold]elmgrove forget --state fan-2.elm --origin fan-1[/]
    """
    with locked(state):
        member = load(state, Member.from_bytes)
        if member.merged is not None and origin == member.merged.federation:
            member.set_prior(None)
        elif not member.forget(origin):
            known = ", ".join(held.origin for held in member.ledger) or "no other device"
            raise BadInput(f"{member.name} never merged {origin!r}; it uses {known}")
        save(state, member)
    notes.print(f"{member.name} no longer uses anything of {origin}.")


def _show(member: Member, comparison: Comparison) -> None:
    """Print a comparison, feature by feature."""
    if comparison.untold:
        return
    units = " (in own units)" if member.detector.basis.scaling.kind == OWN else ""
    grid = Grid(title=f"{member.name} beside {comparison.whose}{units}")
    grid.add_column("feature")
    for heading in ("here", "there", "apart", "given others", "moves"):
        grid.add_column(heading, justify="right")
    for one in comparison.differences:
        grid.add_row(
            one.feature,
            f"{one.level:.4g} ± {one.deviation:.2g}",
            f"{one.their_level:.4g} ± {one.their_deviation:.2g}",
            f"{one.apart:.1f}",
            f"{one.given_others:.1f}",
            "" if one.times is None else f"× {one.times:.2g}",
        )
    Console(markup=False, emoji=False).print(grid)


def _rows(contribution: Contribution) -> str:
    return f"{contribution.evidence.count:.0f} rows"


def _more_rows(count: float) -> str:
    return "1 more row is" if count == 1 else f"{count:,.0f} more rows are"
