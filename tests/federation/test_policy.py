"""What others are to a device: whom it asks, from whom it borrows, or with whom it is one."""

from typing import Any

import numpy as np
import pytest

from elmgrove import BadInput, Detector, FalseAlarmRate, PatternRule
from elmgrove.algebra.distance import lent_together
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution, Departure
from elmgrove.federation.member import Member
from support.factories import DISTANT, cloud

ME, PEER, NOBODY = 0, 1, 2
SOON = FalseAlarmRate(confidence=0.0)


def member(
    name: str, kind: int = ME, count: int = 600, merges: bool = False, **settings: Any
) -> Member:
    settings.setdefault("threshold", SOON)
    made = Member(name, Detector.for_basis(DISTANT, **settings), merges=merges)
    made.detector.learn_many(cloud(kind, 1, count))
    return made


def contribution_from(
    name: str, kind: int = PEER, count: int = 600, **settings: Any
) -> Contribution:
    return member(name, kind, count, **settings).contribution()


def middle(kind: int) -> np.ndarray:
    return np.asarray(cloud(kind, 1).mean(axis=0))


# What is made of an anomalous row


def test_a_row_that_another_knows_is_anomalous_all_the_same() -> None:
    me = member("fan-1")
    assert me.detector.observe(middle(PEER)).anomalous, "nobody is asked yet"
    me.receive(contribution_from("fan-2"))
    verdict = me.detector.observe(middle(PEER))
    assert (verdict.anomalous, verdict.known) == (True, ("fan-2",))
    assert me.detector.observe(middle(NOBODY)).anomalous
    assert me.detector.received is None, "its model is its own"


def test_a_device_with_patterns_is_named_with_the_number() -> None:
    peer = Member("fan-2", Detector.for_basis(DISTANT, patterns=PatternRule(2), threshold=SOON))
    both = np.stack([cloud(PEER, 1), cloud(NOBODY, 1)], axis=1).reshape(-1, 6)
    peer.detector.learn_many(both)
    assert len(peer.contribution().parts) == 2
    me = member("fan-1")
    me.receive(Contribution.from_bytes(peer.contribution().to_bytes()))
    names = {me.detector.observe(middle(kind)).known for kind in (PEER, NOBODY)}
    assert names == {("fan-2 (pattern 1)",), ("fan-2 (pattern 2)",)}


def test_one_who_is_still_learning_is_not_named_but_lends() -> None:
    peer = contribution_from("fan-2", threshold=FalseAlarmRate(), count=40)
    assert peer.threshold is None
    me = member("fan-1")
    me.receive(peer)
    verdict = me.detector.observe(middle(PEER))
    assert (verdict.known, verdict.anomalous) == ((), True)
    assert me.detector.loan == lent_together([peer.lent])


def test_who_left_or_is_forgotten_is_asked_no_more() -> None:
    me = member("fan-1")
    for _ in range(2):
        me.receive(contribution_from("fan-2"))
        assert me.detector.observe(middle(PEER)).known == ("fan-2",)
        me.forget("fan-2")
        assert (me.detector.observe(middle(PEER)).known, me.detector.loan) == ((), None)
    me.receive(contribution_from("fan-2"))
    me.receive(Departure("fan-2", 601))
    assert (me.detector.observe(middle(PEER)).known, me.detector.loan) == ((), None)


# What is told of oneself


def test_a_threshold_is_told_once_there_is_one_and_it_is_ones_own() -> None:
    me = member("fan-1")
    assert me.contribution().threshold == me.detector.threshold
    assert member("fan-1", count=40, threshold=FalseAlarmRate()).contribution().threshold is None
    assert member("fan-1", merges=True).contribution().threshold is None


def test_while_a_question_is_open_nobody_calls_a_row_normal_by_what_was_learned() -> None:
    """What was published before is published again, newer and without a threshold."""
    me, peer = member("fan-1"), member("fan-2", PEER)
    before = peer.offer(guarded=False)
    me.receive(before)
    assert me.detector.observe(middle(PEER)).known == ("fan-2",)
    while peer.detector.state == "watching":
        peer.detector.observe(middle(NOBODY))
    assert peer.detector.state == "changing"
    asking = peer.offer()
    assert (asking.threshold, asking.evidence) == (None, before.evidence)
    assert asking.epoch > before.epoch
    assert peer.offer() == asking, "once"
    assert me.receive(asking)
    assert me.detector.observe(middle(PEER)).known == ()
    assert Member.from_bytes(peer.to_bytes()).shared == asking


def test_a_slow_change_that_is_asked_about_is_no_knowledge_either() -> None:
    me = member("fan-1")
    me.detector.drift.found = True
    assert me.detector.state == "watching"
    assert me.contribution().threshold is None


# Merging


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_merging_later_is_having_merged(before: bool, after: bool) -> None:
    me, other = member("fan-1", count=10, merges=before), member("fan-1", count=10, merges=after)
    for one in (me, other):
        one.receive(contribution_from("fan-2"))
        one.receive(contribution_from("fan-3", NOBODY))
    me.follow(merges=after)
    assert me.merges == after
    assert (me.detector.loan, me.detector.received) == (
        other.detector.loan,
        other.detector.received,
    )
    assert len(me.detector.elsewhere) == len(other.detector.elsewhere)
    X = np.vstack([cloud(kind, 3, 20) for kind in (ME, PEER, NOBODY)])
    np.testing.assert_allclose(me.detector.score_many(X), other.detector.score_many(X), rtol=1e-9)


def test_a_device_merges_as_the_federation_says_or_by_itself() -> None:
    for merged in (False, True):
        charter = Charter.from_fields(Charter("fans", DISTANT, merged=merged).fields)
        assert charter.start("a").merges is merged
        assert charter.start("a", merged=True).merges
    with pytest.raises(BadInput, match="merged is true or false, not 'loud'"):
        Charter.from_fields({**charter.fields, "merged": "loud"})


# On disk


@pytest.mark.combinations
@pytest.mark.parametrize("patterns", [None, PatternRule(2, start_rows=8)], ids=["one", "two"])
@pytest.mark.parametrize("count", [8, 21, 600])
@pytest.mark.parametrize("merges", [False, True])
def test_a_saved_device_goes_on_as_if_it_had_not_been_saved(
    merges: bool, count: int, patterns: PatternRule | None
) -> None:
    me = member("fan-1", count=count, merges=merges, patterns=patterns)
    me.receive(contribution_from("fan-2"))
    me.receive(contribution_from("fan-3", NOBODY, 100, threshold=FalseAlarmRate()))
    me.detector.observe_many(cloud(ME, 5, 7))
    me.offer(guarded=False)
    again = Member.from_bytes(me.to_bytes())
    assert (again.merges, again.published, again.shared) == (merges, me.published, me.shared)
    assert [one.threshold for one in again.ledger] == [one.threshold for one in me.ledger]
    assert again.detector.loan == me.detector.loan
    assert (me.detector.loan is None) == merges
    assert again.to_bytes() == me.to_bytes()
    rows = np.vstack([cloud(ME, 6, 30), cloud(PEER, 6, 10), cloud(5, 6, 3), cloud(ME, 7, 20)])
    expected = me.detector.observe_many(rows)
    assert again.detector.observe_many(rows) == expected
    if count == 600 and not merges:
        assert ("fan-2",) in {verdict.known for verdict in expected}
    assert again.to_bytes() == me.to_bytes()
