"""Reports: what a device reports to a server with a sync, and never a row unless it may."""

import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from elmgrove.detector.decision import CHANGING, LEARNING, WATCHING
from elmgrove.errors import BadInput
from elmgrove.federation.commands import CommandResult
from elmgrove.federation.contribution import require_origin
from elmgrove.federation.validation import (
    require_count,
    require_fields,
    require_flag,
    require_json,
    require_line,
    require_list,
    require_moment,
    require_number,
    require_text,
)

REPORT_FORMAT = 1
#: The quantiles of a minute's scores; the last is the largest score.
QUANTILES = (0.5, 0.9, 0.99, 1.0)
#: The states that a device can tell of.
STATES = (LEARNING, WATCHING, CHANGING)
#: Minutes of one report.
MOST_MINUTES = 1440
#: Events of one report: the open one, and the last that ended.
MOST_EVENTS = 21
#: Rows of the quarantine in one report.
MOST_WAITING = 50
#: Devices that contributed, in one report.
MOST_CONTRIBUTORS = 50
#: Outcomes of one report.
MOST_RESULTS = 20
#: Bytes of a report as JSON: more than all its parts may have together.
MOST_BYTES_REPORT = 512 * 1024
#: Bytes of a report's status.
MOST_BYTES_STATUS = 32 * 1024
#: Bytes of a report's events.
MOST_BYTES_EVENTS = 96 * 1024
#: Bytes of a report's rows of the quarantine.
MOST_BYTES_WAITING = 96 * 1024
#: Bytes of a report's outcomes.
MOST_BYTES_RESULTS = 16 * 1024
_MOST_BYTES_COOPERATION = 16 * 1024

# Numbers of a minute; rows of one; minutes whose end is in the year 9999, too.
_NUMBERS = 4 + len(QUANTILES)
_MOST_ROWS = 10**9
_LAST_MINUTE = 4_223_371_678
# Other devices that know rows of an event.
_MOST_KNOWING = 20
# Seconds between two syncs: a hundred years.
_LONGEST = 3.2e9
_WHEN = ("begin", "end", "peak_at")
_EVENT = (
    "number",
    *_WHEN,
    "peak",
    "threshold",
    "rows",
    "changing",
    "answered",
    "known",
    "causes",
    "text",
)
_CAUSE = ("feature", "share", "seen", "expected", "ago")
_COOPERATION = ("time", "before", "after", "others", "borrowed_rows", "share", "contributors")


@dataclass(frozen=True)
class Minute:
    """Counts and score quantiles of the rows of one minute, by the rows' own time (UTC).

    ``minute`` counts from 1970. ``threshold`` is the last of the minute, None while there is none.
    A minute that grew is told again whole: the later one replaces the earlier.
    """

    minute: int
    rows: int
    anomalous: int
    threshold: float | None
    scores: tuple[float, float, float, float]

    def __post_init__(self) -> None:
        require_count("minute", self.minute, _LAST_MINUTE)
        rows = require_count("rows", self.rows, _MOST_ROWS)
        require_count("anomalous", self.anomalous, rows)
        if self.threshold is not None:
            object.__setattr__(self, "threshold", require_number("threshold", self.threshold))
        scores = [require_number("scores", one) for one in require_list("scores", self.scores, 4)]
        if len(scores) != len(QUANTILES) or scores != sorted(scores):
            raise BadInput(f"scores are {len(QUANTILES)} quantiles, none below the one before")
        object.__setattr__(self, "scores", tuple(scores))

    @property
    def fields(self) -> list[Any]:
        """The minute as JSON holds it: its numbers one after another, since there are many."""
        counts = (self.minute, self.rows, self.anomalous)
        return [*counts, self.threshold, *self.scores]

    @classmethod
    def from_fields(cls, stated: Any) -> "Minute":
        """Makes a minute of what ``fields`` gave; ``BadInput`` names the field that is wrong."""
        numbers = require_list("a minute", stated, _NUMBERS)
        if len(numbers) != _NUMBERS:
            raise BadInput(f"a minute has {_NUMBERS} numbers, not {len(numbers)}")
        minute, rows, anomalous, threshold, *scores = numbers
        quantiles: Any = tuple(scores)
        return cls(minute, rows, anomalous, threshold, quantiles)


