"""The agent of one device: reads rows, writes verdicts and alarms, saves, and syncs with others."""

import errno
import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from threadpoolctl import threadpool_limits

from elmgrove.detector.detector import Detector
from elmgrove.detector.verdict import Verdict
from elmgrove.device.commands import Commands
from elmgrove.device.control import Control
from elmgrove.device.drift_response import DriftResponse
from elmgrove.device.health import InputHealth, Outage
from elmgrove.device.log import PeerLog, StateLog
from elmgrove.device.metrics import AgentMetrics
from elmgrove.device.mqtt import Access, Sink
from elmgrove.device.notify import Alarms
from elmgrove.device.output import Observation, Observer, Verdicts
from elmgrove.device.report import AgentReports
from elmgrove.device.settings import ASK, NO_REPORTS, Settings
from elmgrove.device.sources import open_source
from elmgrove.device.sources.mqtt import Subscription, subscribed
from elmgrove.device.sources.text import Bad, Bookmark, Item, Reading, Source
from elmgrove.device.start import (
    Begun,
    LearnedAlready,
    layout_for,
    member_for_rows,
    member_from_federation,
    member_from_state,
    member_joined,
    member_like,
    require_width,
)
from elmgrove.device.status import HEARING, SYNC, mark_state
from elmgrove.device.sync import BackgroundSync, syncing_of
from elmgrove.errors import BadInput, InUse
from elmgrove.exchange.backoff import Backoff
from elmgrove.exchange.base import Exchange, Tls
from elmgrove.exchange.broker_address import is_at_broker
from elmgrove.exchange.connection import keyfile, open_exchange
from elmgrove.exchange.responses import is_loopback
from elmgrove.federation.member import Member
from elmgrove.reading.line_protocol import Point
from elmgrove.storage.disk import Lock, remove_leftovers, takes_nothing, written

log = logging.getLogger("elmgrove.device")

#: The member's note that says how far the source was read.
SOURCE = "source"
#: Seconds between two looks at what is asked and due, while rows come without a pause.
LOOK = 0.01
#: Seconds that the agent waits at its end for the last sync, and for alarms under way.
PATIENCE = 30.0


