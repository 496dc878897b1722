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
from elmgrove.device.background_sync import AgentSession, BackgroundSync
from elmgrove.device.commands import Commands
from elmgrove.device.control import Control
from elmgrove.device.drift_response import DriftResponse
from elmgrove.device.input_health import InputHealth, Outage
from elmgrove.device.metrics import AgentMetrics
from elmgrove.device.mqtt import Sink
from elmgrove.device.notify import Alarms
from elmgrove.device.output import Observation, Observer, PeerLog, StateLog, Verdicts
from elmgrove.device.report import AgentReports
from elmgrove.device.settings import Settings
from elmgrove.device.sources import open_source
from elmgrove.device.sources.mqtt import Subscription
from elmgrove.device.sources.text import Bad, Bookmark, Item, Reading, Source
from elmgrove.device.start import (
    Begun,
    LearnedAlready,
    member_for_rows,
    member_from_federation,
    member_from_state,
    member_joined,
    member_like,
)
from elmgrove.device.status import mark_state
from elmgrove.errors import BadInput, InUse
from elmgrove.exchange.backoff import Backoff
from elmgrove.exchange.base import Exchange, Tls, is_loopback
from elmgrove.exchange.broker_address import is_at_broker
from elmgrove.exchange.session import keyfile, open_exchange
from elmgrove.federation.member import Member
from elmgrove.reading.layout import LAYOUT
from elmgrove.storage.disk import Lock, remove_leftovers, takes_nothing, written

log = logging.getLogger("elmgrove.device")

#: Seconds that the agent waits at its end for the last sync, and for alarms under way.
PATIENCE = 30.0


