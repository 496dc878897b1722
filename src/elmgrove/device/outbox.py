"""What an agent has to say to a broker, in memory until the broker has it."""

import logging
import math
import threading
import time
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from elmgrove.device.access import Away
from elmgrove.errors import ElmgroveError
from elmgrove.exchange import Unreachable

if TYPE_CHECKING:
    from elmgrove.exchange import Broker

log = logging.getLogger("elmgrove.device")

#: Verdicts, events and answers that wait for a broker: of more, the oldest are dropped.
MOST_VERDICTS, MOST_EVENTS, MOST_ANSWERS = 1000, 1000, 100
#: Messages that the broker is given at a time.
AT_ONCE = 20
#: Seconds between two times that the log says how many were dropped.
BETWEEN_DROPPED = 60.0
# Seconds between two looks at whether there is another link, and those that a message may wait: as
# long as the agent lives, since there is room for so few.
_LOOK, _FOR_EVER = 0.5, 1e9


class Letter(NamedTuple):
    """A message that waits: under which topic, and what."""

    topic: str
    payload: bytes
    retain: bool = False


class Outbox:
    """Gives a broker messages in the background, and never keeps its caller waiting.

    While the broker is away messages wait: the newest verdicts, events and answers, none of which
    takes the place of another kind, and of what is retained (``state``) the last of each topic.
    That is given to the broker again with every new link, since the will may have taken its place,
    or the broker may have forgotten it. A message that was under way when a link was lost is given
    to the next one, and those after it wait. What is refused, or ends each link, is told once for
    each topic, and dropped.
    """

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._changed = threading.Condition()
        self._verdicts, self._events, self._answers = (deque[Letter]() for _ in range(3))
        self._states = dict[str, Letter]()
        self._stated = dict[str, Letter]()
        self._under_way = list[Letter]()
        # When all that holds is to be said again.
        self._again = math.inf
        self._dropped = self._dropped_told = self._links = 0
        self._told_at = -math.inf
        self._away = Away(broker, "what there is to say waits in memory")
        self._refused: set[str] = set()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="elmgrove-outbox", daemon=True)
        self._thread.start()

    def verdict(self, topic: str, payload: bytes) -> None:
        """Takes what is said of a row; while the broker is away the newest ones wait."""
        self._take(self._verdicts, Letter(topic, payload), MOST_VERDICTS)

    def event(self, topic: str, payload: bytes) -> None:
        """Takes what is said of an event, which goes before all else."""
        self._take(self._events, Letter(topic, payload), MOST_EVENTS)

    def answer(self, topic: str, payload: bytes) -> None:
        """Takes what is said to somebody who asked."""
        self._take(self._answers, Letter(topic, payload), MOST_ANSWERS)

    def state(self, topic: str, payload: bytes) -> None:
        """Takes what holds from now on, in the place of what held before."""
        with self._changed:
            self._states[topic] = self._stated[topic] = Letter(topic, payload, retain=True)
            self._changed.notify()

    def state_again(self, seconds: float) -> None:
        """Gives the broker all that is retained once more, in so many seconds.

        Asked again before that, it is still done once.
        """
        with self._changed:
            self._again = min(self._again, time.monotonic() + seconds)

    def close(self, patience: float) -> None:
        """Gives the broker what waits, as much as it takes in so many seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(patience)
        with self._changed:
            waiting = (self._events, self._answers, self._states, self._verdicts)
            left = sum(map(len, waiting)) + len(self._under_way)
            self._tell_dropped()
        if left:
            log.warning("%s: %d messages were not delivered", self._broker.address.place, left)

    def _take(self, where: deque[Letter], letter: Letter, most: int) -> None:
        with self._changed:
            if len(where) >= most:
                where.popleft()
                self._dropped += 1
            where.append(letter)
            self._changed.notify()

    def _run(self) -> None:
        while (letter := self._next()) is not None:
            try:
                sent = self._broker.send(*letter[:2], retain=letter.retain, timeout=_FOR_EVER)
            except ElmgroveError as error:
                self._settle(letter, error)
            else:
                sent.add_done_callback(partial(self._settled, letter))

    def _next(self) -> Letter | None:
        """Waits for a message that may be given away now; None when there will be no more."""
        with self._changed:
            while True:
                self._look()
                if len(self._under_way) < AT_ONCE and (letter := self._first()) is not None:
                    self._under_way.append(letter)
                    return letter
                if self._closing and not self._under_way:
                    return None
                self._changed.wait(_LOOK)

    def _look(self) -> None:
        """Looks whether there is a new link, or none, and what there is to say because of it."""
        self._away.look()
        now, links = time.monotonic(), self._broker.links
        if (links != self._links and self._links) or now >= self._again:
            # What is under way is said by the new link anyway.
            again = (one for one in self._stated.values() if one not in self._under_way)
            self._states |= {one.topic: one for one in again}
            self._again = math.inf
        self._links = links
        if now - self._told_at >= BETWEEN_DROPPED:
            self._tell_dropped()

    def _tell_dropped(self) -> None:
        if self._dropped == self._dropped_told:
            return
        self._told_at, self._dropped_told = time.monotonic(), self._dropped
        log.warning(
            "%s is away or too slow: the oldest messages for it were dropped, %d so far",
            self._broker.address.place,
            self._dropped,
        )

    def _first(self) -> Letter | None:
        for waiting in (self._events, self._answers):
            if waiting:
                return waiting.popleft()
        if self._states:
            return self._states.pop(next(iter(self._states)))
        return self._verdicts.popleft() if self._verdicts else None

    def _settled(self, letter: Letter, done: "Future[None]") -> None:
        error = None if done.cancelled() else done.exception()
        self._settle(letter, error)

    def _settle(self, letter: Letter, error: Any) -> None:
        with self._changed:
            self._under_way.remove(letter)
            new = error is not None and letter.topic not in self._refused and not self._closing
            if new:
                self._refused.add(letter.topic)
            elif error is None:
                self._refused.discard(letter.topic)
            if isinstance(error, Unreachable) and self._stated.get(letter.topic) == letter:
                # It ends each link, and the next one would be no better for it.
                del self._stated[letter.topic]
            self._changed.notify()
        if new:
            log.warning("not published: %s", error)