class Saving:
    """Saves a member to its state file, which no other process may change meanwhile.

    A disk that is full, read-only or broken is logged once, and saving is tried again. Without the
    lock nothing is written: if the disk took no lock file at the start, the lock is taken with the
    first save that is possible.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock(path)
        self._trouble = Outage(
            str(path),
            "can't be saved",
            "watching goes on, and what is learned is in memory alone until it can be saved",
            "is saved again",
        )
        self._backoff = Backoff(longest=60.0)
        self._due = 0.0
        #: When it was last saved, in seconds since 1970; no number before that.
        self.saved_at = math.nan

    def __enter__(self) -> Self:
        try:
            self._lock.take()
        except OSError as error:
            if not takes_nothing(error):
                raise
            self._trouble.begin(error)
        else:
            key = keyfile(self._path)
            assert key is not None
            remove_leftovers(key)
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.free()

    @property
    def fails(self) -> bool:
        """Whether the last attempt failed."""
        return self._trouble.lasts

    @property
    def due(self) -> bool:
        """Whether it is time to try, after an attempt that failed."""
        return time.monotonic() >= self._due

    @contextmanager
    def saved(self, member: Member) -> Iterator[None]:
        """Writes a member, and makes it the state once all inside went well.

        Raises ``OSError`` if the disk does not take it, before anything inside is done.
        """
        try:
            self._take_lock()
            with written(self._path, member.to_bytes(), private=member.private):
                yield
        except OSError as error:
            self._due = time.monotonic() + self._backoff.failed()
            self._trouble.begin(error)
            raise
        self._due = 0.0
        self.saved_at = time.time()
        self._backoff.succeeded()
        self._trouble.end()

    def _take_lock(self) -> None:
        try:
            self._lock.take()
        except InUse as error:
            raise OSError(errno.EBUSY, str(error), str(self._path)) from error


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
        hearing: InputHealth,
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
        self._state = ""
        self._point: Point | None = None
        self._looked = -math.inf
        recipients = settings.webhook or settings.command
        self._alarms = Alarms(settings) if recipients else None
        self._verdicts = Verdicts(settings.verdicts, settings.only) if settings.verdicts else None
        self._log, peers = StateLog(member.detector), PeerLog(member)
        self._begin_response()
        self._commands = Commands(member, self._saved, self._note, allowed=settings.server_commands)
        told = AgentReports(settings, member, self._commands, self._note)
        looked_at = exchange is not None and exchange.somebody_looks
        self._reports = told if looked_at and settings.reports != NO_REPORTS else None
        syncing = syncing_of(settings, member, exchange, self._save_to_send, self._reports)
        self._sync = (
            None
            if syncing is None
            else BackgroundSync(syncing, settings.sync_seconds, peers.compare)
        )

    def process(self, reading: Reading) -> None:
        """Scores a row, or a frame with its last sample; ``BadInput`` if that can't be done."""
        if reading.gap is not None:
            self.hearing.notice(reading.gap)
        detector = self.member.detector
        verdicts = observe(detector, reading)
        self._rows += len(verdicts)
        self._bookmark, self._where = reading.bookmark, reading.where
        self._point = reading.point
        for verdict in verdicts:
            self._notify(verdict)
            if self._response is not None:
                self._response.follow(verdict.drift)
            if detector.state != self._state:
                self._state = detector.state
                mark_state(self.member, verdict.time)

    def replay(self, detector: Detector, rows: Sequence[Reading]) -> None:
        """Goes on with another detector, once that has learned the same rows."""
        for reading in rows:
            observe(detector, reading)
        detector.events.take_updates()
        self.member.detector, self._log = detector, StateLog(detector)
        self._begin_response()
        self._updated = True

    def _begin_response(self) -> None:
        on_change = self._settings.on_change
        self._response = None if on_change == ASK else DriftResponse(on_change, self.member)

    def _notify(self, verdict: Verdict | None) -> bool:
        """Shows observers a verdict, or what is new without one; whether there was anything."""
        updates = self.member.detector.events.take_updates()
        if verdict is None and not updates:
            return False
        seen = Observation(self.member, self._where, verdict, updates, self._point)
        # Lines last: if nobody reads them any more, the others have seen the verdict.
        some: tuple[Observer | None, ...]
        some = (self._metrics, self._log, self._alarms, self._sink, self._reports, self._verdicts)
        for observer in some:
            if observer is not None:
                observer.observe(seen)
        return True

    def step(self) -> None:
        """Does what is asked, saves and syncs if it is time; called between rows and idle."""
        now, new = time.monotonic(), self._rows - self._saved_rows
        if now - self._looked < LOOK and new < self._settings.save_rows:
            return
        self._looked = now
        self._control.step(self.member, self._saved, self._live)
        if self._commands.step() and self._sync is not None:
            self._sync.hasten()
        if self._notify(None):
            self._updated = True
        if self._sync is not None and self._sync.step():
            self._updated = True
        late = now - self._saved_at >= self._settings.save_seconds
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
        self._log.log_missing()
        self._updated = False
        if self._bookmark is not None:
            self._source.saved(self._bookmark)

    def _save_to_send(self, member: Member) -> None:
        """Saves what is about to leave the device; at the end nothing does."""
        if not self._closing:
            self.save()

    def end(self, *, sync: bool) -> None:
        """Saves; with ``sync``, after a last sync, and after what was asked with that."""
        self._notify(None)
        if sync and self._sync is not None:
            self._sync.finish(PATIENCE)
            if self._commands.finish():
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
        if self._verdicts is not None:
            self._verdicts.close()
        if self._alarms is not None:
            self._alarms.close(PATIENCE)

    def _note(self) -> None:
        """Notes for the status what the state does not know."""
        self.hearing.held = self._source.held
        self.member.notes[HEARING] = self.hearing.fields
        if self._sync is not None and self._sync.last is not None:
            self.member.notes[SYNC] = self._sync.last
        if self._reports is not None:
            self._reports.note()

    def _live(self) -> dict[str, Any]:
        self._note()
        return {"where": self._where, "rows": self._rows}


