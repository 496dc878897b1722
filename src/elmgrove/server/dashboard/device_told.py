"""What a device last told of itself, as far as it is what its page can show: nobody checked all."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elmgrove.errors import BadInput
from elmgrove.federation import EVENT
from elmgrove.reading import stated_time
from elmgrove.server.dashboard.device_words import UNDO, up_to
from elmgrove.server.dashboard.rendering import counted, number
from elmgrove.server.store import ToldRow

#: Letters of a text that are shown, and columns of a row.
_LONGEST, _MOST_COLUMNS = 1000, 40
# Answers that are shown.
_MOST_ANSWERS = 5
# The year 10,000, in seconds since 1970.
_END_OF_TIME = 253_402_300_800.0
# Seconds that rows may be ahead of the clock, or come after they were measured, by chance.
_CHANCE = 300.0
# What a device's question ends with, in the words of its commands: the page has buttons instead.
_COMMANDS = " accept or reject"
# A state that a device tells of, where it would be taken for the page's own word.
_STATE_WORDS = {"changing": "more is strange than usual"}
# Zones differ by half hours, and by no more than this.
_HALF_HOUR, _MOST_BEHIND = 1800.0, 12 * 3600.0


@dataclass(frozen=True)
class WaitingRow:
    """A strange row that waits in quarantine, with its values in the order of the columns shown."""

    time: float | None
    score: float | None
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class DeviceTold:
    """How a device is doing, in texts and numbers; '' and None where it told no such thing.

    ``drift`` is what it asks about, and ``drift_since`` when that began. ``last_row`` is when the
    last row was of which it told, by the row's own time. ``event`` is the number of the open event;
    ``answers`` are the last that somebody gave, wherever, the newest first, and ``undone`` the
    events of which the last answer was undone.
    """

    learned: float | None
    version: str
    drift: str
    drift_since: float | None
    facts: tuple[tuple[str, str], ...]
    waiting: float | None
    last_row: float | None
    event: int | None = None
    answers: tuple[str, ...] = ()
    undoable: bool = False
    undone: frozenset[int] = frozenset()
    columns: tuple[str, ...] = ()
    rows: tuple[WaitingRow, ...] | None = None

    @classmethod
    def of(cls, summary: Mapping[str, Any]) -> "DeviceTold":
        """Reads a summary's status and quarantine."""
        status = _mapping(summary.get("status"))
        drift, rows = _mapping(status.get("drift")), summary.get("quarantine")
        known = [_mapping(row) for row in rows] if isinstance(rows, list) else None
        columns = tuple(_mapping(known[-1].get("values")))[:_MOST_COLUMNS] if known else ()
        answers = [_mapping(one) for one in _list(status.get("answers"))]
        return cls(
            _number(status.get("learned")),
            _text(status.get("version")),
            _text(drift.get("text")).removesuffix(_COMMANDS),
            _time(drift.get("since")),
            tuple(_facts(status)),
            _number(status.get("quarantine")),
            _time(status.get("last_row")),
            _count(_mapping(status.get("event")).get("number")),
            tuple(_text(one.get("text")) for one in answers[: -_MOST_ANSWERS - 1 : -1]),
            status.get("undoable") is True,
            _undone(answers),
            columns,
            None if known is None else tuple(_row(one, columns) for one in reversed(known)),
        )

    @property
    def named(self) -> dict[str, int] | None:
        """The word that names its open event; None if there is none."""
        return None if self.event is None else {EVENT: self.event}

    @property
    def span(self) -> dict[str, float] | None:
        """The words that name all rows that it told of; None if their times are not known."""
        return None if self.last_row is None else up_to(self.last_row)


def clock_said(hours: Sequence[tuple[float, float, float]], told: ToldRow | None) -> str:
    """Says that rows are ahead of the clock or behind it as a zone is, and what to do; or nothing.

    ``hours`` are the newest, each with the times of its first and last row, and when the first was
    told. Nothing but a clock puts rows ahead. Behind they may be for many reasons: a zone is likely
    where two hours are so by the same half hours.
    """
    if told is None or not hours:
        return ""
    ahead = max(hours[0][0] - hours[0][2], hours[0][1] - told.received)
    if ahead > _CHANCE:
        return _zone_asked(_zone(ahead) or ahead)
    zones = [_zone(first - received) for first, _, received in hours]
    every = _number(_mapping(told.summary.get("status")).get("sync_seconds"))
    is_prompt = every is not None and every <= _CHANCE
    zone = zones[0] if is_prompt and len(zones) > 1 and zones[0] == zones[1] else None
    return _zone_asked(zone) if zone and zone >= -_MOST_BEHIND else ""


def _zone(ahead: float) -> float | None:
    """The zone by which rows are ahead, if what they are late beside that can be chance."""
    zone = math.ceil((ahead - _CHANCE / 10) / _HALF_HOUR) * _HALF_HOUR
    return zone if zone - ahead <= _CHANCE else None


def _zone_asked(ahead: float) -> str:
    lasts = f"{abs(ahead) / 60:.0f} min" if abs(ahead) < 3600 else f"{number(abs(ahead) / 3600)} h"
    return (
        f"Its rows are {lasts} {'ahead of' if ahead > 0 else 'behind'} the clock here: are their "
        "times local? Times without a zone are read as UTC: write them in UTC, or with their zone "
        "(2026-11-17T08:00:00+02:00)."
    )


def _facts(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the card of a device says: a title and a text each."""
    stated, since = _text(status.get("state")), _text(status.get("since"))
    state = _STATE_WORDS.get(stated, stated)
    missing, flagged = _number(status.get("rows_missing")), _mapping(status.get("flagged"))
    threshold = number(_number(status.get("threshold")))
    share, rate = _number(flagged.get("share")), _number(status.get("rate"))
    sync = _mapping(status.get("sync"))
    return [
        ("State", f"{state} since {since.replace('T', ' ')}" if since else state),
        (
            "Threshold",
            f"{threshold}; alarms after {counted(missing, 'row')}" if missing else threshold,
        ),
        ("Flagged", f"{_percent(share)} of rows, {_percent(rate)} stated"),
        *([("Unlike all others", unlike)] if (unlike := _text(status.get("unlike"))) else []),
        ("Last sync", _text(sync.get("said")) or "—"),
    ]


def _row(row: Mapping[str, Any], columns: tuple[str, ...]) -> WaitingRow:
    values = _mapping(row.get("values"))
    return WaitingRow(
        _moment(row.get("time")),
        _number(row.get("score")),
        tuple(_number(values.get(name)) for name in columns),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _undone(answers: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """The events of which the last answer is that it was undone."""
    last = {_count(one.get("event")): one.get("action") for one in answers}
    return frozenset(number for number, action in last.items() if number and action == UNDO)


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _number(value: Any) -> float | None:
    try:
        known = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if known else None
    except OverflowError:
        return None


def _moment(value: Any) -> float | None:
    """A time that a calendar has."""
    seconds = _number(value)
    return seconds if seconds is not None and 0.0 <= seconds < _END_OF_TIME else None


def _time(value: Any) -> float | None:
    """A time in ISO 8601 that a calendar has."""
    try:
        return _moment(stated_time("last_row", _text(value)))
    except BadInput:
        return None


def _text(value: Any) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _percent(share: float | None) -> str:
    return "—" if share is None else f"{number(share * 100)} %"
