"""What an agent reports to a server with each sync: minutes, events and its status."""

import logging
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

from elmgrove import __version__
from elmgrove.detector.events import Event, json_when
from elmgrove.detector.verdict import Verdict
from elmgrove.device.commands import Commands
from elmgrove.device.redaction import (
    NAME,
    Redaction,
    discreet,
    events_within,
    rows_within,
    status_within,
)
from elmgrove.device.settings import Settings
from elmgrove.device.status import status_of, told
from elmgrove.errors import BadInput
from elmgrove.exchange.responses import plain
from elmgrove.federation.commands import Command
from elmgrove.federation.member import Member, own_score, share_of_others
from elmgrove.federation.report import MOST_CONTRIBUTORS, MOST_MINUTES, QUANTILES, Minute, Report

#: Scores that are held of a minute: of so many rows the quantiles are exact, of more they are those
#: of as many that are drawn by lot. The largest score is always that of all rows.
HELD = 512
#: Minutes of which scores are held, the newest: rows of several machines, or of an hour that comes
#: late, may come by turns.
OPEN = 3
_SECONDS = 60
# Figures of a score that are told: nobody sees more of them in a chart.
_FIGURES = 6


class GrowingMinute:
    """What is known of a minute by now; ``told`` is how many of its rows were told.

    Its scores are held while it is open. Of rows that come after that only the counts and the
    largest score are known.
    """

    __slots__ = (
        *("rows", "anomalous", "told", "threshold"),
        *("largest", "scores", "quantiles"),
    )

    def __init__(self) -> None:
        self.rows = self.anomalous = self.told = 0
        self.threshold, self.largest = math.inf, 0.0
        self.scores: list[float] | None = []
        self.quantiles: tuple[float, ...] = ()

    def close(self) -> None:
        """Lets go of the scores."""
        self.quantiles, self.scores = self._quantiles(), None

    def fields(self, minute: int) -> list[Any]:
        """Gives what there is to tell, as JSON holds it: the fields of a ``Minute``."""
        limit = _told(self.threshold) if math.isfinite(self.threshold) else None
        scores = [*map(_told, self._quantiles()), _told(self.largest)]
        return [minute, self.rows, self.anomalous, limit, *scores]

    def _quantiles(self) -> tuple[float, ...]:
        """Finds the quantiles of the scores, each one that was seen, but for the largest of all."""
        if self.scores is None:
            return self.quantiles
        found, last = sorted(self.scores), len(self.scores)
        return tuple(found[math.ceil(share * last) - 1] for share in QUANTILES[:-1])

    @classmethod
    def of(cls, minute: Minute) -> "GrowingMinute":
        """Makes what an agent goes on with that was started again."""
        made = cls()
        made.rows, made.anomalous = minute.rows, minute.anomalous
        made.threshold = math.inf if minute.threshold is None else minute.threshold
        *made_of, made.largest = minute.scores
        made.quantiles, made.scores = tuple(made_of), None
        return made


