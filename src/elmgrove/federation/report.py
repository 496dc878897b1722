"""Reports: what a device reports to a server with a sync, and never a row unless it may."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from elmgrove.errors import BadInput, require_time
from elmgrove.federation.commands import CommandResult
from elmgrove.federation.contribution import require_origin
from elmgrove.federation.schemas import MinuteNumbers, ReportMessage, check, read

#: The quantiles of a minute's scores; the last is the largest score.
QUANTILES = (0.5, 0.9, 0.99, 1.0)
#: Bytes of a report as JSON: more than all its parts may have together.
MOST_BYTES_REPORT = 512 * 1024
#: Bytes of a report's status.
MOST_BYTES_STATUS = 32 * 1024
#: Bytes of a report's events.
MOST_BYTES_EVENTS = 96 * 1024
#: Bytes of a report's rows of the quarantine.
MOST_BYTES_WAITING = 96 * 1024
#: Bytes of a report's results.
MOST_BYTES_RESULTS = 16 * 1024


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
        _, rows, anomalous, threshold, *scores = read(MinuteNumbers, self.fields)
        if anomalous > rows or scores != sorted(scores):
            raise BadInput("a minute has no more anomalous rows than rows, and scores in order")
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "scores", tuple(scores))

    @property
    def fields(self) -> list[Any]:
        """The minute as JSON holds it: its numbers one after another, since there are many."""
        return [self.minute, self.rows, self.anomalous, self.threshold, *self.scores]

    @classmethod
    def from_fields(cls, stated: Any) -> "Minute":
        """Makes a minute of what ``fields`` gave; ``BadInput`` names the path that is wrong."""
        read(MinuteNumbers, stated)
        minute, rows, anomalous, threshold, *scores = stated
        return cls(minute, rows, anomalous, threshold, tuple(scores))


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
    results: tuple[CommandResult, ...] = ()
    quarantine: tuple[dict[str, Any], ...] | None = None

    def __post_init__(self) -> None:
        sizes = {
            "status": MOST_BYTES_STATUS,
            "events": MOST_BYTES_EVENTS,
            "cooperation": 16 * 1024,
            "results": MOST_BYTES_RESULTS,
            "quarantine": MOST_BYTES_WAITING,
        }
        check(ReportMessage, self.fields, sizes)
        require_origin(self.device)
        if len({one.minute for one in self.minutes}) < len(self.minutes):
            raise BadInput("$.minutes: expected each minute once")
        events = {(event["number"], str(event["begin"])) for event in self.events}
        if len(events) < len(self.events):
            raise BadInput("$.events: expected each event once")
        for event in self.events:
            _require_calendar(event["begin"], event["end"], event["peak_at"])

    @property
    def state(self) -> str:
        """The state of the device: learning, watching or changing."""
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
            "format": 1,
            "device": self.device,
            "time": self.time,
            "status": self.status,
            "minutes": [one.fields for one in self.minutes],
            "events": list(self.events),
            "cooperation": self.cooperation,
            "results": [one.fields for one in self.results],
            "quarantine": None if self.quarantine is None else list(self.quarantine),
        }

    @classmethod
    def from_fields(cls, stated: Any) -> "Report":
        """Makes a report of what ``fields`` gave; ``BadInput`` names the path that is wrong."""
        read(ReportMessage, stated)
        waiting = stated["quarantine"]
        return cls(
            stated["device"],
            float(stated["time"]),
            stated["status"],
            tuple(map(Minute.from_fields, stated["minutes"])),
            tuple(stated["events"]),
            stated["cooperation"],
            tuple(map(CommandResult.from_fields, stated["results"])),
            None if waiting is None else tuple(waiting),
        )


def _require_calendar(*times: str | int | None) -> None:
    for when in times:
        try:
            if isinstance(when, str):
                require_time(datetime.fromisoformat(when).timestamp())
        except (ValueError, OverflowError) as error:
            raise BadInput(f"$.events: {when!a:.60} is in no calendar") from error


def seconds_of(when: str | int) -> float | None:
    """Gives an event's time in seconds since 1970; None where it is the number of a row.

    >>> seconds_of("2024-05-01T14:20:00Z"), seconds_of(17)
    (1714573200.0, None)
    """
    return None if isinstance(when, int) else datetime.fromisoformat(when).timestamp()
