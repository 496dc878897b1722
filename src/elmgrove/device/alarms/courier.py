"""The queue of one recipient, and the thread that empties it."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("elmgrove.device")

Message = dict[str, Any]
#: Called with the seconds between two attempts; returns early when there is no time left.
Wait = Callable[[float], Any]
#: Alarms that wait for a recipient; of more, the oldest are dropped.
CAPACITY = 100


class Courier:
    """Hands messages to ``tell`` one by one, in a thread that ends with the program."""

    def __init__(self, tell: Callable[[Message, Wait], None]) -> None:
        self._tell = tell
        self._waiting: deque[Message] = deque()
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="elmgrove-alarms", daemon=True)
        self._thread.start()

    def take(self, message: Message) -> None:
        """Puts a message at the end of the queue; never waits for a delivery."""
        with self._changed:
            full = len(self._waiting) == CAPACITY
            if full:
                self._waiting.popleft()
            self._waiting.append(message)
            self._changed.notify()
        if full:
            logger.warning("alarms come faster than they are delivered: dropped the oldest")

    def hurry(self) -> None:
        """From now on no pauses between attempts, and an end once nothing waits."""
        with self._changed:
            self._hurry.set()
            self._changed.notify()

    def finish(self, timeout: float) -> None:
        """Waits for the end; says what is left when there is no time for it."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            logger.warning("gave up on %d undelivered alarms", len(self._waiting) + 1)

    def _run(self) -> None:
        while (message := self._next()) is not None:
            try:
                self._tell(message, self._hurry.wait)
            except Exception:  # whatever it was, the next alarm must not go unheard for it
                logger.exception("an alarm could not be delivered")

    def _next(self) -> Message | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._hurry.is_set())
            return self._waiting.popleft() if self._waiting else None
