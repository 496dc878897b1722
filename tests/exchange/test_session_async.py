"""A sync that an event loop awaits: with a real server, and cancelled on its way."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from elmgrove.exchange.session import Session, connect
from support.agents import address
from support.factories import normal_rows
from support.serving import Federation


@contextmanager
def session_of(federation: Federation, name: str, seed: int) -> Iterator[Session]:
    with connect(address(federation), name, token=federation.token) as session:
        session.detector.learn_many(normal_rows(seed))
        yield session


class Held:
    """Stops a session's transfer on its way, until it is let go."""

    def __init__(self, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.let_go, self.ended = (threading.Event() for _ in range(3))
        transfer = session.transfer

        def slow(outgoing: object) -> object:
            self.reached.set()
            assert self.let_go.wait(60)
            try:
                return transfer(outgoing)
            finally:
                self.ended.set()

        monkeypatch.setattr(session, "transfer", slow)


def test_devices_learn_from_each_other_as_by_sync(federation: Federation) -> None:
    with session_of(federation, "fan-1", 1) as one, session_of(federation, "fan-2", 2) as other:

        async def both() -> None:
            await asyncio.gather(one.sync_async(), other.sync_async())
            await asyncio.gather(one.sync_async(), other.sync_async())

        asyncio.run(both())
        assert one.detector.model.total.close_to(other.detector.model.total, 1e-9)
        before = one.detector.model.total
        assert not one.sync().updated
        assert one.detector.model.total == before


def test_the_loop_and_the_detector_go_on_meanwhile(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session_of(federation, "fan-1", 1) as session:
        session.sync()
        held = Held(session, monkeypatch)

        async def work() -> int:
            task = asyncio.create_task(session.sync_async())
            while not held.reached.is_set():
                await asyncio.sleep(0)
            session.detector.observe_many(normal_rows(3))
            held.let_go.set()
            report = await task
            return report.sent or 0

        # Sent is what was known when it began.
        assert asyncio.run(work()) == len(normal_rows(1))
        assert session.detector.learned == len(normal_rows(1)) + len(normal_rows(3))


def test_a_sync_that_is_cancelled_takes_nothing_in(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session_of(federation, "fan-2", 2) as other:
        other.sync()
        with session_of(federation, "fan-1", 1) as session:
            held, member = Held(session, monkeypatch), session.member
            before = member.detector.model.total, member.ledger.entries, member.merged

            async def cancelled() -> None:
                task = asyncio.create_task(session.sync_async())
                while not held.reached.is_set():
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                held.let_go.set()

            asyncio.run(cancelled())
            assert held.ended.wait(60)
            assert (member.detector.model.total, member.ledger.entries, member.merged) == before
            # The next one is as if nothing had been.
            monkeypatch.undo()
            report = asyncio.run(session.sync_async())
            assert report.devices == 1
            assert member.merged is not None or len(member.ledger)
