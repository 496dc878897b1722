"""``elmgrove share`` and ``merge``: cooperation by files, without a network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as Grid

from elmgrove.algebra.scaling import OWN
from elmgrove.cli.options import SavedState, notes, option, print_result, right
from elmgrove.detector.state import STATE_FORMAT
from elmgrove.errors import BadInput, Mismatch
from elmgrove.federation.comparison import Comparison, compare_each, notable, unlike_used
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member, borrowed_by
from elmgrove.storage.disk import load, locked, save
from elmgrove.storage.sealed import format_of


def share(
    state: SavedState,
    output: Annotated[
        Path | None, option("The file to write \\[default: NAME.evidence].", "--output", "-o")
    ] = None,
    guard: Annotated[
        bool, option("Share only after enough new rows; this is no proof of privacy.")
    ] = True,
) -> None:
    """Write what this device learned, for others to merge.

    The file holds sums over rows and no row. From two such files with few rows between them, these
    rows can be computed: with too few new rows it holds what was shared before.

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
    notes.print(
        f"Wrote {path}: {contribution.origin}, {contribution.evidence.count:.0f} rows.{held_back}"
    )


def merge(
    state: SavedState,
    evidence: Annotated[
        list[Path] | None,
        typer.Argument(help="Files that others shared.", exists=True, dir_okay=False),
    ] = None,
    forget: Annotated[
        str | None,
        option("Take a device's part out again, exactly; or that of all devices of a federation."),
    ] = None,
    dry_run: Annotated[
        bool, option("Show feature by feature what would be merged; merge none.", "--dry-run")
    ] = False,
) -> None:
    """Take in what others shared, or take it out again.

    The device asks them about anomalous rows from then on; a state made with [bold]--merged[/] adds
    their sums. A newer file of the same origin replaces the older one. The output says first which
    devices are alike.

    Example: [bold]elmgrove merge --state fan-2.elm fan-1.evidence[/]

    Example: [bold]elmgrove merge --state fan-2.elm --forget fan-1[/]
    """
    if (forget is None) == (not evidence) or (forget and dry_run):
        raise BadInput("give files that others shared, or --forget alone")
    if forget is not None:
        _forget(state, forget)
        return
    contributions = [_shared(path) for path in evidence or ()]
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
        _note_alike(member, found)
        if dry_run:
            notes.print(f"Nothing was merged: {state} is as it was.")
            return
        if any(taken):
            save(state, member)
    for contribution, new in zip(contributions, taken, strict=True):
        result = ("merged" if member.merges else "taken in") if new else "nothing new"
        notes.print(
            f"{contribution.origin}, {contribution.evidence.count:.0f} rows learned: {result}."
        )
    _note_others(member)


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


def _forget(state: Path, origin: str) -> None:
    with locked(state):
        member = load(state, Member.from_bytes)
        if member.merged is not None and origin == member.merged.federation:
            member.set_prior(None)
        elif not member.forget(origin):
            known = ", ".join(held.origin for held in member.ledger) or "no other device"
            raise BadInput(f"{member.name} never merged {origin!r}; it uses {known}")
        save(state, member)
    notes.print(f"{member.name} no longer uses anything of {origin}.")


def _note_others(member: Member) -> None:
    others = ", ".join(held.origin for held in member.ledger)
    if not others:
        notes.print(f"{member.name} now uses its own rows alone.")
    elif member.merges:
        notes.print(f"{member.name} now uses its own rows and those of {others}.")
    else:
        notes.print(f"{member.name} now asks {others}. It borrows {borrowed_by(member)}.")


def _note_alike(member: Member, comparisons: Sequence[Comparison]) -> None:
    each = [one for one in comparisons if one.name is not None]
    alike = [str(one.name) for one in each if one.alike and not one.untold]
    if alike:
        notes.print(f"Alike: {', '.join(alike)}.")
    for one in notable(comparisons):
        notes.print(f"Not alike: {one.warning(member.detector.basis, merges=member.merges)}.")
    if sensors := unlike_used(member):
        notes.print(f"{member.name} is unlike all others: {sensors}.")
    for one in each:
        if one.untold:
            notes.print(f"Whether {one.name} is alike can't be told: {one.untold}.")


def _show(member: Member, comparison: Comparison) -> None:
    if comparison.untold:
        return
    units = " (in own units)" if member.detector.basis.scaling.kind == OWN else ""
    numbers = right("here", "there", "apart", "given others", "moves")
    grid = Grid("feature", *numbers, title=f"{member.name} beside {comparison.whose}{units}")
    for one in comparison.differences:
        grid.add_row(
            one.feature,
            f"{one.level:.4g} ± {one.deviation:.2g}",
            f"{one.their_level:.4g} ± {one.their_deviation:.2g}",
            f"{one.apart:.1f}",
            f"{one.given_others:.1f}",
            "" if one.times is None else f"× {one.times:.2g}",
        )
    print_result(grid)


def _more_rows(count: float) -> str:
    return "1 more row is" if count == 1 else f"{count:,.0f} more rows are"
