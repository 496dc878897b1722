"""``elmgrove status``: how a device is doing, in a few lines."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import percent
from elmgrove.detector import LEARNING, Detector
from elmgrove.federation import MERGED, UNKNOWN, Member, borrowed_by
from elmgrove.storage import load


def status(
    state: Annotated[
        Path, typer.Argument(help="A device's state.", exists=True, dir_okay=False, metavar="STATE")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Show how a device is doing: what it learned, whether it watches, and what others are to it.

    Example: [bold]elmgrove status fan-1.elm[/]
    """
    member = load(state, Member.from_bytes)
    if as_json:
        Console().print_json(json.dumps(_numbers(member)))
        return
    lines = {
        "learned": f"{member.detector.learned:,} {member.detector.basis.counted}",
        "state": _state(member.detector),
        "strange": flagged(member.detector),
        "waiting": f"{len(member.detector.quarantine):,} strange rows in quarantine",
        "others": what_others_are(member),
        "borrows": str(borrowed_by(member)),
        "shared": _shared(member),
    }
    grid = Grid(title=member.name, show_header=False)
    for name, text in lines.items():
        grid.add_row(name, text)
    Console(markup=False, emoji=False).print(grid)


def _numbers(member: Member) -> dict[str, Any]:
    """Gathers how a device is doing, as numbers; the threshold is None while there is none."""
    detector, seen = member.detector, member.detector.progress.seen
    return {
        "name": member.name,
        "learned": detector.learned,
        "state": detector.state,
        "rows_missing": detector.rows_missing,
        "threshold": detector.threshold if math.isfinite(detector.threshold) else None,
        "flagged": {
            "rows": seen.rows,
            "flagged": seen.flagged,
            "share": seen.share if seen.rows else None,
            "band": list(seen.band),
        },
        "quarantine": len(detector.quarantine),
        "alarm": member.policy,
        "others": len(member.ledger) if member.merged is None else member.merged.devices,
        "groups": None if member.merged is None else len(member.merged.labels),
        "borrows": asdict(borrowed_by(member)),
        "shared": None if member.published is None else member.published.learned,
    }


def _state(detector: Detector) -> str:
    if detector.state == LEARNING:
        missing = f"{detector.rows_missing:,} more {detector.basis.counted}"
        return f"learning: {missing} without a strange one until there are alarms"
    return f"{detector.state}: scores above {detector.threshold:.4g} are strange"


def flagged(detector: Detector) -> str:
    """Says how many rows were above the threshold since the state is what it is."""
    seen, (low, high) = detector.progress.seen, detector.progress.seen.band
    share = f"{percent(seen.share)} (95 % sure: {percent(low)} to {percent(high)})"
    return f"{seen.flagged} of {seen.rows} rows: {share}" if seen.rows else "no rows counted yet"


def what_others_are(member: Member) -> str:
    """Says from whom a device learns, and what they are to it."""
    merged, count = member.merged, len(member.ledger)
    if merged is not None:
        count = merged.devices
    if not count:
        return "none: its own rows alone"
    many = "1 other" if count == 1 else f"{count:,} others"
    where = "" if merged is None else f" of {merged.federation!r}"
    if member.policy == MERGED:
        return f"one model of its own rows and those of {many}{where}"
    told = 0 if merged is None else len(merged.labels)
    groups = f", in {told:,} group{'s' * (told != 1)}" if merged is not None else ""
    excused = "are excused" if member.policy == UNKNOWN else "are not excused"
    return f"asks {many}{where}{groups}; strange rows that they know {excused}"


def _shared(member: Member) -> str:
    if member.published is None:
        return "nothing yet"
    return f"sums of {member.published.learned:,} {member.detector.basis.counted}"
