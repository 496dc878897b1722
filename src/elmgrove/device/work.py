"""What an agent does once it has a member: handles rows, saves, syncs, and tells others."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from elmgrove.detector import Detector
from elmgrove.device.control import Control
from elmgrove.device.errands import Errands
from elmgrove.device.hearing import Hearing
from elmgrove.device.in_step import syncing_of
from elmgrove.device.metrics import AgentMetrics
from elmgrove.device.outlook import Company
from elmgrove.device.reaction import Reaction
from elmgrove.device.saving import Saving
from elmgrove.device.settings import Settings
from elmgrove.device.sink import Sink
from elmgrove.device.sources import Bookmark, Reading, Source
from elmgrove.device.start import observe
from elmgrove.device.status import HEARING, SYNC, mark_state
from elmgrove.device.summary import AgentSummaries
from elmgrove.device.sync import BackgroundSync
from elmgrove.device.telling import Telling
from elmgrove.exchange import Exchange
from elmgrove.federation import Member

log = logging.getLogger("elmgrove.device")

#: The member's note that says how far the source was read.
SOURCE = "source"
#: Seconds that the agent waits at its end for the last sync, and for alarms under way.
PATIENCE = 30.0


class Work:
    """One device at work: what it learns is saved with the place in the source, if it can be.

    Where it can't, the device goes on: it watches, alarms and takes in what others know, and
    nothing new leaves it.
    """

    def __init__(
        self,
        settings: Settings,
        saving: Saving,
        member: Member,
        source: Source,
        exchange: Exchange | None,
        hearing: Hearing,
        control: Control,
        metrics: AgentMetrics | None = None,
        sink: Sink | None = None,
    ) -> None:
        self.member = member
        self.hearing = hearing
        #: Why what was learned could not be saved at the end; None if it could.
        self.unsaved: OSError | None = None
        self._control = control
        self._metrics, self._sink = metrics, sink
        self._settings = settings
        self._saving = saving
        self._source = source
        self._bookmark: Bookmark | None = member.notes.get(SOURCE)
        self._rows = self._saved_rows = 0
        self._where: str | None = None
        self._updated = self._closing = False
        self._saved_at = time.monotonic()
        self._telling, company = Telling(settings, member, metrics, sink), Company(member)
        self._reaction = Reaction(settings.on_change, member)
        self._errands = Errands(member, self._saved, self._note, allowed=settings.errands)
        told = AgentSummaries(settings, member, self._errands, self._note)
        looked_at = exchange is not None and exchange.somebody_looks
        self._summaries = told if looked_at and settings.summaries else None
        syncing = syncing_of(settings, member, exchange, self._save_to_send, self._summaries)
        self._sync = (
            None
            if syncing is None
            else BackgroundSync(syncing, settings.sync_seconds, settings.sync_rows, company.tell)
        )

    def process(self, reading: Reading) -> None:
        """Scores a row, or a frame with its last sample, and tells; ``BadInput`` if it can't."""
        if reading.gap is not None:
            self.hearing.notice(reading.gap)
        verdicts = observe(self.member.detector, reading)
        self._rows += len(verdicts)
        self._bookmark, self._where = reading.bookmark, reading.where
        for verdict in verdicts:
            self._reaction.follow(self._telling.tell(reading.where, verdict, reading.point))
            if self._summaries is not None:
                self._summaries.follow(verdict)
            mark_state(self.member, verdict.time)

    def go_on_with(self, detector: Detector) -> None:
        """Goes on with another detector, that has learned the same rows."""
        self.member.detector = detector
        self._telling.go_on_with(detector)
        self._reaction = Reaction(self._settings.on_change, self.member)
        self._updated = True

    def step(self) -> None:
        """Does what is asked, saves and syncs if it is time; called between rows and idle."""
        self._control.step(self.member, self._saved, self._live)
        if self._errands.step() and self._sync is not None:
            self._sync.hasten()
        if self._telling.tell_news(self._where):
            self._updated = True
        if self._sync is not None and self._sync.step(self._rows):
            self._updated = True
        new = self._rows - self._saved_rows
        late = time.monotonic() - self._saved_at >= self._settings.save_seconds
        due = new >= self._settings.save_rows or (late and (new or self._updated))
        if due and self._saving.due:
            # What fails is told where it fails, and tried again.
            with suppress(OSError):
                self.save()
        if self._metrics is not None:
            self._metrics.look(self.member, self.hearing, self._saving, self._sync)
        if self._sink is not None:
            self._sink.look(self.member, self._note)

    def save(self) -> None:
        """Puts what was learned and the place in the source on disk, in one file."""
        with self._saved(self.member):
            pass

    @contextmanager
    def _saved(self, member: Member) -> Iterator[None]:
        if self._bookmark is not None:
            member.notes[SOURCE] = self._bookmark
        self._note()
        with self._saving.saved(member):
            yield
        self._saved_rows, self._saved_at = self._rows, time.monotonic()
        self._telling.tell_missing()
        self._updated = False
        if self._bookmark is not None:
            self._source.saved(self._bookmark)

    def _save_to_send(self, member: Member) -> None:
        """Saves what is about to leave the device; at the end nothing does."""
        if not self._closing:
            self.save()

    def end(self, *, sync: bool) -> None:
        """Saves; with ``sync``, after a last sync, and after what was asked with that."""
        self._telling.tell_news(self._where)
        if sync and self._sync is not None:
            self._sync.finish(PATIENCE)
            if self._errands.finish():
                self._sync.finish(PATIENCE)
        try:
            self.save()
        except OSError as error:
            self.unsaved = error
        log.info(
            "read %d %s; learned %d since the device was made",
            self._rows,
            self.member.detector.basis.counted,
            self.member.detector.learned,
        )

    def close(self) -> None:
        """Closes files and connections, and ends threads; saves nothing any more."""
        self._closing = True
        if self._sync is not None:
            self._sync.close()
        self._telling.close(PATIENCE)

    def _note(self) -> None:
        """Notes for the status what the state does not know."""
        self.hearing.held = self._source.held
        self.member.notes[HEARING] = self.hearing.fields
        if self._sync is not None and self._sync.last is not None:
            self.member.notes[SYNC] = self._sync.last
        if self._summaries is not None:
            self._summaries.note()

    def _live(self) -> dict[str, Any]:
        self._note()
        return {"where": self._where, "rows": self._rows}
