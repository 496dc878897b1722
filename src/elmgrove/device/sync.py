"""Syncs in the background: when the next one is due, and its thread."""

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

from elmgrove.device.report import AgentReports
from elmgrove.device.settings import Settings
from elmgrove.errors import ElmgroveError, Mismatch, Refused, Unreachable
from elmgrove.exchange.backoff import Backoff
from elmgrove.exchange.base import Exchange, SyncReport
from elmgrove.exchange.connection import keyfile
from elmgrove.exchange.responses import plain
from elmgrove.exchange.session import Incoming, Outgoing, Session
from elmgrove.federation.commands import Command
from elmgrove.federation.member import Member
from elmgrove.federation.report import Report
from elmgrove.federation.terms import DAY

log = logging.getLogger("elmgrove.device")


class AgentSession(Session):
    """A session that changes the device's key when it has become old, and tells how it is doing.

    A key is old when two thirds of the time are over for which keys of the federation last. The age
    of a key is that of its file. What ``reports`` tell
    goes with each sync, if there are any; a sync does not fail because it was not heard.
    """

    def __init__(
        self,
        member: Member,
        exchange: Exchange,
        keyfile: Path,
        reports: AgentReports | None = None,
        **more: Any,
    ) -> None:
        super().__init__(member, exchange, **more)
        self._keyfile = keyfile
        self._not_before = 0.0
        self._reports = reports
        # Why a report was not taken the last time: told once.
        self._unheard = ""

    def prepare(self) -> Outgoing:
        """Gathers what to send now, and how the device is doing."""
        outgoing = super().prepare()
        if self._reports is None:
            return outgoing
        return replace(outgoing, report=self._reports.make())

    def transfer(self, outgoing: Outgoing) -> Incoming:
        """Syncs, with a new key if the one that there is has become old."""
        self._rotate_key()
        try:
            incoming = super().transfer(outgoing)
        except Mismatch as error:
            if not self.member.alone:
                raise
            # The federation could not be asked when the agent began.
            raise Mismatch(
                f"{error}\nStart the agent again: it converts what it learned"
            ) from error
        if outgoing.report is None:
            return incoming
        return replace(incoming, commands=self._report(outgoing.report))

    def apply(self, incoming: Incoming) -> SyncReport:
        """Lets the member learn what came back, and takes what is asked of the device."""
        if self._reports is None:
            return super().apply(incoming)
        updates = incoming.merged is not None or incoming.others is not None
        with self._reports.comparing() if updates else nullcontext():
            report = super().apply(incoming)
        if incoming.commands is not None:
            self._reports.heard(incoming.commands)
        return report

    def _report(self, report: Report) -> tuple[Command, ...] | None:
        """What is asked of the device; None if what it told was not heard."""
        try:
            commands = self.exchange.report(report)
        except ElmgroveError as error:
            if str(error) != self._unheard:
                log.warning("the device's status could not be reported: %s", error)
            self._unheard = str(error)
            # What was refused would be so again; what did not arrive may the next time.
            return () if isinstance(error, Refused) else None
        self._unheard = ""
        return commands

    def _rotate_key(self) -> None:
        """Changes the key if it is old; where that can't be done, the old one will do for now."""
        if self._is_old() and time.monotonic() >= self._not_before:
            # Once an hour while it fails: the server records each offer of a key.
            self._not_before = time.monotonic() + 3600.0
            try:
                if self.exchange.rotate_key():
                    log.info("this device has a new key; the old one is worthless")
            except (ElmgroveError, OSError) as error:
                log.warning("the key of this device could not be changed: %s", error)

    def _is_old(self) -> bool:
        lasts = self.exchange.charter.terms.key_days
        if lasts is None or not self._keyfile.exists():
            return False
        return time.time() - self._keyfile.stat().st_mtime > lasts * DAY * 2 / 3


def syncing_of(
    settings: Settings,
    member: Member,
    exchange: Exchange | None,
    save: Callable[[Member], None],
    reports: AgentReports | None = None,
) -> AgentSession | None:
    """Gives what keeps the device in step with its exchange; None if it has none."""
    if exchange is None:
        return None
    path = keyfile(settings.path)
    assert path is not None
    return AgentSession(
        member,
        exchange,
        path,
        reports,
        rule=settings.rule,
        guarded=settings.guard,
        save=save,
    )


# Letters of what went wrong that are logged.
_LONGEST = 2000
#: Seconds until a sync that is hastened, at first and at most.
SOON, LONGEST_SOON = 0.25, 60.0


class Syncing(Protocol):
    """The steps of a sync, as ``Session`` takes them with an exchange."""

    def prepare(self) -> Any:
        """Gives what to send; called in the device's own thread."""
        ...

    def transfer(self, outgoing: Any) -> Any:
        """Sends it, and gives what came back; called in the sync's thread."""
        ...

    def apply(self, incoming: Any) -> SyncReport:
        """Lets the member learn what came back; called in the device's own thread."""
        ...

    def close(self) -> None:
        """Closes connections."""
        ...


