"""The sync: carries outgoing entries to the exchange and back while the device goes on working."""

import logging
import random as randomness
import time
from concurrent.futures import Future
from threading import Thread
from typing import Any, Protocol

from elmgrove.errors import ElmgroveError
from elmgrove.exchange import Incoming, SyncReport
from elmgrove.federation import Outdated


class Backoff:
    """Waits that grow with each failure, up to a longest one.

    Each lies at random between half and the whole of its step: a fleet that lost its server at
    one moment does not come back at one moment.

    >>> backoff = Backoff(first=1.0, longest=3.0)
    >>> [step / 2 <= backoff.failed() <= step for step in (1.0, 2.0, 3.0, 3.0)]
    [True, True, True, True]
    """

    def __init__(
        self,
        first: float = 1.0,
        factor: float = 2.0,
        longest: float = 300.0,
        random: randomness.Random | None = None,
    ) -> None:
        self._first = min(first, longest)
        self._factor = factor
        self._longest = longest
        self._random = random or randomness.Random()
        self._step = self._first

    def failed(self) -> float:
        """The seconds to wait now; the next wait is longer."""
        step = self._step
        self._step = min(step * self._factor, self._longest)
        return self._random.uniform(step / 2, step)

    def succeeded(self) -> None:
        """The next failure is the first one again."""
        self._step = self._first


log = logging.getLogger("elmgrove.device")


class Syncing(Protocol):
    """What a sync consists of: ``Session`` with an exchange, ``PeerSession`` with peers."""

    def prepare(self) -> Any:
        """What to carry; called in the device's own thread."""
        ...

    def transfer(self, outgoing: Any) -> Any:
        """Speaks with others; called in the sync's thread."""
        ...

    def apply(self, incoming: Any) -> SyncReport:
        """Lets the member learn what came back; called in the device's own thread."""
        ...

    def close(self) -> None:
        """Lets go of connections."""
        ...


class BackgroundSync:
    """Syncs every so many seconds or rows, one sync at a time, and later after a failure."""

    def __init__(self, partner: Syncing, seconds: float, rows: int) -> None:
        self._partner = partner
        self._seconds = seconds or float("inf")
        self._rows = rows or float("inf")
        self._backoff = Backoff()
        self._under_way: Future[Any] | None = None
        self._due = 0.0
        self._waiting = False
        self._rows_before = 0

    def step(self, rows: int) -> bool:
        """Starts or ends a sync if it is time; quick. Says whether something new was taken in.

        ``rows`` is how many rows the device has seen so far.
        """
        now = time.monotonic()
        if self._under_way is not None:
            return self._under_way.done() and self._finish()
        enough = rows - self._rows_before >= self._rows and not self._waiting
        if now >= self._due or enough:
            self._rows_before = rows
            self._start()
        return False

    def finish(self, timeout: float) -> bool:
        """One last sync, if it can be had within ``timeout``; says whether it was news."""
        until = time.monotonic() + timeout
        news = False
        for _ in range(2):  # the first one may have begun before the last rows came
            if self._under_way is None:
                self._start()
            while self._under_way is not None and not self._under_way.done():
                if time.monotonic() > until:
                    return news
                time.sleep(0.01)
            news |= self._finish()
        return news

    def close(self) -> None:
        """Waits for nothing that is under way."""
        self._partner.close()

    def _start(self) -> None:
        under_way: Future[Any] = Future()
        # A daemon: a server that does not incoming must not hold up the end of the program.
        Thread(
            target=_transfer,
            args=(self._partner, self._partner.prepare(), under_way),
            name="elmgrove-sync",
            daemon=True,
        ).start()
        self._under_way = under_way

    def _finish(self) -> bool:
        future, self._under_way = self._under_way, None
        assert future is not None
        try:
            incoming = future.result()
            report = self._partner.apply(incoming)
        except ElmgroveError as error:
            self._wait(self._backoff.failed(), failed=True)
            log.warning("sync failed, next try in %.0f s: %s", self._due - time.monotonic(), error)
            return False
        self._backoff.succeeded()
        outdated = isinstance(incoming, Incoming) and isinstance(incoming.refusal, Outdated)
        self._wait(0.0 if outdated else self._seconds, failed=False)
        log.log(logging.WARNING if report.refusal else logging.INFO, "sync: %s", report)
        return report.updated

    def _wait(self, seconds: float, *, failed: bool) -> None:
        self._due, self._waiting = time.monotonic() + seconds, failed


def _transfer(partner: Syncing, outgoing: Any, under_way: Future[Any]) -> None:
    try:
        under_way.set_result(partner.transfer(outgoing))
    except BaseException as error:  # for the device's own thread to judge
        under_way.set_exception(error)
