"""Syncs in the background: one at a time, later after a failure, with waits that grow."""

import logging
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from elmgrove.device import background_sync as module
from elmgrove.device.background_sync import BackgroundSync
from elmgrove.errors import Unreachable
from elmgrove.exchange.backoff import Backoff
from elmgrove.exchange.base import SyncReport
from support.serving import wait_until


class RecordedSync:
    """Notes what is asked of it, and in which thread; fails or waits where a test wants it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.failure: BaseException | None = None
        self.refusal: str | None = None
        self.again = False
        self.go = threading.Event()
        self.go.set()

    def _note(self, what: str) -> None:
        self.asked.append((what, threading.current_thread() is threading.main_thread()))

    def prepare(self) -> int:
        self._note("prepare")
        return len(self.asked)

    def transfer(self, outgoing: int) -> str | None:
        self._note("transfer")
        assert self.go.wait(300)
        if self.failure is not None:
            raise self.failure
        return self.refusal

    def apply(self, incoming: str | None) -> SyncReport:
        self._note("apply")
        return SyncReport(None, 0, 0, True, incoming, again=self.again)

    def close(self) -> None:
        self._note("close")

    def count(self, what: str) -> int:
        return [name for name, _ in self.asked].count(what)


@contextmanager
def sync(recorded: RecordedSync, seconds: float = 0.0) -> Iterator[BackgroundSync]:
    made = BackgroundSync(recorded, seconds)
    yield made
    recorded.go.set()
    made.close()


def step_until_applied(made: BackgroundSync, recorded: RecordedSync) -> None:
    before = recorded.count("apply")
    wait_until(lambda: made.step() and recorded.count("apply") > before)


def test_only_the_transfer_is_done_in_another_thread() -> None:
    recorded = RecordedSync()
    with sync(recorded, seconds=60) as made:
        step_until_applied(made, recorded)
    assert recorded.asked == [
        ("prepare", True),
        ("transfer", False),
        ("apply", True),
        ("close", True),
    ]


def test_one_at_a_time_and_nobody_waits_for_it() -> None:
    recorded = RecordedSync()
    recorded.go.clear()
    with sync(recorded, seconds=0.001) as made:
        for _ in range(100):
            assert made.step() is False
        wait_until(lambda: recorded.count("transfer") == 1)
        assert recorded.count("prepare") == 1
        recorded.go.set()
        step_until_applied(made, recorded)


def test_the_first_is_at_once_and_the_next_when_it_is_time() -> None:
    recorded = RecordedSync()
    with sync(recorded, seconds=3600) as made:
        step_until_applied(made, recorded)
        made.step()
        assert recorded.count("prepare") == 1
    recorded = RecordedSync()
    with sync(recorded, seconds=0.01) as made:
        for _ in range(3):
            step_until_applied(made, recorded)


def test_after_a_failure_it_waits_longer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = iter([3600.0])
    monkeypatch.setattr(module.Backoff, "failed", lambda self, at_least: next(waits))
    recorded = RecordedSync()
    recorded.failure = Unreachable("the server sleeps")
    with sync(recorded, seconds=0.001) as made:
        made.step()
        wait_until(lambda: not made.step() and "the server sleeps" in caplog.text)
        for _ in range(50):
            made.step()
        assert recorded.count("prepare") == 1
        assert "sync failed, next try in 3600 s" in caplog.text


@pytest.mark.parametrize("where", ["prepare", "transfer", "apply", "synced"])
def test_a_fault_is_told_once_with_its_trace_and_ends_nothing(
    where: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Backoff", lambda: Backoff(first=0.001, longest=0.002))
    recorded, faults = RecordedSync(), list[str]()

    def broken(*_: object) -> None:
        faults.append(where)
        raise ZeroDivisionError("a fault in the program")

    made = BackgroundSync(recorded, 0.001, broken if where == "synced" else lambda: None)
    if where != "synced":
        monkeypatch.setattr(recorded, where, broken)
    updates = list[bool]()

    def often_enough() -> bool:
        updates.append(made.step())
        return len(faults) >= 5

    wait_until(often_enough)
    assert any(updates) == (where == "synced"), "what was taken in before is to be saved"
    (told,) = caplog.records
    assert told.exc_info is not None
    assert "a fault in Elmgrove: ZeroDivisionError" in told.getMessage()
    assert made.last is not None
    assert made.last["failed"]


def test_the_same_trouble_is_told_once_until_there_is_another_or_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    recorded = RecordedSync()

    def told(failure: Exception | None = None, refusal: str | None = None) -> list[str]:
        """What is logged of two syncs."""
        recorded.failure, recorded.refusal = failure, refusal
        caplog.clear()
        made.finish(60)
        return [f"{r.levelname} {r.getMessage().partition(': ')[2]}" for r in caplog.records]

    with sync(recorded) as made:
        assert told(Unreachable("it sleeps")) == ["WARNING it sleeps"]
        assert told(Unreachable("it sleeps")) == []
        assert told(OSError("no disk")) == ["WARNING no disk"]
        assert told(Unreachable("it sleeps")) == ["WARNING it sleeps"]
        works = "nothing sent yet, uses 0 other devices (updated)"
        assert told() == [f"INFO {works}"] * 2
        assert told(Unreachable("it sleeps")) == ["WARNING it sleeps"]
        assert told(refusal="too large") == [f"WARNING {works}; refused: too large"]
        assert told(refusal="too large") == []
        assert told(refusal="odd") == [f"WARNING {works}; refused: odd"]


def test_who_finds_everything_outdated_is_asked_again_once() -> None:
    recorded = RecordedSync()
    recorded.again = True
    with sync(recorded, seconds=3600) as made:
        for _ in range(2):
            step_until_applied(made, recorded)
        made.step()
        assert recorded.count("prepare") == 2


def test_an_exchange_that_asks_for_patience_gets_it() -> None:
    recorded = RecordedSync()
    recorded.failure = Unreachable("busy", 200.0)
    with sync(recorded) as made:
        wait_until(lambda: not made.step() and made.last is not None)
        assert made.last is not None
        assert 200 <= made.last["next"] - made.last["time"] <= 300


# Hastened


class Clock:
    """The time as a test has it, for the module alone."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def waited(made: BackgroundSync, recorded: RecordedSync, clock: Clock) -> float:
    """How long it takes until the next sync begins."""
    begun, before = recorded.count("prepare"), clock.now
    while recorded.count("prepare") == begun:
        clock.now += 0.01
        made.step()
        assert clock.now < before + 7200
    return clock.now - before