class BackgroundSync:
    """Syncs every ``seconds``, one sync at a time, and later after a failure.

    ``synced`` is called after each one that did not fail, in the device's own thread. Whatever goes
    wrong is a failed sync, and the device goes on; the same trouble is told once, until there is
    another or it is over.
    """

    def __init__(
        self,
        syncing: Syncing,
        seconds: float,
        synced: Callable[[], None] = lambda: None,
    ) -> None:
        self._syncing = syncing
        self._synced = synced
        self._seconds = seconds or float("inf")
        self._backoff = Backoff()
        self._under_way: Future[Any] | None = None
        self._due = 0.0
        self._after_failure = False
        self._again = False
        # The trouble that was told last, and is not over; empty where there is none.
        self._told = ""
        # How many others were used the last time: another number is told beside old trouble.
        self._devices = 0
        # Whether the guard hindered an upload: the log warns of that once.
        self._hindered = False
        # Whether the next one is to come soon, how soon that is, and when the last one began.
        self._hastened, self._soon, self._began = False, SOON, -math.inf
        #: When the last one ended and what it said, and when the next is due; None before it.
        self.last: dict[str, Any] | None = None
        #: How many went well and how many failed; when the last one that went well ended.
        self.succeeded = self.failed = 0
        self.succeeded_at = math.nan

    def step(self) -> bool:
        """Starts or ends a sync if it is time, quickly; returns whether the member was updated."""
        if self._under_way is not None:
            return self._under_way.done() and self._finish()
        if time.monotonic() >= self._due:
            self._start()
        return False

    def hasten(self) -> None:
        """Lets the next sync come soon: it has something to tell that somebody waits for.

        Of many one after another, each waits twice as long as the one before: nobody on the other
        side can keep a device busy with syncs. After a failure it comes when it would have come.
        """
        self._hastened = True
        if not self._after_failure:
            self._due = min(self._due, time.monotonic() + self._soon)

    def finish(self, timeout: float) -> bool:
        """Syncs a last time, if that takes no longer than ``timeout`` seconds.

        Says whether the member was updated.
        """
        until = time.monotonic() + timeout
        updated = False
        for _ in range(2):  # the first one may have begun before the last rows came
            if self._under_way is None:
                self._start()
            while self._under_way is not None and not self._under_way.done():
                if time.monotonic() > until:
                    return updated
                time.sleep(0.01)
            updated |= self._finish()
        return updated

    def close(self) -> None:
        """Closes connections, without waiting for a sync under way."""
        self._syncing.close()

    def _start(self) -> None:
        now = time.monotonic()
        again = self._hastened and now - self._began < 4.0 * self._soon
        self._soon = min(2.0 * self._soon, LONGEST_SOON) if again else SOON
        self._hastened, self._began = False, now
        under_way: Future[Any] = Future()
        self._under_way = under_way
        try:
            outgoing = self._syncing.prepare()
            # A daemon: a server that does not answer must not hold up the end of the program.
            Thread(
                target=_transfer,
                args=(self._syncing, outgoing, under_way),
                name="elmgrove-sync",
                daemon=True,
            ).start()
        except Exception as error:  # a sync that can't begin has failed like any other
            under_way.set_exception(error)

    def _finish(self) -> bool:
        future, self._under_way = self._under_way, None
        assert future is not None
        updated = False
        try:
            report = self._syncing.apply(future.result())
            updated = report.updated
            self._synced()
        except Exception as error:  # nothing that others say may end the device
            self._fail(error)
            return updated
        self._backoff.succeeded()
        # At once, but not for ever: an exchange may find each version outdated.
        self._again = report.again and not self._again
        wait = 0.0 if self._again else self._seconds
        self._next_in(wait, failed=False)
        said = plain(str(report), _LONGEST)
        self._remember(said, wait, failed=False)
        hindered, self._hindered = self._hindered, report.blocked_reason is not None
        others, self._devices = self._devices, report.devices
        is_news = self._is_news(report.refusal or "")
        warns = self._hindered > hindered or (report.refusal and is_news)
        usual = logging.DEBUG if report.refusal and others == report.devices else logging.INFO
        level = logging.WARNING if warns else usual
        log.log(level, "sync: %s", said, extra={"devices": report.devices, "updated": updated})
        return updated

    def _fail(self, error: Exception) -> None:
        wait = self._backoff.failed(error.retry_after if isinstance(error, Unreachable) else 0.0)
        self._again = False
        self._next_in(wait, failed=True)
        # What is neither refused nor a line or disk that fails is a fault of the program.
        is_known = isinstance(error, ElmgroveError | OSError)
        said = plain(str(error) if is_known else f"a fault in Elmgrove: {error!r}", _LONGEST)
        self._remember(said, wait, failed=True)
        if self._is_news(said):
            trace = None if is_known else error
            again = {"next_seconds": wait}
            log.warning(
                "sync failed, next try in %.0f s: %s", wait, said, exc_info=trace, extra=again
            )

    def _is_news(self, trouble: str) -> bool:
        """Whether this is another trouble than the last one, or the first; none is no news."""
        before, self._told = self._told, trouble
        return trouble != before

    def _remember(self, said: str, wait: float, *, failed: bool) -> None:
        now = time.time()
        due = now + wait if math.isfinite(wait) else None
        self.last = {"time": now, "said": said, "failed": failed, "next": due}
        if failed:
            self.failed += 1
        else:
            self.succeeded, self.succeeded_at = self.succeeded + 1, now

    def _next_in(self, seconds: float, *, failed: bool) -> None:
        self._due, self._after_failure = time.monotonic() + seconds, failed
        if self._hastened:
            self.hasten()


def _transfer(syncing: Syncing, outgoing: Any, under_way: Future[Any]) -> None:
    try:
        under_way.set_result(syncing.transfer(outgoing))
    except BaseException as error:  # for the device's own thread to judge
        under_way.set_exception(error)
