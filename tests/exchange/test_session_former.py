"""What a former self gave away counts: a state that was lost or restored may have the same rows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, Detector, HiddenLayer
from elmgrove.detector.feedback import reject
from elmgrove.detector.history import Span
from elmgrove.errors import Unreachable
from elmgrove.exchange.base import Exchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.session import Session
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution, Departure, Entry
from elmgrove.federation.member import Member, least_new_rows
from elmgrove.storage.disk import save
from support.exchanges import KINDS, READER, Way, ways_to
from support.factories import member_in, normal_rows, trained_member
from support.reconstruction import computed, off

CHARTER = Charter("fans", Basis(HiddenLayer(16, 8, activation="tanh", seed=3), 16), merged=True)
LEAST = least_new_rows(CHARTER.basis)
X = 0.3 * np.random.default_rng(100).normal(size=(400, 16))


@pytest.fixture(params=KINDS)
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    with ways_to(request, tmp_path, CHARTER) as made:
        yield made


def started(exchange: object, rows: int, **options: object) -> Session:
    session = Session(CHARTER.start("fan"), exchange, **options)
    session.detector.learn_many(X[:rows])
    return session


def held(exchange: object) -> object:
    (found,) = exchange.entries()
    return found.evidence


def test_a_state_that_was_lost_asks_what_is_held_before_it_sends(way: Way) -> None:
    started(way("fan"), 100).sync()
    before = held(way(READER))
    reborn = started(way("fan"), 104)
    # What counting its own rows would send gives four of them away.
    alone = trained_member(CHARTER.start("fan"), X[:104])
    offer = alone.offer()
    assert off(X[100:104], computed(offer.evidence - before)).max() < 1e-6
    report = reborn.sync()
    assert (report.sent, report.missing) == (None, 100 + LEAST - 104)
    assert report.blocked_reason is not None
    assert (
        "'fan' gave away up to 100 rows that this state does not know of" in report.blocked_reason
    )
    assert "use another name, or switch the guard off once" in str(report)
    assert held(way(READER)) == before
    reborn.detector.learn_many(X[104 : 100 + LEAST])
    assert reborn.sync().sent == 100 + LEAST
    assert held(way(READER)).count == 100 + LEAST


def test_so_does_one_that_was_restored_and_what_is_held_stays_meanwhile() -> None:
    exchange = MemoryExchange(CHARTER)
    session = started(exchange, 100)
    session.sync()
    backup = session.member.to_bytes()
    session.detector.learn_many(X[100:200])
    session.sync()
    restored = Session(Member.from_bytes(backup), exchange)
    restored.detector.learn_many(X[100:204])
    report = restored.sync()
    assert (report.sent, report.missing) == (100, 200 + LEAST - 204)
    assert held(exchange) == session.detector.evidence
    # It does not forget that when it is saved, nor does another sync change it.
    again = Session(Member.from_bytes(restored.member.to_bytes()), exchange)
    assert again.sync().missing == 200 + LEAST - 204
    again.detector.learn_many(X[204 : 200 + LEAST])
    assert again.sync().sent == 200 + LEAST
    assert (again.member.former, again.sync().missing) == (0, 0)


def test_what_left_counts_as_well_but_not_what_somebody_else_took_out() -> None:
    exchange = MemoryExchange(CHARTER)
    first = started(exchange, 100)
    first.sync()
    first.leave()
    assert started(exchange, 104).sync().blocked_reason is not None
    exchange = MemoryExchange(CHARTER)
    known = started(exchange, 100)
    known.sync()
    exchange.publish(Departure("fan", known.member.highest + 1))
    again = Session(Member.from_bytes(known.member.to_bytes()), exchange)
    again.detector.learn_many(X[100 : 100 + LEAST])
    report = again.sync()
    assert (report.sent, report.blocked_reason) == (100 + LEAST, None)


def test_leaving_from_a_lost_state_does_not_hide_what_was_given() -> None:
    exchange = MemoryExchange(CHARTER)
    started(exchange, 100).sync()
    reborn = started(exchange, 104)
    reborn.leave()
    assert reborn.sync().missing == 100 + LEAST - 104


def test_without_the_guard_it_sends_at_once_and_from_then_on_knows() -> None:
    exchange = MemoryExchange(CHARTER)
    started(exchange, 100).sync()
    open_session = started(exchange, 104, guarded=False)
    assert open_session.sync().refusal is None
    again = Session(Member.from_bytes(open_session.member.to_bytes()), exchange)
    again.detector.learn_many(X[104 : 104 + LEAST])
    assert (again.sync().sent, again.member.former) == (104 + LEAST, 0)


@pytest.mark.parametrize("cleared", [True, False])
def test_after_a_stolen_key_what_was_given_before_is_sent_again(cleared: bool) -> None:
    """As soon as somebody cleared or took out what is held; nothing new is, as nobody knows."""
    exchange = MemoryExchange(CHARTER)
    session = started(exchange, 100)
    session.sync()
    (mine,) = exchange.entries()
    exchange.publish(replace(mine, epoch=10**12))
    again = Session(Member.from_bytes(session.member.to_bytes()), exchange)
    again.detector.learn_many(X[100:200])
    assert again.sync().blocked_reason is not None
    (stolen,) = exchange.entries()
    assert stolen.epoch == 10**12, "it may be what the device gave away itself"
    if cleared:
        again.exchange = exchange = MemoryExchange(CHARTER)
    else:
        exchange.publish(Departure("fan", 10**12 + 1))
    again.sync()
    assert again.sync().blocked_reason is not None
    assert held(exchange) == mine.evidence
    assert Session(Member.from_bytes(again.member.to_bytes()), exchange).sync().sent == 100


@pytest.mark.parametrize("more", [0, 4])
def test_without_the_guard_once_a_restored_state_need_not_wait(more: int) -> None:
    """Also where nothing is new, and where what is held has more rows, so that it is refused."""
    exchange = MemoryExchange(CHARTER)
    session = started(exchange, 100)
    session.sync()
    backup = session.member.to_bytes()
    session.detector.learn_many(X[100:300])
    session.sync()
    restored = Session(Member.from_bytes(backup), exchange)
    restored.detector.learn_many(X[:more])
    restored.sync()
    once = Session(Member.from_bytes(restored.member.to_bytes()), exchange, guarded=False)
    assert once.sync().refusal is None
    again = Session(Member.from_bytes(once.member.to_bytes()), exchange)
    again.detector.learn_many(X[300 : 300 + LEAST])
    report = again.sync()
    assert (report.blocked_reason, report.sent) == (None, 100 + more + LEAST)
    assert held(exchange).count == 100 + more + LEAST


def test_an_exchange_that_was_reset_takes_what_is_known_as_before() -> None:
    session = started(MemoryExchange(CHARTER), 100)
    session.sync()
    empty = MemoryExchange(CHARTER)
    again = Session(Member.from_bytes(session.member.to_bytes()), empty)
    assert again.sync().blocked_reason is None
    assert held(empty) == session.detector.evidence


# Rows that a device takes out are taken out of everybody's sums at its next sync

DISTANT = Basis(HiddenLayer(3, 3), 3, score="distance")
DISTANT_FANS = Charter("fans", DISTANT, merged=True)
DISTANT_LEAST = least_new_rows(DISTANT)
HOUR = 3600.0
BAD = Span(HOUR, 2 * HOUR)


@pytest.fixture(params=KINDS)
def distant_way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    with ways_to(request, tmp_path, DISTANT_FANS) as made:
        yield made


def learn(detector: Detector, seed: int, hour: int, count: int) -> np.ndarray:
    X = normal_rows(seed, count, 3)
    detector.learn_many(X, hour * HOUR + np.arange(count))
    return X


def device(name: str) -> Member:
    made: Member = DISTANT_FANS.start(name)
    return made


def central(*parts: np.ndarray) -> Any:
    made = Detector.for_basis(DISTANT)
    made.learn_many(np.vstack(parts))
    return made.evidence


def story(session: Session, fresh: int) -> np.ndarray:
    """Two hours are learned and given away; one of them is taken out, and a third one begins."""
    good = learn(session.detector, 1, 0, 40)
    learn(session.detector, 2, 1, 60)
    session.sync()
    assert reject(session.detector, BAD).taken == 60
    return np.vstack([good, learn(session.detector, 3, 2, fresh)])


@pytest.mark.parametrize("guarded", [True, False])
def test_the_next_sync_takes_it_out_of_the_others_sums(distant_way: Way, guarded: bool) -> None:
    """Without the guard at once."""
    mine = Session(device("fan-1"), distant_way("fan-1"), guarded=guarded)
    theirs = Session(device("fan-2"), distant_way("fan-2"))
    left = story(mine, DISTANT_LEAST if guarded else 0)
    assert theirs.sync().updated
    # In one go: nobody asks whether its name is used twice.
    report = mine.apply(mine.transfer(mine.prepare()))
    assert (report.refusal, report.again) == (None, False)
    theirs.sync()
    assert theirs.detector.received.close_to(central(left), 1e-9)
    # And so it stays.
    assert mine.sync().refusal is None
    assert not theirs.sync().updated


def test_by_the_guard_it_waits_for_new_rows_like_everything_else(distant_way: Way) -> None:
    mine, theirs = (Session(device(name), distant_way(name)) for name in ("fan-1", "fan-2"))
    story(mine, DISTANT_LEAST - 1)
    report = mine.sync()
    assert report.missing == 1
    theirs.sync()
    assert theirs.detector.received.count == 100.0
    learn(mine.detector, 4, 3, 1)
    assert mine.sync().missing == 0
    theirs.sync()
    assert theirs.detector.received.count == 40.0 + DISTANT_LEAST


class Dying:
    """An exchange that is lost after so many entries."""

    def __init__(self, exchange: Exchange, entries: int) -> None:
        self._exchange, self._left = exchange, entries

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    def publish(self, entry: Entry) -> None:
        if not self._left:
            raise Unreachable("lost")
        self._left -= 1
        self._exchange.publish(entry)


@pytest.mark.parametrize("entries", [0, 1, 2])
def test_after_a_kill_at_any_moment_the_next_syncs_take_it_out(
    distant_way: Way, tmp_path: Path, entries: int
) -> None:
    path = tmp_path / "mine.elm"

    def keep(member: Member) -> None:
        save(path, member)

    mine = Session(device("fan-1"), distant_way("fan-1"), save=keep)
    theirs = Session(device("fan-2"), distant_way("fan-2"))
    left = story(mine, DISTANT_LEAST)
    keep(mine.member)
    dying = Session(mine.member, Dying(distant_way("fan-1"), entries), save=keep)
    if entries < 2:
        with pytest.raises(Unreachable):
            dying.sync()
    else:
        dying.transfer(dying.prepare())
    # Killed: what was saved before the upload is all there is.
    again = Session(member_in(path), distant_way("fan-1"), save=keep)
    theirs.sync()
    before = theirs.detector.received
    assert before is None or before.count in (0.0, 100.0, float(len(left)))
    again.sync()
    theirs.sync()
    received = theirs.detector.received
    assert received.close_to(central(left), 1e-9)
    assert again.sync().refusal is None


def test_a_device_under_a_name_that_is_used_twice_is_still_noticed() -> None:
    exchange = MemoryExchange(DISTANT_FANS)
    one, two = Session(device("fan-1"), exchange), Session(device("fan-1"), exchange)
    learn(one.detector, 1, 0, 100)
    one.sync()
    learn(two.detector, 2, 0, 50)
    report = two.sync()
    assert report.sent is None
    assert report.blocked_reason is not None
    assert (
        "'fan-1' gave away up to 100 rows that this state does not know of" in report.blocked_reason
    )
    (entry,) = exchange.entries()
    assert isinstance(entry, Contribution)
    assert entry == one.member.shared