class Minutes:
    """Counts rows by the minute of their own time, and remembers the newest minutes.

    A minute is told whole whenever it has grown since it was last told: what comes later takes the
    place of what came before. Of more than ``MOST_MINUTES`` those are forgotten that got no row for
    longest. A row costs about a microsecond.
    """

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self._pieces: dict[int, GrowingMinute] = {}
        for stated in known:
            with suppress(BadInput):  # before 1970: a clock that was never set
                minute = Minute.from_fields(stated)
                self._pieces[minute.minute] = GrowingMinute.of(minute)
        self._number: int | None = None
        self._piece = GrowingMinute()
        self._open: list[GrowingMinute] = []
        self._under_way: list[tuple[GrowingMinute, int]] = []
        # The same rows give the same quantiles.
        self._random = Random(0).random

    def follow(self, verdict: Verdict) -> None:
        """Counts a row."""
        when = verdict.time
        number = int((time.time() if when is None else when) // _SECONDS)
        piece = self._piece if number == self._number else self._turned(number)
        piece.rows += 1
        piece.anomalous += verdict.anomalous
        piece.threshold = verdict.threshold
        # As JSON holds it, which knows no infinity; what is no number is the largest.
        score = verdict.score if verdict.score < sys.float_info.max else sys.float_info.max
        if score > piece.largest:
            piece.largest = score
        held = piece.scores
        if held is None:
            return
        if len(held) < HELD:
            held.append(score)
        elif (place := int(self._random() * piece.rows)) < HELD:
            held[place] = score

    def untold(self) -> tuple[Minute, ...]:
        """Gives the minutes that grew since they were told, the one that grew last at the end."""
        self._under_way, found = [], list[Minute]()
        for number, piece in self._pieces.items():
            if piece.told != piece.rows:
                self._under_way.append((piece, piece.rows))
                with suppress(BadInput):  # before 1970
                    found.append(Minute.from_fields(piece.fields(number)))
        return tuple(found)

    def told(self) -> None:
        """Takes note that what ``untold`` gave last has arrived."""
        for piece, rows in self._under_way:
            piece.told = rows
        self._under_way = []

    @property
    def fields(self) -> list[list[Any]]:
        """What a restart must know: what was not told yet, and the minute that still grows."""
        return [
            piece.fields(number)
            for number, piece in self._pieces.items()
            if piece.told != piece.rows or piece is self._piece
        ]

    def _turned(self, number: int) -> GrowingMinute:
        """Turns to another minute, maybe one of before."""
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


def _told(score: float) -> float:
    return float(f"{score:.{_FIGURES}g}")


log = logging.getLogger("elmgrove.device")

#: The member's notes of minutes that were not told yet, of what the last sync that updated the
#: model changed, of the sensors whose readings are told of events, and of when the last row was.
MINUTES, COOPERATION, CHOSEN, LAST_ROW = "minutes", "cooperation", "chosen", "last_row"


class AgentReports:
    """Gathers how a device is doing, and says so; each minute and event until it was heard.

    What is told are counts, scores, names of columns, and of events a few readings
    (``Redaction``). Rows are told with the setting ``show_rows`` alone; so is why a row could not
    be used, which may quote it. All of it is bounded: a report has at most ``MOST_BYTES_REPORT``.
    ``look`` notes in the member what its status shows beside its state.
    """

    def __init__(
        self, settings: Settings, member: Member, commands: Commands, look: Callable[[], None]
    ) -> None:
        self._settings, self._member, self._commands = settings, member, commands
        self._look = look
        self._discretion = Redaction(member.detector.basis, member.notes.get(CHOSEN, {}))
        self._last_row: float | None = member.notes.get(LAST_ROW)
        self._minutes = Minutes(member.notes.get(MINUTES, ()))
        # The events that were heard as they are, and those of the report under way.
        self._heard: tuple[Event, ...] = ()
        self._under_way: tuple[Event, ...] = ()
        self._told_trouble = False

    def follow(self, verdict: Verdict) -> None:
        """Takes in a row."""
        self._minutes.follow(verdict)
        self._last_row = verdict.time
        # Before anybody is told, by rows that are read again if the device is killed now.
        if verdict.alarm and (event := self._member.detector.events.open) is not None:
            self._discretion.choose(event)

    def note(self) -> None:
        """Notes in the member what a restart must know."""
        notes = {MINUTES: self._minutes.fields, CHOSEN: self._discretion.chosen}
        self._member.notes.update(notes | {LAST_ROW: self._last_row})

    def make(self) -> Report | None:
        """Says how the device is doing now; None where that can't be said, which is logged once."""
        try:
            self._look()
            return self._made()
        except Exception as error:  # whatever it is, a sync does not fail by it
            if not self._told_trouble:
                log.warning("the device's status can't be reported: %r", error, exc_info=error)
            self._told_trouble = True
            return None

    def heard(self, commands: Sequence[Command]) -> None:
        """Takes note that the report that was last made has arrived, and what is asked now."""
        self._minutes.told()
        self._heard = self._under_way
        self._commands.told()
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
        self._member.notes[COOPERATION] = changed

    def _made(self) -> Report:
        member, events = self._member, self._member.detector.events
        shows, waiting = self._settings.show_rows, member.detector.quarantine.waiting
        now = (*events.closed, *(() if events.open is None else (events.open,)))
        new = [event for event in now if event not in self._heard]
        self._under_way, status = now, self._status()
        return Report(
            member.name,
            time.time(),
            status,
            self._minutes.untold(),
            tuple(events_within(new if shows else [*map(self._discretion.event, new)])),
            self._cooperation(status),
            self._commands.outcomes(),
            tuple(rows_within(waiting, member.detector.basis)) if shows else None,
        )

    def _status(self) -> dict[str, Any]:
        settings, status = self._settings, status_of(self._member)
        # They are told as events, once.
        del status["last_events"]
        if not settings.show_rows:
            status |= self._without_rows(status)
        status["version"], status["sync_seconds"] = __version__, settings.sync_seconds or None
        status["last_row"] = None if self._last_row is None else json_when(self._last_row)
        return status_within(status)

    def _without_rows(self, status: dict[str, Any]) -> dict[str, Any]:
        """What of a status is told otherwise, since it says more of single rows than it may."""
        detector, rows = self._member.detector, status["rows"]
        event, drift = detector.events.open, detector.drift.report
        return {
            "event": event and told(self._discretion.event(event)),
            "drift": drift and told(discreet(drift)),
            "rows": rows and {name: one for name, one in rows.items() if name != "reason"},
        }

    def _cooperation(self, status: dict[str, Any]) -> dict[str, Any] | None:
        changed = self._member.notes.get(COOPERATION)
        if changed is None or (not status["others"] and changed["before"] == changed["after"]):
            return None
        borrowed = status["borrows"]["rows"]
        return {
            **changed,
            "others": status["others"],
            "borrowed_rows": borrowed,
            "share": share_of_others(self._member, borrowed),
            "contributors": _contributors(self._member),
        }


def _contributors(member: Member) -> list[str]:
    """The devices whose knowledge is used, as far as they are known by name."""
    labels = () if member.merged is None else member.merged.labels
    names = [held.origin for held in member.ledger] + [one for it in labels for one in it.names]
    return list(dict.fromkeys(plain(name, NAME) for name in names))[:MOST_CONTRIBUTORS]