@dataclass(frozen=True)
class Report:
    """How a device is doing: its ``status``, minutes, events, and what came of its commands.

    ``time`` is the device's clock. ``status`` is what the device's own status tells, with the
    ``version`` of its Elmgrove and the seconds between syncs (``sync_seconds``). ``events`` are
    the fields of events, each with its ``text``; of a cause ``seen`` and ``expected`` are None
    where the device keeps its readings to itself. ``cooperation`` is what the last sync that
    changed the model changed: mean scores of the device's rows before and after it, and how much
    comes from whom. ``quarantine`` are anomalous rows with their values; None unless the device's
    setting allows that they are shown.
    """

    device: str
    time: float
    status: dict[str, Any]
    minutes: tuple[Minute, ...] = ()
    events: tuple[dict[str, Any], ...] = ()
    cooperation: dict[str, Any] | None = None
    outcomes: tuple[CommandResult, ...] = ()
    quarantine: tuple[dict[str, Any], ...] | None = None

    def __post_init__(self) -> None:
        require_origin(require_line("device", self.device, 200))
        require_moment("time", self.time)
        _require_status(self.status)
        _require_events(self.events)
        if self.cooperation is not None:
            _require_cooperation(self.cooperation)
        if len(self.minutes) > MOST_MINUTES or len({m.minute for m in self.minutes}) < len(
            self.minutes
        ):
            raise BadInput(f"minutes are at most {MOST_MINUTES}, each once")
        if len(self.outcomes) > MOST_RESULTS:
            raise BadInput(f"outcomes are at most {MOST_RESULTS}")
        require_json("outcomes", [one.fields for one in self.outcomes], MOST_BYTES_RESULTS)
        if self.quarantine is not None:
            _require_waiting(self.quarantine)

    @property
    def state(self) -> str:
        """The state of the device, one of ``STATES``."""
        return str(self.status["state"])

    @property
    def learned(self) -> int:
        """How many rows it has learned."""
        return int(self.status["learned"])

    @property
    def event_open(self) -> bool:
        """Whether an event is open."""
        return self.status["event"] is not None

    @property
    def drifts(self) -> bool:
        """Whether what is normal has changed, and nobody has said what to make of it."""
        return self.status["drift"] is not None

    @property
    def fields(self) -> dict[str, Any]:
        """The report as JSON holds it."""
        return {
            "format": REPORT_FORMAT,
            "device": self.device,
            "time": self.time,
            "status": self.status,
            "minutes": [one.fields for one in self.minutes],
            "events": list(self.events),
            "cooperation": self.cooperation,
            "outcomes": [one.fields for one in self.outcomes],
            "quarantine": None if self.quarantine is None else list(self.quarantine),
        }

    @classmethod
    def from_fields(cls, stated: Any) -> "Report":
        """Makes a report of what ``fields`` gave; ``BadInput`` names the field that is wrong."""
        known = ("format", *cls.__dataclass_fields__)
        if isinstance(stated, dict) and stated.get("format") not in (None, REPORT_FORMAT):
            raise BadInput(f"format of a report is {REPORT_FORMAT}: a newer Elmgrove wrote this")
        fields = require_fields("a report", stated, known)
        require_count("format", fields["format"])
        minutes = require_list("minutes", fields["minutes"], MOST_MINUTES)
        outcomes = require_list("outcomes", fields["outcomes"], MOST_RESULTS)
        waiting = fields["quarantine"]
        return cls(
            fields["device"],
            require_moment("time", fields["time"]),
            fields["status"],
            tuple(map(Minute.from_fields, minutes)),
            tuple(require_list("events", fields["events"], MOST_EVENTS)),
            fields["cooperation"],
            tuple(map(CommandResult.from_fields, outcomes)),
            None if waiting is None else tuple(require_list("quarantine", waiting, MOST_WAITING)),
        )


