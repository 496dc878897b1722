"""What an agent reports to a server with each sync: minutes, events and its status."""

import logging
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from elmgrove import __version__
from elmgrove.algebra.basis import Basis, columns_of
from elmgrove.detector.drift import Drift, Shift
from elmgrove.detector.events import Event
from elmgrove.detector.quarantine import Waiting
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.device.commands import Commands
from elmgrove.device.output import Observation
from elmgrove.device.settings import Settings
from elmgrove.device.status import status_of, told
from elmgrove.errors import BadInput, plain
from elmgrove.federation.commands import Command
from elmgrove.federation.member import Member, own_score, share_of_others
from elmgrove.federation.report import (
    MOST_BYTES_EVENTS,
    MOST_BYTES_STATUS,
    MOST_BYTES_WAITING,
    QUANTILES,
    Minute,
    Report,
    seconds_of,
)
from elmgrove.federation.schemas import (
    MOST_CONTRIBUTORS,
    MOST_EVENTS,
    MOST_MINUTES,
    MOST_WAITING,
    json_size,
)
from elmgrove.reading.times import json_when

log = logging.getLogger("elmgrove.device")

#: Letters of a name that are told.
NAME = 200
#: Scores that are held of a minute: of more rows the quantiles are those of as many that are drawn
#: by lot. The largest score is always that of all rows.
HELD = 512
#: Minutes of which scores are held, the newest: rows of several machines, or of an hour that comes
#: late, may come by turns.
OPEN = 3


@dataclass(eq=False)
class GrowingMinute:
    """A minute by now; of rows that come after ``close`` only counts and the largest are known."""

    rows: int = 0
    anomalous: int = 0
    threshold: float = math.inf
    largest: float = 0.0
    scores: list[float] | None = field(default_factory=list)
    quantiles: Sequence[float] = ()
    #: How many of its rows were told.
    reported: int = 0

    def close(self) -> None:
        self.quantiles, self.scores = self._quantiles(), None

    def fields(self, minute: int) -> list[Any]:
        limit = _figures(self.threshold, 6) if math.isfinite(self.threshold) else None
        scores = [_figures(score, 6) for score in (*self._quantiles(), self.largest)]
        return [minute, self.rows, self.anomalous, limit, *scores]

    def _quantiles(self) -> Sequence[float]:
        if self.scores is None:
            return self.quantiles
        found, last = sorted(self.scores), len(self.scores)
        return tuple(found[math.ceil(share * last) - 1] for share in QUANTILES[:-1])


