"""The state of a running agent on its disk: locked, and saved whenever that is possible."""

import errno
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from elmgrove.device.health import Outage
from elmgrove.errors import InUse
from elmgrove.exchange.backoff import Backoff
from elmgrove.exchange.connection import keyfile
from elmgrove.federation.member import Member
from elmgrove.storage.disk import Lock, remove_leftovers, takes_nothing, written

#: Seconds between two attempts to save, at most, while they fail.
LONGEST_WAIT = 60.0


class Saving:
    """Saves a member to its state file, which no other process may change meanwhile.

    A disk that is full, read-only or broken is no reason to stop watching: that is told once, and
    saving is tried again. Without the lock nothing is written: where the disk took no lock file at
    the start, the lock is taken with the first save that is possible.
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
        self._backoff = Backoff(longest=LONGEST_WAIT)
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
    def in_trouble(self) -> bool:
        """Whether the disk did not take it the last time."""
        return self._trouble.lasts

    @property
    def due(self) -> bool:
        """Whether it is time to try, after an attempt that failed."""
        return time.monotonic() >= self._due

    @contextmanager
    def saved(self, member: Member) -> Iterator[None]:
        """Puts a member on disk, and in the place of its state once all inside went well.

        Raises ``OSError`` where the disk does not take it: before anything inside is done.
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
