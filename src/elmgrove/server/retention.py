"""Deletes what is older than it is kept, and reports writes that fail."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from elmgrove.errors import StoreUnavailable
from elmgrove.federation.terms import DAY
from elmgrove.server.limits import Seldom
from elmgrove.server.store.reports import FORGOTTEN_AT_ONCE
from elmgrove.server.store.store import Store

log = logging.getLogger("elmgrove.server")

#: Seconds between two looks for what is too old.
HOUR = 3600.0
#: Seconds by which the clock may be corrected between two looks.
TOLERANCE = 60.0


async def keep_deleting(
    store: Store, audit_days: float, report_days: float, event_days: float
) -> None:
    """Delete what is too old once an hour, until cancelled; 0 days keep it for ever.

    A clock that jumps must not cost a record. So nothing is deleted unless the clock went on as
    evenly as the monotonic one since the last look, nor in a server's first hour; and ages are by
    the store's time, which all its servers share and which follows a clock by a day at a time
    (``Store.advance``).
    """
    while True:
        clock, began = time.time(), time.monotonic()
        await asyncio.sleep(HOUR)
        jump = (time.time() - clock) - (time.monotonic() - began)
        if abs(jump) > TOLERANCE:
            log.warning("the clock jumped by %+.0f s: nothing is deleted for its age now", jump)
            continue
        try:
            now = await store.advance(time.time(), DAY)
            await _forget(store, now, report_days, event_days)
            if audit_days:
                for chain in await store.chains():
                    await store.prune(chain, now - audit_days * DAY)
        except Exception:  # there is a next time; what else runs must not stop
            log.exception("what is too old could not be deleted")


async def _forget(store: Store, now: float, report_days: float, event_days: float) -> None:
    until = [now - days * DAY if days else 0.0 for days in (report_days, event_days)]
    while await store.forget(until[0], until[1], now) >= FORGOTTEN_AT_ONCE:
        pass


#: Seconds between two tries whether a data base that failed can be written to again.
SECONDS_BETWEEN_TRIES = 1.0


class Writes:
    """Whether the last write to the store worked, and why not."""

    def __init__(self) -> None:
        self._failure: StoreUnavailable | None = None
        self._tried_at = 0.0
        self._log = Seldom()

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Take note of how the write inside ``with`` goes; one line a minute where they fail."""
        try:
            yield
        except StoreUnavailable as error:
            self._failure = error
            self._log.warn("Writes to the store fail", error, logging.ERROR)
            raise
        self._failure = None

    async def require_working(self, store: Store) -> None:
        """Raise ``StoreUnavailable`` where the last write failed and another one fails as well."""
        if self._failure is None:
            return
        now = time.monotonic()
        if now - self._tried_at < SECONDS_BETWEEN_TRIES:
            raise StoreUnavailable(str(self._failure), self._failure.reason)
        self._tried_at = now
        await store.try_write()
