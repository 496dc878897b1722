"""Live rounds: begins and closes the rounds of federations, and lets clients wait for their turn.

All that counts is in the store. Any server on the same data base may close a round; one of them
does.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from elmgrove.rounds import (
    Agenda,
    BetweenRounds,
    Closing,
    Exam,
    Replies,
    RoundRule,
    close_round,
    drawn,
)
from elmgrove.server.live import SECONDS_BETWEEN_LOOKS
from elmgrove.server.store import (
    FederationRow,
    HeldRounds,
    NoSuchFederation,
    RoundsRow,
    Store,
    StoredReply,
)

log = logging.getLogger("elmgrove.server")
T = TypeVar("T")

#: What stands for the number of a round where there are no more.
_NONE = -1
_READERS = 16


class LiveRounds:
    """Looks at all federations in rounds every now and then, and moves on those that are due.

    At most so many clients wait here at once; the others are told to ask again.
    """

    def __init__(self, store: Store, most_waiting: int) -> None:
        self._store = store
        self._most_waiting = most_waiting
        self._waiting = 0
        self._released = False
        self._changed = asyncio.Event()
        self._moved = asyncio.Condition()
        # The round of each federation at the last look.
        self._numbers = dict[str, int]()
        # What reads replies of those federations that had some last: any round's request will do.
        self._readers = dict[tuple[str, float], RoundRule[Any]]()
        self._known: tuple[Any, RoundRule[Any]] | None = None
        self._one_at_a_time = asyncio.Lock()

    def wake(self) -> None:
        """Tells that something was stored, so that it is looked at once."""
        self._changed.set()

    def release(self) -> None:
        """Lets nobody wait any more: the server ends."""
        self._released = True
        self._changed.set()

    async def run(self) -> None:
        """Begins and closes rounds when they are due, until cancelled."""
        while True:
            # Before the look, so that no change in the course of it is missed.
            self._changed.clear()
            try:
                await self._look()
            except Exception:  # the data base may be back at the next look
                log.exception("rounds could not be looked at")
            try:
                await asyncio.wait_for(self._changed.wait(), SECONDS_BETWEEN_LOOKS)
            except TimeoutError:
                continue

    async def _look(self) -> None:
        numbers = dict.fromkeys(self._numbers, _NONE)
        for state in await self._store.rounds_under_way():
            numbers[state.federation] = state.number
            try:
                if await self._move_on(state):
                    self.wake()
            except NoSuchFederation:
                continue
            except Exception:  # one that fails must not stop the others
                log.exception("%s: round %d could not be closed", state.federation, state.number)
        if numbers != self._numbers or self._released:
            self._numbers = numbers
            async with self._moved:
                self._moved.notify_all()

    async def _move_on(self, state: RoundsRow) -> bool:
        """Begins or closes a round, if it is time; says whether it did."""
        federation = await self._store.federation(state.federation)
        if federation is None or federation.agenda is None:
            return False
        agenda, now = Agenda.from_fields(federation.agenda), time.time()
        valid = await self._valid(federation.name, now)
        until = now + agenda.deadline
        if state.number == 0:
            if len(valid) < agenda.clients:
                return False
            draw = _draw(agenda, 1)
            return await self._store.begin_rounds(federation, agenda.clients, draw, now, until)
        if now < state.until and (set(state.asked) - state.replied) & valid:
            return False
        held = await self._store.rounds_held(federation.name)
        if held is None or held.state != state:
            return True  # it moved meanwhile: look again
        closing = await asyncio.to_thread(_closed, agenda, held, valid, now)
        return await self._store.close_round(
            federation,
            held.state,
            closing.request,
            closing.progress,
            closing.report.fields,
            closing.kept,
            _draw(agenda, state.number + 1),
            now,
            until,
        )

    async def _valid(self, federation: str, now: float) -> set[str]:
        devices = await self._store.devices(federation)
        return {device.name for device in devices if device.invalid(now) is None}

    async def turn(self, federation: str, device: str, seconds: float) -> tuple[RoundsRow, float]:
        """Waits until a device is asked or the last round is over; no longer than some seconds.

        Gives where the federation stands, and after how many seconds to ask again. Nothing of the
        data base is held meanwhile.
        """
        crowded = self._waiting >= self._most_waiting
        until = time.monotonic() + (0.0 if crowded else seconds)
        self._waiting += 1
        try:
            while True:
                # Before the state is read, so that no change after that is missed.
                looked = self._numbers.get(federation)
                state = await self._store.rounds(federation)
                if state is None:
                    raise NoSuchFederation(f"there is no federation {federation!r} in rounds")
                left = until - time.monotonic()
                if state.ended or _is_asked(state, device) or left <= 0 or self._released:
                    return state, 1.0 + seconds / 4 if crowded else 0.0
                await self._wait(federation, looked, left)
        finally:
            self._waiting -= 1

    async def _wait(self, federation: str, looked: int | None, seconds: float) -> None:
        def is_over() -> bool:
            return self._released or self._numbers.get(federation) != looked

        try:
            async with asyncio.timeout(seconds), self._moved:
                await self._moved.wait_for(is_over)
        except TimeoutError:
            return

    async def is_usable(
        self, federation: FederationRow, agenda: Agenda, origin: str, reply: bytes
    ) -> bool:
        """Says whether a reply has something new; raises, with the reason, if it can't be used."""
        key = (federation.name, federation.created)
        reader = self._readers.get(key)
        if reader is None:
            found = await self._store.round_request(federation.name)
            if found is None:
                raise NoSuchFederation(f"there is no federation {federation.name!r} in rounds")
            while len(self._readers) >= _READERS:
                del self._readers[next(iter(self._readers))]
            reader = self._readers[key] = await asyncio.to_thread(agenda.round_rule, found[1])
        return await asyncio.to_thread(reader.read, origin, reply) is not None

    async def use(
        self, federation: FederationRow, agenda: Agenda, use: Callable[[RoundRule[Any]], T]
    ) -> T:
        """Uses the rule as it is after the last round that was closed, one use at a time.

        It is kept until the next round, or the next federation that is asked about.
        """
        async with self._one_at_a_time:
            stands = await self._store.rounds(federation.name)
            number = _NONE if stands is None else stands.number
            replies = await self._store.replies_held(federation.name)
            key = (federation.name, federation.created, number, replies)
            if self._known is None or self._known[0] != key:
                held = await self._store.rounds_held(federation.name)
                if held is None:
                    raise NoSuchFederation(f"there is no federation {federation.name!r} in rounds")
                self._known = (key, await asyncio.to_thread(_rule, agenda, held))
            return await asyncio.to_thread(use, self._known[1])


