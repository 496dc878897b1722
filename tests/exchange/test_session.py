"""A device and its exchange, in step with each other."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from elmgrove import BadInput, Basis, HiddenLayer, Mismatch
from elmgrove.errors import Unauthorized, Unreachable
from elmgrove.exchange.base import SyncReport
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.session import Session, connect
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution, Departure
from elmgrove.federation.member import Member, least_new_rows
from elmgrove.storage.disk import save
from support.agents import address
from support.factories import member_in, normal_rows
from support.serving import Federation

CHARTER = Charter(
    "fans", Basis(HiddenLayer(3, 2, activation="tanh", seed=5), 3), 0.1, ("fan-*",), merged=True
)
LEAST = least_new_rows(CHARTER.basis)


@pytest.fixture
def exchange() -> MemoryExchange:
    """Two devices have been here."""
    exchange = MemoryExchange(CHARTER)
    for n in (1, 2):
        device(f"fan-{n}", exchange, seed=n).sync()
    return exchange


def device(name: str, exchange: Any, seed: int = 9, count: int = LEAST, **options: Any) -> Session:
    session = Session(CHARTER.start(name), exchange, **options)
    session.detector.learn_many(normal_rows(seed, count, 3))
    return session


def held(exchange: Any, name: str) -> Any:
    return next((one for one in exchange.entries() if one.origin == name), None)


def told(report: SyncReport) -> tuple[object, ...]:
    return report.sent, report.missing, report.devices, report.updated, report.refusal


# Syncing


def test_a_sync_publishes_ones_own_and_takes_the_others(exchange: MemoryExchange) -> None:
    session = device("fan-9", exchange)
    report = session.sync()
    assert told(report) == (LEAST, 0, 2, True, None)
    assert held(exchange, "fan-9") == session.member.contribution()
    assert held(exchange, "fan-9").evidence.count == LEAST
    assert session.detector.model.total.count == 3 * LEAST
    assert told(session.sync()) == (LEAST, 0, 2, False, None)
    assert session.detector.model.total.count == 3 * LEAST


def test_what_the_guard_holds_back_is_said_and_the_others_are_taken_all_the_same(
    exchange: MemoryExchange,
) -> None:
    session = device("fan-9", exchange, count=LEAST - 1)
    report = session.sync()
    assert told(report) == (None, 1, 2, True, None)
    assert held(exchange, "fan-9") is None
    assert str(report) == "nothing sent yet (1 more row needed), uses fan-1, fan-2 (updated)"
    session.detector.learn_many(normal_rows(10, LEAST, 3))
    assert session.sync().sent == 2 * LEAST - 1
    session.detector.learn_one(normal_rows(11, 1, 3)[0])
    report = session.sync()
    assert told(report) == (2 * LEAST - 1, LEAST - 1, 2, False, None)
    assert str(report) == f"sums of {2 * LEAST - 1} rows sent, uses fan-1, fan-2"
    assert held(exchange, "fan-9").evidence.count == 2 * LEAST - 1


class Watched:
    """An exchange that notes what is published; passes everything on."""

    def __init__(self, exchange: MemoryExchange, log: list[str]) -> None:
        self.exchange, self.charter, self.log = exchange, exchange.charter, log

    def publish(self, entry: Contribution | Departure) -> None:
        self.log.append(type(entry).__name__)
        self.exchange.publish(entry)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.exchange, name)


def test_the_device_is_saved_before_anything_new_leaves_it(exchange: MemoryExchange) -> None:
    log, saved = list[str](), list[bytes]()

    def keep(member: Member) -> None:
        log.append("save")
        saved.append(member.to_bytes())

    session = device("fan-9", Watched(exchange, log), save=keep)
    session.sync()
    assert log == ["save", "Contribution"]
    assert Member.from_bytes(saved[0]).shared == held(exchange, "fan-9")
    session.sync()
    assert log == ["save", "Contribution", "Contribution"]
    log.clear()
    session.leave()
    assert log == ["save", "Departure", "save"]
    restored = Session(Member.from_bytes(saved[-1]), exchange)
    assert restored.sync().refusal is None


# Refused


def test_a_refusal_is_reported_and_the_device_goes_on(exchange: MemoryExchange) -> None:
    session = device("pump-1", exchange)
    report = session.sync()
    assert report.refusal is not None
    assert "'pump-1' is not among the devices that may join 'fans'" in report.refusal
    assert (report.devices, report.updated) == (2, True)
    assert session.detector.model.total.count == 3 * LEAST
    assert report.refusal in str(report)
    assert held(exchange, "pump-1") is None


def test_a_device_of_another_making_does_not_get_that_far(exchange: MemoryExchange) -> None:
    other = Charter("fans", Basis(HiddenLayer(3, 2, seed=6), 3), merged=True)
    member = other.start("fan-9")
    with pytest.raises(Mismatch, match=r"layer\.seed"):
        Session(member, exchange).sync()
    assert member.merged is None


@pytest.mark.parametrize("error", [Unreachable("gone"), Unauthorized("no key")])
def test_what_only_time_or_people_can_mend_is_raised(
    exchange: MemoryExchange, error: Exception
) -> None:
    class Closed(Watched):
        def publish(self, entry: Contribution | Departure) -> None:
            raise error

    session = device("fan-9", Closed(exchange, []))
    with pytest.raises(type(error)):
        session.sync()
    assert held(exchange, "fan-9") is None
    assert Session(session.member, exchange).sync().refusal is None


# A state that was lost


def test_a_device_that_is_outdated_should_sync_again_at_once(exchange: MemoryExchange) -> None:
    device("fan-9", exchange, seed=7, count=2 * LEAST).sync()
    reborn = device("fan-9", exchange, seed=8, count=LEAST, guarded=False)
    first, second = (reborn.apply(reborn.transfer(reborn.prepare())) for _ in range(2))
    assert (first.again, first.refusal is not None) == (True, True)
    assert (second.again, second.refusal) == (False, None)
    refused = device("pump-1", exchange, guarded=False)
    assert refused.apply(refused.transfer(refused.prepare())).again is False


@pytest.mark.parametrize("count", [LEAST, 2 * LEAST, 3 * LEAST], ids=["less", "equal", "more"])
def test_a_device_that_lost_its_state_replaces_what_is_known_of_it(
    exchange: MemoryExchange, count: int
) -> None:
    device("fan-9", exchange, seed=7, count=2 * LEAST).sync()
    log, reborn = list[str](), device("fan-9", exchange, seed=8, count=count, guarded=False)
    reborn.exchange = Watched(exchange, log)
    report = reborn.sync()
    assert report.refusal is None
    assert report.sent == count
    assert held(exchange, "fan-9").epoch > 2 * LEAST
    assert held(exchange, "fan-9").evidence == reborn.detector.evidence
    shrunk = ["Contribution", "Departure", "Contribution"]
    expected = {LEAST: shrunk, 2 * LEAST: ["Contribution"] * 2, 3 * LEAST: ["Contribution"]}
    assert log == expected[count]


def test_a_line_that_breaks_in_between_is_made_up_for(exchange: MemoryExchange) -> None:
    """The farewell of the former self must not be lost with the line."""
    device("fan-9", exchange, count=3 * LEAST).sync()
    reborn, calls = device("fan-9", exchange, seed=8, guarded=False), 0

    class Breaking(Watched):
        def publish(self, entry: Contribution | Departure) -> None:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise Unreachable("the line broke")
            super().publish(entry)

    reborn.exchange = Breaking(exchange, [])
    with pytest.raises(Unreachable):
        reborn.sync()
    reborn.exchange = exchange
    assert reborn.sync().refusal is None
    assert held(exchange, "fan-9").evidence == reborn.detector.evidence


# Leaving


def test_who_leaves_is_in_nobodys_next_model_and_a_later_sync_joins_again(
    exchange: MemoryExchange,
) -> None:
    session, other = device("fan-9", exchange), device("fan-8", exchange)
    session.sync()
    assert other.sync().devices == 3
    session.leave()
    assert isinstance(held(exchange, "fan-9"), Departure)
    assert other.sync().devices == 2
    assert other.detector.model.total.count == 3 * LEAST
    assert session.sync().refusal is None
    assert other.sync().devices == 3
    # From a state that was restored as well.
    session.detector.learn_many(normal_rows(7, 4 * LEAST, 3))
    session.sync()
    device("fan-9", exchange, seed=8).leave()
    assert isinstance(held(exchange, "fan-9"), Departure)


# Connecting


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    FolderExchange.create(tmp_path / "shared", CHARTER)
    return tmp_path / "shared"


@pytest.mark.parametrize("written", [str, lambda path: f"folder:{path}"], ids=["path", "folder:"])
def test_a_path_is_enough_to_take_part(folder: Path, written: Callable[[Path], str]) -> None:
    for n in (1, 2):
        with connect(written(folder), f"fan-{n}", warmup=7) as session:
            assert session.detector.gate.warmup == 7
            assert session.detector.model.ridge == 0.1
            session.detector.learn_many(normal_rows(n, LEAST, 3))
            assert session.sync().devices == n - 1
    assert [file.name for file in sorted(folder.iterdir())] == [
        "fan-1.entry",
        "fan-2.entry",
        "federation.json",
    ]


def test_with_a_state_a_device_goes_on_where_it_was(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "fan-1.elm"
    with connect(str(folder), "fan-1", state=state) as session:
        assert not state.exists()
        session.detector.learn_many(normal_rows(1, LEAST, 3))
        session.sync()
    assert member_in(state).shared == session.member.shared
    with connect(str(folder), "fan-1", state=str(state)) as again:
        assert again.detector.learned == LEAST
        assert told(again.sync()) == (LEAST, 0, 0, False, None)


def test_the_state_of_another_device_and_a_folder_that_is_not_there_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    save(tmp_path / "x.elm", CHARTER.start("fan-2"))
    with pytest.raises(BadInput, match=r"x\.elm is the state of 'fan-2', not of 'fan-1'"):
        connect(str(folder), "fan-1", state=tmp_path / "x.elm")
    with pytest.raises(Unreachable, match="nowhere"):
        connect(str(tmp_path / "nowhere"), "fan-1")


# A disk that takes nothing


def test_what_can_not_be_saved_is_held_back_and_others_are_taken_in(tmp_path: Path) -> None:
    FolderExchange.create(tmp_path / "fans", CHARTER)
    exchange = FolderExchange(tmp_path / "fans")
    device("fan-1", exchange, seed=1).sync()
    state = tmp_path / "card" / "fan-9.elm"
    session = device("fan-9", exchange, save=lambda member: save(state, member))
    for shared in (None, LEAST):
        before = session.member.published, session.member.lead
        report = session.sync()
        assert report.refusal == (
            f"nothing new is sent, since it can't be saved: {state}: No such file or directory"
        )
        assert (report.sent, report.devices) == (shared, 1)
        assert (session.member.published, session.member.lead) == before
        assert held(exchange, "fan-9") == session.member.shared
        state.parent.mkdir()
        assert session.sync().refusal is None
        assert held(exchange, "fan-9") == session.member.contribution()
        session.detector.learn_many(normal_rows(10, LEAST, 3))
        state.parent.rename(tmp_path / f"card-{shared}")


def test_a_departure_that_can_not_be_saved_waits_for_its_turn(tmp_path: Path) -> None:
    """Rows were taken out: without it, what is offered next would be refused again and again."""
    exchange, card = MemoryExchange(CHARTER), tmp_path / "card"
    card.mkdir()
    device("fan-9", exchange, count=3 * LEAST).sync()
    session = device("fan-9", exchange, save=lambda m: save(card / "x.elm", m), guarded=False)
    card.rename(tmp_path / "away")
    for _ in range(3):
        report = session.sync()
        assert report.refusal is not None
        assert "nothing new is sent" in report.refusal
        assert not report.again, "it would be busy for ever"
    assert held(exchange, "fan-9").evidence.count == 3 * LEAST
    card.mkdir()
    session.sync()
    assert held(exchange, "fan-9").evidence.count == LEAST


# A sync that an event loop awaits: with a real server, and cancelled on its way


@contextmanager
def session_of(federation: Federation, name: str, seed: int) -> Iterator[Session]:
    with connect(address(federation), name, token=federation.token) as session:
        session.detector.learn_many(normal_rows(seed))
        yield session


class Delayed:
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
        delayed = Delayed(session, monkeypatch)

        async def work() -> int:
            task = asyncio.create_task(session.sync_async())
            while not delayed.reached.is_set():
                await asyncio.sleep(0)
            session.detector.observe_many(normal_rows(3))
            delayed.let_go.set()
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
            delayed, member = Delayed(session, monkeypatch), session.member
            before = member.detector.model.total, member.ledger.entries, member.merged

            async def cancelled() -> None:
                task = asyncio.create_task(session.sync_async())
                while not delayed.reached.is_set():
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                delayed.let_go.set()

            asyncio.run(cancelled())
            assert delayed.ended.wait(60)
            assert (member.detector.model.total, member.ledger.entries, member.merged) == before
            # The next one is as if nothing had been.
            monkeypatch.undo()
            report = asyncio.run(session.sync_async())
            assert report.devices == 1
            assert member.merged is not None or len(member.ledger)