def seconds_of(when: str | int) -> float | None:
    """Gives an event's time in seconds since 1970; None where it is the number of a row.

    >>> seconds_of("2024-05-01T14:20:00Z"), seconds_of(17)
    (1714573200.0, None)
    """
    return None if isinstance(when, int) else datetime.fromisoformat(when).timestamp()


def _require_status(status: Any) -> None:
    if not isinstance(status, dict):
        raise BadInput("status is an object of JSON")
    require_json("status", status, MOST_BYTES_STATUS)
    for name in ("state", "learned", "event", "drift", "version", "sync_seconds"):
        if name not in status:
            raise BadInput(f"status has no {name!r}")
    if status["state"] not in STATES:
        raise BadInput(f"state in status is one of {', '.join(STATES)}")
    require_count("learned in status", status["learned"])
    for name in ("event", "drift"):
        if not isinstance(status[name], dict | None):
            raise BadInput(f"{name} in status is an object of JSON, or null")
    require_line("version in status", status["version"], 64)
    if status["sync_seconds"] is not None:
        require_number("sync_seconds in status", status["sync_seconds"], 0.0, _LONGEST)


def _require_events(events: Any) -> None:
    for event in require_list("events", events, MOST_EVENTS):
        _require_event(event)
    require_json("events", events, MOST_BYTES_EVENTS)
    if len({(event["number"], str(event["begin"])) for event in events}) < len(events):
        raise BadInput("events are there once each")


def _require_event(stated: Any) -> None:
    event = require_fields("an event", stated, _EVENT)
    require_count("number of an event", event["number"])
    require_count("rows of an event", event["rows"])
    for name in (name for name in _WHEN if name != "end" or event["end"] is not None):
        _require_when(f"{name} of an event", event[name])
    for name in ("peak", "threshold"):
        require_number(f"{name} of an event", event[name])
    require_flag("changing of an event", event["changing"])
    if event["answered"] is not None:
        require_text("answered of an event", event["answered"], 400)
    require_text("text of an event", event["text"], 4000)
    for name in require_list("known of an event", event["known"], _MOST_KNOWING):
        require_text("known of an event", name, 1000)
    for one in require_list("causes of an event", event["causes"], 20):
        cause = require_fields("a cause", one, _CAUSE)
        require_text("feature of a cause", cause["feature"], 1000)
        require_count("ago of a cause", cause["ago"])
        for name in (name for name in _CAUSE[1:4] if cause[name] is not None):
            require_number(f"{name} of a cause", cause[name])


def _require_when(name: str, when: Any) -> None:
    if isinstance(when, str):
        try:
            # Without a zone it would be the local time of this machine.
            if len(when) <= 40 and datetime.fromisoformat(when).tzinfo is not None:
                require_moment(name, datetime.fromisoformat(when).timestamp())
                return
        except (ValueError, OverflowError):
            pass
        raise BadInput(f"{name} is a time in ISO 8601 with its zone, not {when!a:.60}")
    require_count(name, when)


def _require_cooperation(stated: Any) -> None:
    cooperation = require_fields("cooperation", stated, _COOPERATION)
    require_moment("time of cooperation", cooperation["time"])
    require_count("others of cooperation", cooperation["others"])
    for name in ("before", "after", "borrowed_rows", "share"):
        if cooperation[name] is not None:
            most = {"share": 1.0}.get(name, sys.float_info.max)
            require_number(f"{name} of cooperation", cooperation[name], 0.0, most)
    names = require_list("contributors", cooperation["contributors"], MOST_CONTRIBUTORS)
    for name in names:
        require_line("contributors", name, 200)
    require_json("cooperation", cooperation, _MOST_BYTES_COOPERATION)


def _require_waiting(waiting: Any) -> None:
    for row in require_list("quarantine", waiting, MOST_WAITING):
        if not isinstance(row, dict):
            raise BadInput("quarantine holds objects of JSON, one for each row")
    require_json("quarantine", waiting, MOST_BYTES_WAITING)