class Saving:
    """Saves a member to its state file, which no other process may change meanwhile.

    A disk that is full, read-only or broken is logged once, and saving is tried again. Without the
    lock nothing is written: it is taken with the first save that is possible.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock(path)
        self._outage = Outage(
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
            self._outage.begin(error)
        else:
            key = keyfile(self._path)
            assert key is not None
            remove_leftovers(key)
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.free()

    @property
    def fails(self) -> bool:
        return self._outage.lasts

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._due

    @contextmanager
    def saved(self, member: Member) -> Iterator[None]:
        """Writes a member, and makes it the state once all inside went well.

        Raises ``OSError`` if the disk does not take it, before anything inside is done.
        """
        try:
            try:
                self._lock.take()
            except InUse as error:
                raise OSError(errno.EBUSY, str(error), str(self._path)) from error
            with written(self._path, member.to_bytes(), private=member.private):
                yield
        except OSError as error:
            self._due = time.monotonic() + self._backoff.failed()
            self._outage.begin(error)
            raise
        self._due = 0.0
        self.saved_at = time.time()
        self._backoff.succeeded()
        self._outage.end()


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
        health: InputHealth,
        control: Control,
        metrics: AgentMetrics | None,
        sink: Sink | None,
    ) -> None:
        self.member = member
        #: Why what was learned could not be saved at the end; None if it could.
        self.unsaved: OSError | None = None
        self._settings, self._saving, self._source = settings, saving, source
        self._health, self._control = health, control
        self._metrics, self._sink = metrics, sink
        self._bookmark: Bookmark | None = member.notes.get("source")
        self._last: Reading | None = None
        self._rows = self._saved_rows = 0
        self._updated = self._closing = False
        self._saved_at, self._looked = time.monotonic(), -math.inf
        self._state = ""
        recipients = settings.webhook or settings.command
        self._alarms = Alarms(settings) if recipients else None
        self._verdicts = Verdicts(settings.verdicts, settings.only) if settings.verdicts else None
        self._commands = Commands(member, self._saved, self._note, allowed=settings.server_commands)
        self._reports: AgentReports | None = None
        self._sync: BackgroundSync | None = None
        self._watch()
        peers = PeerLog(member)
        if exchange is not None:
            if settings.reports != "none":
                self._reports = AgentReports(settings, member, self._commands, self._note)
            session = AgentSession(member, exchange, settings, self._reports, self._save_to_send)
            self._sync = BackgroundSync(session, settings.sync_seconds, peers.compare)

    def _watch(self) -> None:
        on_change = self._settings.on_change
        self._log = StateLog(self.member.detector)
        self._response = None if on_change == "ask" else DriftResponse(on_change, self.member)

    def process(self, reading: Reading) -> None:
        """Scores a row, or a frame with its last sample; ``BadInput`` if that can't be done."""
        if reading.gap is not None:
            self._health.notice(reading.gap)
        detector = self.member.detector
        verdicts = observe(detector, reading)
        self._rows += len(verdicts)
        self._bookmark, self._last = reading.bookmark, reading
        for verdict in verdicts:
            self._show(verdict)
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
        self.member.detector = detector
        self._watch()
        self._updated = True

    def _show(self, verdict: Verdict | None) -> bool:
        """Shows observers a verdict, or what is new without one; whether there was anything."""
        events = self.member.detector.events
        updates = events.take_updates() if events.news else []
        if verdict is None and not updates:
            return False
        point = None if self._last is None else self._last.point
        seen = Observation(self.member, self._where, verdict, updates, point)
        # Lines last: if nobody reads them any more, the others have seen the verdict.
        every: tuple[Observer | None, ...]
        every = (self._metrics, self._log, self._alarms, self._sink, self._reports, self._verdicts)
        for observer in every:
            if observer is not None:
                observer.observe(seen)
        return True

    @property
    def _where(self) -> str | None:
        return None if self._last is None else self._last.where

    def step(self) -> None:
        """Does what is asked, saves and syncs if it is time; called between rows and idle."""
        now, new = time.monotonic(), self._rows - self._saved_rows
        # Rows may come without a pause.
        if now - self._looked < 0.01 and new < self._settings.save_rows:
            return
        self._looked = now
        self._control.step(self.member, self._saved, self._live)
        if self._commands.step() and self._sync is not None:
            self._sync.hasten()
        self._updated |= self._show(None)
        if self._sync is not None:
            self._updated |= self._sync.step()
        late = now - self._saved_at >= self._settings.save_seconds
        due = new >= self._settings.save_rows or (late and (new or self._updated))
        if due and self._saving.due:
            # What fails is told where it fails, and tried again.
            with suppress(OSError):
                self.save()
        if self._metrics is not None:
            self._metrics.look(self.member, self._health, self._saving, self._sync)
        if self._sink is not None:
            self._sink.look(self.member, self._note)

    def save(self) -> None:
        with self._saved(self.member):
            pass

    @contextmanager
    def _saved(self, member: Member) -> Iterator[None]:
        if self._bookmark is not None:
            member.notes["source"] = self._bookmark
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
        self._show(None)
        if sync and self._sync is not None:
            self._sync.finish(PATIENCE)
            if self._commands.finish():
                self._sync.finish(PATIENCE)
        try:
            self.save()
        except OSError as error:
            self.unsaved = error
        counted, learned = self.member.detector.basis.counted, self.member.detector.learned
        log.info("read %d %s; learned %d since the device was made", self._rows, counted, learned)

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
        self._health.held = self._source.held
        self.member.notes["input"] = self._health.fields
        if self._sync is not None and self._sync.last is not None:
            self.member.notes["sync"] = self._sync.last
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
    rows. What was learned is saved together with the place in the source: after a crash the agent
    goes on right there. Of standard input and of a broker the rows since the last save are lost.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stopped = False
        self._health = InputHealth()
        self._work: Work | None = None
        self._metrics: AgentMetrics | None = None
        self._sink: Sink | None = None
        self._first: list[Reading] = []
        self._begun: Begun | None = None
        self._learned: LearnedAlready | None = None
        self._fits = False

    def stop(self) -> None:
        """Lets the agent end after the row that it is working on."""
        self._stopped = True

    def run(self) -> None:
        """Works until the rows end or ``stop`` is called, and saves in both cases.

        Raises ``BadInput`` at the end of rows of which less than half could be used, and
        ``OSError`` if what was learned could not be saved at the end.
        """
        settings = self._settings
        # On a small machine a second thread costs more than it brings.
        with (
            Saving(settings.path) as self._saving,
            threadpool_limits(1, "blas"),
            Control(settings) as self._control,
            ExitStack() as also,
        ):
            if settings.metrics:
                self._metrics = also.enter_context(AgentMetrics(settings.metrics))
            member = member_from_state(settings)
            name = settings.own_name if member is None else member.name
            if settings.mqtt:
                self._sink = also.enter_context(Sink(settings, name, self._control.ask))
            self._exchange = self._opened_exchange(name)
            try:
                member = self._member(member)
                self._source = self._opened_source(member, name)
                resumed = member is not None and "source" in member.notes
                if member is not None:
                    self._begin_work(member)
                self._read()
                self._end()
            except (BadInput, OSError):
                self._stopped = True
                if self._health.used:
                    self._end()
                raise
            finally:
                if self._work is not None:
                    self._work.close()
                elif self._exchange is not None:
                    self._exchange.close()
        if self._work is not None and self._work.unsaved is not None:
            raise self._work.unsaved
        if not self._stopped:
            self._health.require_heard(settings.source, resumed=resumed)

    def _opened_exchange(self, name: str) -> Exchange | None:
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
        )

    def _member(self, saved: Member | None) -> Member | None:
        """Gives the member that was saved, or a new one; None where the first rows must decide."""
        exchange, settings = self._exchange, self._settings
        if saved is not None:
            return saved if exchange is None else member_joined(settings, exchange, saved)
        if exchange is not None:
            self._control.waits_for = f"its federation, {settings.exchange}"
            return member_from_federation(settings, exchange, lambda: self._stopped)
        return member_like(settings) if settings.like else None

    def _opened_source(self, member: Member | None, name: str) -> Source:
        settings = self._settings
        basis = None if member is None else member.detector.basis
        bookmark = None if member is None else member.notes.get("source")
        layout = settings.layout.after({} if member is None else member.notes.get(LAYOUT, {}))
        if member is not None and not self._reads_on(bookmark):
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
            bookmark=bookmark,
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
        return Subscription(settings, name, own)

    def _read(self) -> None:
        for item in self._source:
            if self._stopped:
                return
            self._handle(item)
        self._begin()
        if self._begun is not None:
            self._replay(self._begun.decide())

    def _handle(self, item: Item) -> None:
        if isinstance(item, Bad):
            self._health.leave_out(item.where, item.reason, whole=item.whole)
        elif item is not None and self._work is None:
            self._health.use()
            self._first.append(item)
            wanted = self._settings.first_rows
            self._control.waits_for = f"its first rows: {len(self._first)} of {wanted}"
            if len(self._first) >= wanted:
                self._begin()
        elif item is not None:
            reading = item if self._learned is None else self._learned.passed(item)
            if reading is None or self._process(reading):
                self._health.use()
        elif self._learned is not None:
            self._learned.tell()
        if self._work is not None:
            self._work.step()

    def _begin(self) -> None:
        rows, self._first = self._first, []
        if self._work is None and rows:
            member = member_for_rows(self._settings, [one.row for one in rows], self._source)
            self._begin_work(member)
            self._begun = Begun(self._settings, self._source, member)
            for reading in rows:
                self._process(reading)

    def _begin_work(self, member: Member) -> None:
        self._work = Work(
            self._settings,
            self._saving,
            member,
            self._source,
            self._exchange,
            self._health,
            self._control,
            self._metrics,
            self._sink,
        )
        self._control.waits_for = None

    def _process(self, reading: Reading) -> bool:
        assert self._work is not None
        if not self._fits:
            # All rows of a source have the columns of the first.
            width, wanted = self._source.width, self._work.member.detector.basis.columns
            if width not in (None, wanted):
                raise BadInput(f"the rows have {width} columns, where {wanted} are learned")
            self._fits = True
        try:
            self._work.process(reading)
        except BadInput as error:
            self._health.leave_out(reading.where, str(error))
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
            few = "stopped after %d rows, fewer than start_rows: nothing was learned"
            log.warning(few, len(self._first))
        self._health.end()
