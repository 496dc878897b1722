"""How a device is doing, as fields for JSON: what a state says, and what its agent notes in it."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from elmgrove.detector.drift import Drift
from elmgrove.detector.events import Event
from elmgrove.detector.feedback import Answer
from elmgrove.federation.member import Member, borrowed_by
from elmgrove.reading.times import json_when


def mark_state(member: Member, now: float | None = None) -> None:
    """Notes since when the device's state is what it is, if it is another than before.

    That is the time of the row with which it became so, or the clock's where the row has none.
    """
    state, noted = member.detector.state, member.notes.get("state")
    if noted is None or noted["state"] != state:
        known = now is not None and math.isfinite(now)
        member.notes["state"] = {"state": state, "since": now if known else time.time()}


def status_of(member: Member) -> dict[str, Any]:
    """Gathers how a device is doing; what is not known is None, as is a threshold while learning.

    Times are in ISO 8601, UTC.
    """
    detector, merged = member.detector, member.merged
    seen, events = detector.progress.seen, detector.events
    return {
        "name": member.name,
        "learned": detector.learned,
        "kept": detector.evidence.count,
        "counted": detector.basis.counted,
        "patterns": detector.patterns_in_words,
        "state": detector.state,
        "since": _since(member.notes.get("state"), detector.state),
        "rows_missing": detector.rows_missing,
        "threshold": detector.threshold if math.isfinite(detector.threshold) else None,
        "rate": detector.progress.rate,
        "flagged": {
            "rows": seen.rows,
            "flagged": seen.flagged,
            "share": seen.share if seen.rows else None,
            "band": list(seen.band),
        },
        "quarantine": len(detector.quarantine),
        "event": told(events.open),
        "answers": [_answer(one) for one in detector.answers.given],
        "undoable": detector.answers.undoable is not None,
        "last_events": [told(event) for event in events.closed[-3:]],
        "drift": told(detector.drift.report),
        "merged": member.merges,
        "others": len(member.ledger) if merged is None else merged.devices,
        "uses": None if merged is None else str(merged),
        "models": len(detector.model.models),
        "groups": None if merged is None else len(merged.labels),
        "federation": None if merged is None else merged.federation,
        "unlike": member.notes.get("unlike"),
        "borrows": asdict(borrowed_by(member)),
        "shared": None if member.published is None else member.published.learned,
        "rows": member.notes.get("input"),
        "sync": _timed(member.notes.get("sync")),
    }


def told(found: Event | Drift | None) -> dict[str, Any] | None:
    """Gives what there is to tell of an event or a drift, and the same in words."""
    return None if found is None else {**found.fields, "text": str(found)}


def _answer(answer: Answer) -> dict[str, Any]:
    return {**asdict(answer), "at": _iso(answer.at), "text": str(answer)}


def _since(noted: Mapping[str, Any] | None, state: str) -> str | None:
    """When the state became what it is; None if it was another when that was last noted."""
    return _iso(noted["since"]) if noted is not None and noted["state"] == state else None


def _timed(sync: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if sync is None:
        return None
    return {**sync, "time": _iso(sync["time"]), "next": _iso(sync["next"])}


def _iso(seconds: float | None) -> str | None:
    # In whole seconds, which is how precisely anybody looks.
    return None if seconds is None else str(json_when(float(round(seconds))))
