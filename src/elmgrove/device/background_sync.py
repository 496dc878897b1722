"""Syncs in the background: when the next one is due, and its thread."""

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from threading import Thread
from typing import Any

from elmgrove.device.report import AgentReports
from elmgrove.device.settings import Settings
from elmgrove.errors import ElmgroveError, Mismatch, Refused, Unreachable, plain
from elmgrove.exchange.backoff import Backoff
from elmgrove.exchange.base import Exchange, SyncReport
from elmgrove.exchange.session import Incoming, Outgoing, Session
from elmgrove.federation.commands import Command
from elmgrove.federation.member import Member
from elmgrove.federation.report import Report

log = logging.getLogger("elmgrove.device")


class AgentSession(Session):
    """A session that reports with each sync, which does not fail because that was not taken."""

    def __init__(
        self,
        member: Member,
        exchange: Exchange,
        settings: Settings,
        reports: AgentReports | None = None,
        save: Callable[[Member], None] = lambda member: None,
    ) -> None:
        guarded = settings.guard
        super().__init__(member, exchange, rule=settings.rule, guarded=guarded, save=save)
        self._reports = reports
        # Why a report was not taken the last time: told once.
        self._unheard = ""

    def prepare(self) -> Outgoing:
        outgoing = super().prepare()
        if self._reports is None:
            return outgoing
        return replace(outgoing, report=self._reports.make())

    def transfer(self, outgoing: Outgoing) -> Incoming:
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
        if self._reports is None:
            return super().apply(incoming)
        with self._reports.comparing() if incoming.merged is not None else nullcontext():
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


class BackgroundSync:
    """Syncs every ``seconds``, one sync at a time, and later after a failure.

    Only the transfer is in another thread; ``synced`` is called after each sync that did not fail.
    The same trouble is told once, until there is another or it is over.
    """

    def __init__(
        self, session: Session, seconds: float, synced: Callable[[], None] = lambda: None
    ) -> None:
        self._session = session
        self._synced = synced
        self._seconds = seconds or math.inf
        self._backoff = Backoff()
        self._under_way: Future[Any] | None = None
        self._due, self._began = 0.0, -math.inf
        self._hastened = self._again = False
        # The trouble that was told last, and is not over; empty where there is none.
        self._reported = ""
        # How many others were used the last time: another number is told beside old trouble.
        self._devices = 0
        # Whether the guard blocked an upload: the log warns of that once.
        self._blocked = False
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

        That is two seconds after the last one began: nobody on the other side can keep a device
        busy with syncs. After a failure it comes when it would have come.
        """
        self._hastened = True
        failed = self.last is not None and self.last["failed"]
        if not failed:
            self._due = min(self._due, max(time.monotonic() + 0.25, self._began + 2.0))

    def finish(self, timeout: float) -> bool:
        """Syncs a last time, if that takes no longer than ``timeout`` seconds.

        Says whether the member was updated.
        """
        until, updated = time.monotonic() + timeout, False
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
        self._session.close()

    def _start(self) -> None:
        self._hastened, self._began = False, time.monotonic()
        under_way = self._under_way = Future[Any]()
        try:
            outgoing = self._session.prepare()
            # A daemon: a server that does not answer must not hold up the end of the program.
            sends = (self._session, outgoing, under_way)
            Thread(target=_transfer, args=sends, name="elmgrove-sync", daemon=True).start()
        except Exception as error:  # a sync that can't begin has failed like any other
            under_way.set_exception(error)

    def _finish(self) -> bool:
        future, self._under_way = self._under_way, None
        assert future is not None
        updated = False
        try:
            report = self._session.apply(future.result())
            updated = report.updated
            self._synced()
        except Exception as error:  # nothing that others say may end the device
            self._fail(error)
            return updated
        self._backoff.succeeded()
        self.succeeded, self.succeeded_at = self.succeeded + 1, time.time()
        # At once, but not for ever: an exchange may find each version outdated.
        self._again = report.again and not self._again
        said = self._ended(str(report), 0.0 if self._again else self._seconds, failed=False)
        blocked, self._blocked = self._blocked, report.blocked_reason is not None
        others, self._devices = self._devices, report.devices
        is_new = self._is_new(report.refusal or "")
        warns = self._blocked > blocked or (report.refusal and is_new)
        usual = logging.DEBUG if report.refusal and others == report.devices else logging.INFO
        level = logging.WARNING if warns else usual
        log.log(level, "sync: %s", said, extra={"devices": report.devices, "updated": updated})
        return updated

    def _fail(self, error: Exception) -> None:
        wait = self._backoff.failed(error.retry_after if isinstance(error, Unreachable) else 0.0)
        self._again = False
        self.failed += 1
        # What is neither refused nor a line or disk that fails is a fault of the program.
        is_known = isinstance(error, ElmgroveError | OSError)
        text = str(error) if is_known else f"a fault in Elmgrove: {error!r}"
        said = self._ended(text, wait, failed=True)
        if self._is_new(said):
            trace, again = None if is_known else error, {"next_seconds": wait}
            log.warning(
                "sync failed, next try in %.0f s: %s", wait, said, exc_info=trace, extra=again
            )

    def _is_new(self, trouble: str) -> bool:
        before, self._reported = self._reported, trouble
        return trouble != before

    def _ended(self, text: str, wait: float, *, failed: bool) -> str:
        """Takes note of how a sync ended, and when the next one comes; gives what was said."""
        said, now = plain(text, 2000), time.time()
        due = now + wait if math.isfinite(wait) else None
        self.last = {"time": now, "said": said, "failed": failed, "next": due}
        self._due = time.monotonic() + wait
        if self._hastened:
            self.hasten()
        return said


def _transfer(session: Session, outgoing: Any, under_way: Future[Any]) -> None:
    try:
        under_way.set_result(session.transfer(outgoing))
    except BaseException as error:  # for the device's own thread to judge
        under_way.set_exception(error)