def observe(detector: Detector, reading: Reading) -> list[Verdict]:
    """Observes a row; where rows are samples there is a verdict with the last one of a frame."""
    if not reading.follows:
        detector.interrupt()
    # Where the data have no time, the clock has.
    when = time.time() if reading.time is None else reading.time
    try:
        if detector.basis.spectrum is not None:
            return detector.observe_many([reading.row], [when])
        return [detector.observe(reading.row, when)]
    except BadInput:
        detector.interrupt()
        raise


class Agent:
    """One device at work, until its rows end or ``stop`` is called (from a signal handler, too).

    A new device takes its layer and scaling from its federation, from a file, or from its first
    rows. From then on each row is ``Work``. What was learned is saved from time to time together
    with the place in the source: after a crash the agent goes on right there. From standard input,
    which can't be read again, and from a broker, which keeps no row that was judged, the rows since
    the last save are lost. A disk that takes nothing does not end it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stopped = False
        self._hearing = InputHealth()
        self._work: Work | None = None
        self._metrics: AgentMetrics | None = None
        self._sink: Sink | None = None
        self._first: list[Reading] = []
        self._begun: Begun | None = None
        self._learned: LearnedAlready | None = None
        self._fits = False
        self._first_rows = settings.first_rows

    def stop(self) -> None:
        """Lets the agent end after the row that it is working on."""
        self._stopped = True

    def run(self) -> None:
        """Works until the rows end or ``stop`` is called, and saves in both cases.

        Raises ``BadInput`` at the end of rows of which less than half could be used, and
        ``OSError`` if what was learned could not be saved at the end.
        """
        # On a small machine a second thread costs more than it brings.
        with (
            Saving(self._settings.path) as self._saving,
            threadpool_limits(1, "blas"),
            Control(self._settings) as self._control,
            ExitStack() as also,
        ):
            if self._settings.metrics:
                self._metrics = also.enter_context(AgentMetrics(self._settings.metrics))
            member = member_from_state(self._settings)
            name = self._settings.own_name if member is None else member.name
            if self._settings.mqtt:
                self._sink = also.enter_context(Sink(self._settings, name, self._control.ask))
            exchange = self._exchange(name)
            try:
                member = self._member(member, exchange)
                source = self._source(member, name)
                resumed = member is not None and SOURCE in member.notes
                if member is not None:
                    self._work = self._working(member, source, exchange)
                self._read(source, exchange)
                self._end()
            except (BadInput, OSError):
                self._stopped = True
                if self._hearing.used:
                    self._end()
                raise
            finally:
                if self._work is not None:
                    self._work.close()
                elif exchange is not None:
                    exchange.close()
        if self._work is not None and self._work.unsaved is not None:
            raise self._work.unsaved
        if not self._stopped:
            self._hearing.require_heard(self._settings.source, resumed=resumed)

    def _exchange(self, name: str) -> Exchange | None:
        settings = self._settings
        if not settings.exchange:
            return None
        parts = urlsplit(settings.exchange)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            log.warning(
                "%s: without TLS whoever sees the traffic has this device's token and key; use "
                "https:// (elmgrove serve --certificate)",
                settings.exchange,
            )
        return open_exchange(
            settings.exchange,
            name,
            token=settings.token or None,
            keyfile=keyfile(settings.path),
            tls=Tls(settings.ca, settings.certificate),
            password=settings.mqtt_password or None,
            blobs=settings.blobs,
        )

    def _member(self, saved: Member | None, exchange: Exchange | None) -> Member | None:
        """Gives the member that was saved, or a new one; None where the first rows must decide."""
        if saved is not None:
            return saved if exchange is None else member_joined(self._settings, exchange, saved)
        if exchange is not None:
            self._control.waits_for = f"its federation, {self._settings.exchange}"
            return member_from_federation(self._settings, exchange, lambda: self._stopped)
        return member_like(self._settings) if self._settings.like else None

    def _source(self, member: Member | None, name: str) -> Source:
        settings = self._settings
        basis = None if member is None else member.detector.basis
        notes = {} if member is None else member.notes
        layout = layout_for(settings, member)
        if member is not None and not self._reads_on(notes.get(SOURCE)):
            spans = member.detector.increments.spans
            self._learned = LearnedAlready(spans) if spans else None
        between = settings.verdicts == "-" and layout.is_influx()
        return open_source(
            settings.source,
            follow=settings.follow,
            pattern=settings.pattern,
            layout=layout,
            features=None if basis is None else basis.features,
            categories=None if basis is None else dict(basis.categories),
            bookmark=notes.get(SOURCE),
            # Between two programs that speak line protocol, nothing of what they say gets lost.
            pass_on=Verdicts(settings.verdicts).put if between else None,
            subscription=self._subscription(name),
            seconds=settings.mqtt_seconds,
        )

    def _reads_on(self, bookmark: Bookmark | None) -> bool:
        """Whether the source is the one that the bookmark is a place in, and no other file."""
        path = Path(self._settings.source)
        if bookmark is None or "inode" not in bookmark or not path.is_file():
            return bookmark is not None
        return bool(bookmark["inode"] == path.stat().st_ino)

    def _subscription(self, name: str) -> Subscription | None:
        """Subscribes to the rows, where these are a broker's; what the device says is no row."""
        settings = self._settings
        if not is_at_broker(settings.source):
            return None
        own = "" if self._sink is None else self._sink.topics.all_below
        return subscribed(settings.source, settings.pattern, name, Access.of(settings), own)

    def _read(self, source: Source, exchange: Exchange | None) -> None:
        for item in source:
            if self._stopped:
                return
            self._handle(item, source, exchange)
        self._begin(source, exchange)
        if self._begun is not None:
            self._replay(self._begun.decide())

    def _handle(self, item: Item, source: Source, exchange: Exchange | None) -> None:
        if isinstance(item, Bad):
            self._hearing.leave_out(item.where, item.reason, whole=item.whole)
        elif item is not None and self._work is None:
            self._hearing.use()
            self._first.append(item)
            self._control.waits_for = f"its first rows: {len(self._first)} of {self._first_rows}"
            if len(self._first) >= self._first_rows:
                self._begin(source, exchange)
        elif item is not None:
            reading = item if self._learned is None else self._learned.passed(item)
            if reading is None or self._process(reading, source):
                self._hearing.use()
        elif self._learned is not None:
            self._learned.tell()
        if self._work is not None:
            self._work.step()

    def _begin(self, source: Source, exchange: Exchange | None) -> None:
        """Starts with the first rows, if nothing else said how."""
        rows, self._first = self._first, []
        if self._work is None and rows:
            member = member_for_rows(self._settings, [one.row for one in rows], source)
            self._work = self._working(member, source, exchange)
            self._begun = Begun(self._settings, source, member)
            for reading in rows:
                self._process(reading, source)

    def _working(self, member: Member, source: Source, exchange: Exchange | None) -> Work:
        work = Work(
            self._settings,
            self._saving,
            member,
            source,
            exchange,
            self._hearing,
            self._control,
            self._metrics,
            self._sink,
        )
        self._control.waits_for = None
        return work

    def _process(self, reading: Reading, source: Source) -> bool:
        """Hands a row on; says whether it could be used."""
        assert self._work is not None
        if not self._fits:
            # All rows of a source have the columns of the first.
            require_width(source, self._work.member)
            self._fits = True
        try:
            self._work.process(reading)
        except BadInput as error:
            self._hearing.leave_out(reading.where, str(error))
            return False
        if self._begun is not None:
            self._replay(self._begun.add(reading))
        return True

    def _replay(self, decided: tuple[Detector, list[Reading]] | None) -> None:
        if decided is not None and self._work is not None:
            self._work.replay(*decided)

    def _end(self) -> None:
        if self._learned is not None:
            self._learned.tell()
        self._control.end()
        if self._work is not None:
            self._work.end(sync=not self._stopped)
        elif self._first:
            log.warning(
                "stopped after %d rows, fewer than start_rows: nothing was learned",
                len(self._first),
            )
        self._hearing.end()
