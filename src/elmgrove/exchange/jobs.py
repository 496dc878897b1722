"""Jobs: what is asked of a broker, until it is known what came of it."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from elmgrove.errors import ElmgroveError
from elmgrove.exchange.base import Unreachable
from elmgrove.exchange.broker_address import Message, require_topic
from elmgrove.federation import Refused

if TYPE_CHECKING:
    from elmgrove.exchange.link import Link

log = logging.getLogger("elmgrove.exchange")
#: Jobs that may wait at a time.
MOST_JOBS = 1000
#: Links that may be lost while a job is under way alone: so many for one that somebody waits for,
#: and of a patient one so many as no line loses that is merely bad.
MOST_LOST, MOST_LOST_PATIENTLY = 3, 30
# Seconds between two looks for those that came too late.
_LOOKED = 0.25


@dataclass
class Job:
    """Something to ask by a link, which gives it a number, and what will know of its outcome.

    One that is ``patient`` waits for a broker that can't be reached, until its time is over. One
    that was under way when a link was lost is ``suspected`` to be why: a message may be more than
    the broker takes. ``lost`` are the links that were lost while it alone was under way.
    """

    ask: "Callable[[Link], int]"
    seconds: float
    patient: bool = False
    suspected: bool = False
    lost: int = 0
    future: "Future[None]" = field(default_factory=Future)

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.seconds

    @classmethod
    def publishing(
        cls, topic: str, payload: bytes, seconds: float, *, retain: bool, patient: bool = False
    ) -> "Job":
        """Makes the job of publishing a message."""
        message = Message(require_topic(topic), payload, retain)
        return cls(lambda link: link.publish(message), seconds, patient=patient)

    @property
    def is_guilty(self) -> bool:
        """Whether it was alone under way so often when a link was lost that it must be why."""
        return self.lost >= (MOST_LOST_PATIENTLY if self.patient else MOST_LOST)

    @property
    def left(self) -> float:
        """The seconds that are left for it."""
        return max(self._until - time.monotonic(), 0.0)

    def settle(self, error: ElmgroveError | None) -> None:
        """Says what came of it, if somebody still wants to know."""
        with suppress(InvalidStateError):
            if error is None:
                self.future.set_result(None)
            else:
                self.future.set_exception(error)


class Jobs:
    """Keeps jobs in their order: those that wait, and those that were asked by a link.

    One that is suspected is asked alone, so that no other is given up because of it. Any thread may
    use it. ``place`` is where the broker is, for errors.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._waiting = deque[Job]()
        self._asked = dict[int, Job]()
        self._looked = 0.0

    def add(self, job: Job) -> None:
        """Lets a job wait; ``Unreachable`` where too many do."""
        with self._lock:
            if len(self._waiting) + len(self._asked) >= MOST_JOBS:
                raise Unreachable(f"{self._place}: {MOST_JOBS:,} messages wait for it already")
            self._waiting.append(job)

    def ask(self, link: "Link") -> None:
        """Asks what waits, in its order, no more at a time than the broker allows."""
        while (job := self._next(link.in_flight)) is not None:
            try:
                number = job.ask(link)
            except Unreachable:
                with self._lock:
                    self._waiting.appendleft(job)
                raise
            except ElmgroveError as error:
                job.settle(error)
            else:
                with self._lock:
                    self._asked[number] = job

    def told(self, number: int, error: ElmgroveError | None) -> None:
        """Takes note of what came of a job."""
        with self._lock:
            job = self._asked.pop(number, None)
        if job is not None:
            job.settle(error)
        elif error is not None:
            log.warning("%s", error)

    def put_back(self, error: ElmgroveError) -> None:
        """Lets those wait again that were asked by a link that was lost.

        One that was alone is given up if the broker says that this was why, or if it was so often.
        """
        with self._lock:
            asked, self._asked = [*self._asked.values()], {}
            for job in asked:
                job.suspected = True
                job.lost += len(asked) == 1
            refused = isinstance(error, Refused) and len(asked) == 1
            given_up = [job for job in asked if refused or job.is_guilty]
            self._waiting.extendleft(job for job in reversed(asked) if job not in given_up)
        for job in given_up:
            why = f"{error}, {job.lost} times while this was sent"
            blamed = Unreachable(f"{why}; is it more than the broker takes?")
            job.settle(error if refused else blamed)

    def give_up(self, error: ElmgroveError, which: Callable[[Job], bool]) -> None:
        """Says of some jobs that wait, or were asked, that nothing came of them."""
        with self._lock:
            jobs = [*self._asked.values(), *self._waiting]
            self._asked = {at: job for at, job in self._asked.items() if not which(job)}
            self._waiting = deque(job for job in self._waiting if not which(job))
        for job in jobs:
            if which(job):
                job.settle(error)

    def expire(self) -> None:
        """Gives up jobs for which the time is over, or for which nobody waits any more."""
        if time.monotonic() < self._looked + _LOOKED:
            return  # with each message it would take longer than all else
        self._looked = time.monotonic()
        late = Unreachable(f"{self._place}: no acknowledgement in time")
        self.give_up(late, lambda job: job.future.done() or not job.left)

    def _next(self, most: int) -> Job | None:
        with self._lock:
            while self._waiting and self._waiting[0].future.done():
                self._waiting.popleft()
            some = [*self._asked.values(), *islice(self._waiting, 1)]
            alone = any(job.suspected for job in some)
            has_room = len(self._asked) < (1 if alone else most)
            return self._waiting.popleft() if self._waiting and has_room else None


def log_refusal(done: "Future[None]") -> None:
    """Logs why a job that nobody waits for was refused, if it was."""
    error = None if done.cancelled() else done.exception()
    if error is not None and not isinstance(error, Unreachable):
        log.warning("%s", error)