def _draw(agenda: Agenda, number: int) -> Callable[[Sequence[str]], Sequence[str]]:
    return partial(drawn, fraction=agenda.fraction, seed=agenda.seed, number=number)


def _is_asked(state: RoundsRow, device: str) -> bool:
    return device in state.asked and device not in state.replied


def _closed(agenda: Agenda, held: HeldRounds, valid: set[str], now: float) -> Closing:
    """Closes a round in this thread: what came of those drawn, and why the others are left out."""
    state = held.state
    now_held = {reply.origin: reply for reply in held.replies if reply.number == state.number}
    came, without = dict[str, bytes](), dict[str, str]()
    for name in state.asked:
        reply = now_held.get(name)
        if reply is None:
            late = f"late: no reply within {agenda.deadline:g} s"
            without[name] = late if name in valid else "its key is no longer valid"
        elif reply.unusable:
            without[name] = reply.unusable
        elif _intact(state, reply):
            came[name] = reply.blob
        else:
            without[name] = "its reply was damaged in the data base"
    exam = None if held.exam is None else Exam.from_bytes(held.exam)
    return close_round(
        agenda,
        _held(held),
        state.number,
        state.asked,
        Replies(came, without),
        exam=exam,
        seconds=now - state.began,
    )


def _rule(agenda: Agenda, held: HeldRounds) -> RoundRule[Any]:
    return _held(held).rule(agenda)


def _held(held: HeldRounds) -> BetweenRounds:
    state = held.state
    earlier = (reply for reply in held.replies if reply.number < state.number)
    kept = {reply.origin: reply.blob for reply in earlier if _intact(state, reply)}
    return BetweenRounds(held.request, held.progress, kept)


def _intact(state: RoundsRow, reply: StoredReply) -> bool:
    if not reply.is_intact:
        log.error(
            "%s: the reply of %r to round %d is not the bytes that came",
            state.federation,
            reply.origin,
            reply.number,
        )
    return reply.is_intact