def test_a_sync_that_is_hastened_comes_soon(clock: Clock) -> None:
    recorded = RecordedSync()
    with sync(recorded, seconds=3600) as made:
        step_until_applied(made, recorded)
        clock.now += 60
        made.hasten()
        assert waited(made, recorded, clock) < 1.0
        # While one is under way as well: what is to be told was not known when it began.
        made.hasten()
        step_until_applied(made, recorded)
        assert waited(made, recorded, clock) < 2.5
        step_until_applied(made, recorded)
        assert waited(made, recorded, clock) == pytest.approx(3600, abs=1)


def test_nobody_can_keep_a_device_busy_with_syncs(clock: Clock) -> None:
    recorded, waits = RecordedSync(), list[float]()
    with sync(recorded, seconds=3600) as made:
        step_until_applied(made, recorded)
        for _ in range(20):
            made.hasten()
            waits.append(waited(made, recorded, clock))
            step_until_applied(made, recorded)
    assert waits == pytest.approx([2.0] * 20, abs=0.1)


def test_no_haste_makes_a_wait_after_a_failure_shorter(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.Backoff, "failed", lambda self, at_least: 50.0)
    recorded = RecordedSync()
    recorded.failure = Unreachable("the server sleeps")
    with sync(recorded, seconds=3600) as made:
        wait_until(lambda: not made.step() and made.failed == 1)
        made.hasten()
        assert waited(made, recorded, clock) == pytest.approx(50, abs=0.1)


def test_at_the_end_one_more_than_what_was_under_way() -> None:
    """What is under way may have begun before the last rows came."""
    recorded = RecordedSync()
    with sync(recorded, seconds=3600) as made:
        made.step()
        assert made.finish(60) is True
        assert recorded.count("apply") == 2


def test_at_the_end_nobody_waits_for_ever() -> None:
    recorded = RecordedSync()
    recorded.go.clear()
    with sync(recorded) as made:
        assert made.finish(0.05) is False


# Waits


def test_waits_double_up_to_the_longest_and_start_again() -> None:
    backoff = Backoff(first=1.0, factor=2.0, longest=5.0)
    for step in (1.0, 2.0, 4.0, 5.0, 5.0):
        assert step / 2 <= backoff.failed() <= step
    backoff.succeeded()
    assert 0.5 <= backoff.failed() <= 1.0


def test_who_is_asked_to_wait_waits_so_long_and_no_other_wait_grows_by_it() -> None:
    backoff = Backoff(first=1.0)
    assert 20 <= backoff.failed(20.0) <= 30
    assert 1 <= backoff.failed() <= 2


def test_waits_spread_over_the_upper_half_of_their_step() -> None:
    backoff = Backoff(first=8.0, longest=8.0, random=random.Random(3))
    waits = [backoff.failed() for _ in range(200)]
    assert min(waits) < 4.5
    assert max(waits) > 7.5
