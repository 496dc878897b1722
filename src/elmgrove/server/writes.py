"""Writes that fail: told in the log, and to who asks whether the server is ready."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from elmgrove.server.limits import Seldom
from elmgrove.server.store import Store, StoreUnavailable

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