class Minutes:
    """Counts rows by the minute of their own time; a minute that has grown is told again whole.

    Of more than ``MOST_MINUTES`` those are forgotten that got no row for longest.
    """

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self._pieces: dict[int, GrowingMinute] = {}
        for stated in known:
            with suppress(BadInput):  # before 1970: a clock that was never set
                minute = Minute.from_fields(stated)
                limit = math.inf if minute.threshold is None else minute.threshold
                *quantiles, largest = minute.scores
                self._pieces[minute.minute] = GrowingMinute(
                    minute.rows, minute.anomalous, limit, largest, None, quantiles
                )
        self._number: int | None = None
        self._piece = GrowingMinute()
        self._open: list[GrowingMinute] = []
        self._under_way: list[tuple[GrowingMinute, int]] = []
        # The same rows give the same quantiles.
        self._random = Random(0).random

    def follow(self, verdict: Verdict) -> None:
        when = verdict.time
        number = int((time.time() if when is None else when) // 60)
        piece = self._piece if number == self._number else self._turned(number)
        piece.rows += 1
        piece.anomalous += verdict.anomalous
        piece.threshold = verdict.threshold
        # As JSON holds it, which knows no infinity; what is no number is the largest.
        score = verdict.score if verdict.score < sys.float_info.max else sys.float_info.max
        piece.largest = max(piece.largest, score)
        if piece.scores is None:
            return
        if len(piece.scores) < HELD:
            piece.scores.append(score)
        elif (place := int(self._random() * piece.rows)) < HELD:
            piece.scores[place] = score

    def untold(self) -> tuple[Minute, ...]:
        self._under_way, found = [], list[Minute]()
        for number, piece in self._pieces.items():
            if piece.reported != piece.rows:
                self._under_way.append((piece, piece.rows))
                with suppress(BadInput):  # before 1970
                    found.append(Minute.from_fields(piece.fields(number)))
        return tuple(found)

    def arrived(self) -> None:
        """Takes note that what ``untold`` gave last has arrived."""
        for piece, rows in self._under_way:
            piece.reported = rows
        self._under_way = []

    @property
    def fields(self) -> list[list[Any]]:
        """What a restart must know: what was not told yet, and the minute that still grows."""
        return [
            piece.fields(number)
            for number, piece in self._pieces.items()
            if piece.reported != piece.rows or piece is self._piece
        ]

    def _turned(self, number: int) -> GrowingMinute:
        piece = self._pieces.pop(number, None)
        if piece is None:
            piece = GrowingMinute()
            self._open.append(piece)
            if len(self._open) > OPEN:
                self._open.pop(0).close()
            if len(self._pieces) == MOST_MINUTES:
                del self._pieces[next(iter(self._pieces))]
        # Behind all others.
        self._pieces[number] = piece
        self._number, self._piece = number, piece
        return piece


class AgentReports:
    """Reports how a device is doing: each minute and event until it was heard.

    That is counts, scores, names of columns, and of events a few readings (``Redaction``). Rows,
    and why a row could not be used, which may quote it, are told with ``reports = rows`` alone.
    ``look`` notes in the member what its status shows beside its state.
    """

    def __init__(
        self, settings: Settings, member: Member, commands: Commands, look: Callable[[], None]
    ) -> None:
        self._settings, self._member, self._commands = settings, member, commands
        self._look = look
        self._redaction = Redaction(member.detector.basis, member.notes.get("chosen", {}))
        self._last_row: float | None = member.notes.get("last_row")
        self._minutes = Minutes(member.notes.get("minutes", ()))
        # The events that were heard as they are, and those of the report under way.
        self._heard: tuple[Event, ...] = ()
        self._under_way: tuple[Event, ...] = ()
        self._reported_failure = False

    def observe(self, seen: Observation) -> None:
        verdict = seen.verdict
        if verdict is None:
            return
        self._minutes.follow(verdict)
        self._last_row = verdict.time
        # Before anybody is told, by rows that are read again if the device is killed now.
        if verdict.alarm and (event := self._member.detector.events.open) is not None:
            self._redaction.choose(event)

    def note(self) -> None:
        """Notes what a restart must know."""
        self._member.notes["minutes"] = self._minutes.fields
        self._member.notes["chosen"] = self._redaction.chosen
        self._member.notes["last_row"] = self._last_row

    def make(self) -> Report | None:
        """Says how the device is doing now; None where that can't be said, which is logged once."""
        try:
            self._look()
            return self._made()
        except Exception as error:  # whatever it is, a sync does not fail by it
            if not self._reported_failure:
                log.warning("the device's status can't be reported: %r", error, exc_info=error)
            self._reported_failure = True
            return None

    def heard(self, commands: Sequence[Command]) -> None:
        """Takes note that the report that was last made has arrived, and what is asked now."""
        self._minutes.arrived()
        self._heard = self._under_way
        self._commands.arrived()
        self._commands.take(commands)

    @contextmanager
    def comparing(self) -> Iterator[None]:
        """Notes how anomalous the device's own rows are to its model before and after an update.

        The update is what is done inside.
        """
        before = own_score(self._member)
        yield
        after = own_score(self._member)
        changed = {"time": time.time(), "before": before, "after": after}
        self._member.notes["cooperation"] = changed

    def _made(self) -> Report:
        member, events = self._member, self._member.detector.events
        shows, waiting = self._settings.reports == "rows", member.detector.quarantine.waiting
        now = (*events.closed, *(() if events.open is None else (events.open,)))
        new = [event for event in now if event not in self._heard]
        self._under_way, status = now, self._status()
        return Report(
            member.name,
            time.time(),
            status,
            self._minutes.untold(),
            tuple(events_within(new if shows else [*map(self._redaction.event, new)])),
            self._cooperation(status),
            self._commands.results(),
            tuple(rows_within(waiting, member.detector.basis)) if shows else None,
        )

    def _status(self) -> dict[str, Any]:
        settings, status = self._settings, status_of(self._member)
        # They are told as events, once.
        del status["last_events"]
        if settings.reports != "rows":
            # What says more of single rows than it may.
            event, drift = self._member.detector.events.open, self._member.detector.drift.report
            status["event"] = event and told(self._redaction.event(event))
            status["drift"] = drift and told(discreet(drift))
            rows = status["rows"] or {}
            status["rows"] = {name: one for name, one in rows.items() if name != "reason"} or None
        status["version"], status["sync_seconds"] = __version__, settings.sync_seconds or None
        status["last_row"] = None if self._last_row is None else json_when(self._last_row)
        return status_within(status)

    def _cooperation(self, status: dict[str, Any]) -> dict[str, Any] | None:
        changed = self._member.notes.get("cooperation")
        if changed is None or (not status["others"] and changed["before"] == changed["after"]):
            return None
        borrowed, merged = status["borrows"]["rows"], self._member.merged
        origins = [held.origin for held in self._member.ledger]
        origins += [] if merged is None else [one for it in merged.labels for one in it.names]
        names = dict.fromkeys(plain(name, NAME) for name in origins)
        return {
            **changed,
            "others": status["others"],
            "borrowed_rows": borrowed,
            "share": share_of_others(self._member, borrowed),
            "contributors": list(names)[:MOST_CONTRIBUTORS],
        }


def cleaned(value: Any) -> Any:
    """Makes fields what any JSON and any data base holds: plain texts, and numbers or null.

    >>> cleaned({"flow\\n": [math.inf, 2.5, "x\\0"]})
    {'flow': [None, 2.5, 'x?']}
    """
    if isinstance(value, dict):
        return {plain(str(key), NAME): cleaned(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(one) for one in value]
    if isinstance(value, str):
        return plain(value, 1000)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def status_within(status: dict[str, Any]) -> dict[str, Any]:
    """A status of bounded size; what was cut is said in ``cut``."""
    found: dict[str, Any] = cleaned(status)
    if json_size(found) > MOST_BYTES_STATUS:
        found["cut"] = "without causes of the event and the drift, which would be too long"
        for name, inside in (("event", "causes"), ("drift", "sensors"), ("drift", "relations")):
            if found[name] is not None:
                found[name] |= {inside: []}
    return found


def events_within(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The newest events, as many as fit; first they lose causes."""
    found = list[dict[str, Any]]()
    for causes in (8, 3, 0):
        told_of = [_event(event, causes) for event in events[-MOST_EVENTS:]]
        found = [one for one in told_of if one is not None]
        if json_size(found) <= MOST_BYTES_EVENTS:
            return found
    while json_size(found) > MOST_BYTES_EVENTS:
        del found[0]
    return found


def _event(event: Event, most: int) -> dict[str, Any] | None:
    """What there is to tell of an event; None if it is nothing that a calendar or JSON has."""
    fields: dict[str, Any] = cleaned(told(event))
    causes = [one | {"feature": plain(one["feature"], NAME)} for one in fields["causes"]]
    fields["causes"] = [one for one in causes if one["share"] is not None][:most]
    if len(fields["causes"]) < len(causes):
        fields["text"] += f" ({len(fields['causes'])} of {len(causes)} causes are shown)"
    try:
        for name in ("begin", "peak_at", "end"):
            seconds_of(fields[name] or 0)
    except ValueError:
        return None
    return None if None in (fields["peak"], fields["threshold"]) else fields


def rows_within(waiting: Sequence[Waiting], basis: Basis) -> list[dict[str, Any]]:
    """The newest anomalous rows with their values, as many as fit.

    Of rows with very many columns there is one, with the first columns; ``cut`` says so.
    """
    found, size = list[dict[str, Any]](), 2
    for one in reversed(list(waiting)[-MOST_WAITING:]):
        row = _row(one, basis)
        size += json_size(row) + 1
        if size > MOST_BYTES_WAITING and found:
            break
        found.insert(0, row)
    for row in found[:1] if size > MOST_BYTES_WAITING else ():
        columns = list(row["values"].items())
        shown = len(columns)
        while json_size(row) > MOST_BYTES_WAITING:
            shown //= 2
            row["values"] = dict(columns[:shown])
            row["cut"] = f"the first {shown} of {len(columns)} columns"
    return found


def _row(one: Waiting, basis: Basis) -> dict[str, Any]:
    """A row in the data's own units: of a window the last one."""
    values, scaling = np.asarray(one.row[-basis.layer.inputs :], np.float64), basis.scaling
    if scaling.kind != "none":
        values = values * scaling.scale + scaling.shift
    told_of = [_figures(value, 9) for value in values.tolist()]
    named = dict(zip(basis.names, told_of, strict=True))
    row: dict[str, Any] = cleaned({"time": one.time, "score": one.score, "values": named})
    return row


class Redaction:
    """Leaves the readings of few sensors in an event: rounded, and never those of a whole row.

    What was seen and what was expected of a sensor are two equations about a row, and the peak one
    more: all that are told are fewer than the sensors. The sensors are ``chosen`` when the event
    opens, so that no row of it is told piece by piece.
    """

    def __init__(self, basis: Basis, chosen: dict[str, list[str]]) -> None:
        self.chosen = chosen
        self._sensors = _sensors(basis)
        self._most = max(min(3, len(set(self._sensors.values())) // 2 - 1), 0)

    def choose(self, event: Event) -> list[str]:
        """Finds the sensors whose readings are told: those that explained most the first time."""
        key = f"{event.number} {event.begin}"
        if key not in self.chosen:
            sensors = dict.fromkeys(self._sensor(cause) for cause in event.causes)
            newest = list(self.chosen.items())[1 - MOST_EVENTS :]
            self.chosen = dict([*newest, (key, list(sensors)[: self._most])])
        return self.chosen[key]

    def event(self, event: Event) -> Event:
        chosen = self.choose(event)
        causes = (_rounded(one, self._sensor(one) in chosen) for one in event.causes)
        return replace(event, causes=tuple(causes), peak=_figures(event.peak, 3))

    def _sensor(self, cause: Cause) -> str:
        # A state may remember an event of other columns.
        return self._sensors.get(cause.feature, cause.feature)


def discreet(drift: Drift) -> Drift:
    """Gives a drift as it is told: means of so few figures that two of them tell of no row between.

    They are of all rows since the drift began, and told again with each sync.
    """
    return replace(drift, sensors=tuple(map(_coarse, drift.sensors)))


def _sensors(basis: Basis) -> dict[str, str]:
    """Says whose each input is: a word is its column's, and a band that of the first beside it."""
    words = dict(basis.categories)
    first = [basis.names[place - place % basis.bands] for place in range(len(basis.names))]
    return {name: columns_of([one], words)[0] for name, one in zip(basis.names, first, strict=True)}


def _rounded(cause: Cause, shown: bool) -> Cause:
    seen, expected = (
        _figures(value, 3) if shown else math.nan for value in (cause.seen, cause.expected)
    )
    # A share is about the other sensors, too.
    return cause._replace(share=round(cause.share, 1), seen=seen, expected=expected)


def _coarse(shift: Shift) -> Shift:
    """Levels to two figures of what changed, and all else to two figures of its own."""
    change = shift.varies - shift.varied if shift.by_spread else shift.after - shift.before
    moved = 0.0 < abs(change) < math.inf
    digits = 1 - math.floor(math.log10(abs(change))) if moved else 0
    fields: dict[str, Any] = shift._asdict()
    for name in ("percent", "size", "varied", "varies", "per_hour", "per_row"):
        fields[name] = None if fields[name] is None else _figures(fields[name], 2)
    before, after = (round(float(level), digits) for level in (shift.before, shift.after))
    return Shift(**fields | {"before": before, "after": after})


def _figures(value: float, figures: int) -> float:
    return float(f"{value:.{figures}g}")
