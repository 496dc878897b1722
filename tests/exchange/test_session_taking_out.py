"""Rows that a device takes out are taken out of everybody's sums at its next sync."""

from collections.abc import Iterator
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
from elmgrove.federation.contribution import Contribution, Entry
from elmgrove.federation.member import Member, least_new_rows
from elmgrove.storage.disk import save
from support.exchanges import KINDS, Way, ways_to
from support.factories import member_in, normal_rows

BASIS = Basis(HiddenLayer(3, 3), 3, score="distance")
CHARTER = Charter("fans", BASIS, merged=True)
LEAST = least_new_rows(BASIS)
HOUR = 3600.0
BAD = Span(HOUR, 2 * HOUR)


@pytest.fixture(params=KINDS)
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    with ways_to(request, tmp_path, CHARTER) as made:
        yield made


def learn(detector: Detector, seed: int, hour: int, count: int) -> np.ndarray:
    X = normal_rows(seed, count, 3)
    detector.learn_many(X, hour * HOUR + np.arange(count))
    return X


def device(name: str) -> Member:
    made: Member = CHARTER.start(name)
    return made


def central(*parts: np.ndarray) -> Any:
    made = Detector.for_basis(BASIS)
    made.learn_many(np.vstack(parts))
    return made.evidence


def story(session: Session, fresh: int) -> np.ndarray:
    """Two hours are learned and given away; one of them is taken out, and a third one begins."""
    good = learn(session.detector, 1, 0, 40)
    learn(session.detector, 2, 1, 60)
    session.sync()
    assert reject(session.detector, BAD).taken == 60
    return np.vstack([good, learn(session.detector, 3, 2, fresh)])


def test_the_next_sync_takes_it_out_of_the_others_sums(way: Way) -> None:
    mine, theirs = (Session(device(name), way(name)) for name in ("fan-1", "fan-2"))
    left = story(mine, LEAST)
    assert theirs.sync().updated
    # In one go: nobody asks whether its name is used twice.
    report = mine.apply(mine.transfer(mine.prepare()))
    assert report.refusal is None
    assert not report.again
    theirs.sync()
    received = theirs.detector.received
    assert received.close_to(central(left), 1e-9)
    # And so it stays.
    assert mine.sync().refusal is None
    assert not theirs.sync().updated


def test_by_the_guard_it_waits_for_new_rows_like_everything_else(way: Way) -> None:
    mine, theirs = (Session(device(name), way(name)) for name in ("fan-1", "fan-2"))
    story(mine, LEAST - 1)
    report = mine.sync()
    assert report.missing == 1
    theirs.sync()
    assert theirs.detector.received.count == 100.0
    learn(mine.detector, 4, 3, 1)
    assert mine.sync().missing == 0
    theirs.sync()
    assert theirs.detector.received.count == 40.0 + LEAST


def test_without_the_guard_it_leaves_at_once(way: Way) -> None:
    mine = Session(device("fan-1"), way("fan-1"), guarded=False)
    theirs = Session(device("fan-2"), way("fan-2"))
    left = story(mine, 0)
    assert mine.sync().refusal is None
    theirs.sync()
    received = theirs.detector.received
    assert received.close_to(central(left), 1e-9)


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
    way: Way, tmp_path: Path, entries: int
) -> None:
    path = tmp_path / "mine.elm"

    def keep(member: Member) -> None:
        save(path, member)

    mine = Session(device("fan-1"), way("fan-1"), save=keep)
    theirs = Session(device("fan-2"), way("fan-2"))
    left = story(mine, LEAST)
    keep(mine.member)
    dying = Session(mine.member, Dying(way("fan-1"), entries), save=keep)
    if entries < 2:
        with pytest.raises(Unreachable):
            dying.sync()
    else:
        dying.transfer(dying.prepare())
    # Killed: what was saved before the upload is all there is.
    again = Session(member_in(path), way("fan-1"), save=keep)
    theirs.sync()
    before = theirs.detector.received
    assert before is None or before.count in (0.0, 100.0, float(len(left)))
    again.sync()
    theirs.sync()
    received = theirs.detector.received
    assert received.close_to(central(left), 1e-9)
    assert again.sync().refusal is None


def test_a_device_under_a_name_that_is_used_twice_is_still_noticed() -> None:
    exchange = MemoryExchange(CHARTER)
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
