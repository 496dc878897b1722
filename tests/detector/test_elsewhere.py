"""Others are asked by name: whether a row that is anomalous here would have been normal there."""

import math
from dataclasses import replace

import numpy as np
import pytest

from elmgrove import BadInput, Basis, Detector, FalseAlarmRate, HiddenLayer, Mismatch
from elmgrove.algebra.distance import Distance
from elmgrove.detector.drift import Drift
from elmgrove.detector.peers import Other
from elmgrove.detector.replay import ScoredRows
from support.factories import DISTANT, cloud, trained
from support.moments import moments_of

ME, PEER, NOBODY = 0, 1, 2


def watching(kind: int = ME, **settings: object) -> Detector:
    """A detector that has earned its alarms, on rows of one kind."""
    soon = FalseAlarmRate(confidence=0.0)
    made = trained(Detector.for_basis(DISTANT, threshold=soon, **settings), cloud(kind, 1))
    assert made.state == "watching"
    return made


def other(name: str, *kinds: int, threshold: float | None = None) -> Other:
    """A device for which rows of these kinds are normal."""
    stated = watching(kinds[0]).threshold if threshold is None else threshold
    return Other(name, tuple(moments_of(DISTANT, cloud(kind, 1)) for kind in kinds), stated)


def test_a_row_is_anomalous_here_and_known_there_by_name() -> None:
    me, alone = watching(), watching()
    me.set_peers([other("fan-2", PEER), other("fan-3", 5)])
    for row, plain in zip(cloud(PEER, 7, 60), alone.observe_many(cloud(PEER, 7, 60)), strict=True):
        verdict = me.observe(row)
        assert verdict.score == pytest.approx(plain.score, rel=1e-9), "its model is its own"
        assert verdict.anomalous
        assert verdict.known in ((), ("fan-2",))
        assert not verdict.learned
        assert plain.anomalous
    known = [one.known for one in me.observe_many(cloud(PEER, 8, 200))]
    assert known.count(("fan-2",)) >= 190


def unnamed(drift: Drift | None) -> Drift | None:
    return drift and replace(drift, known=())


def test_what_others_know_takes_no_alarm_away_and_changes_no_verdict() -> None:
    """But for the names: the event opens, the rows wait, the state is what it would have been."""
    me, alone = watching(), watching()
    me.set_peers([other("fan-2", PEER), other("wide", ME, PEER, NOBODY, threshold=1e9)])
    rows = np.vstack([cloud(ME, 7, 40), cloud(PEER, 7, 300), cloud(NOBODY, 7, 20)])
    told, plain = me.observe_many(rows), alone.observe_many(rows)
    assert [replace(one, known=(), drift=unnamed(one.drift)) for one in told] == plain
    assert any(one.known for one in told)
    assert len(me.quarantine) == len(alone.quarantine) > 0
    assert me.state == alone.state
    [event], [same] = ([*one.events.closed, one.events.open] for one in (me, alone))
    assert event is not None
    assert same is not None
    assert replace(event, known=()) == same


def test_an_event_says_where_its_rows_are_normal_in_its_first_line() -> None:
    me = watching()
    me.set_peers([other("fan-2", PEER)])
    me.observe_many(cloud(PEER, 7, 3))
    [opened] = me.events.take_updates()
    assert opened.event.known == ("fan-2",)
    assert ", normal at fan-2; " in str(opened)
    assert opened.event.fields["known"] == ["fan-2"]


def test_a_device_with_several_patterns_is_named_with_the_number() -> None:
    me = watching()
    me.set_peers([other("fan-2", PEER, NOBODY, threshold=3.0), other("fan-3", NOBODY)])
    assert me.observe(cloud(PEER, 1).mean(axis=0)).known == ("fan-2 (pattern 1)",)
    assert me.observe(cloud(NOBODY, 1).mean(axis=0)).known == ("fan-2 (pattern 2)", "fan-3")


def test_what_is_normal_here_is_asked_nobody() -> None:
    me = watching()
    me.set_peers([other("fan-2", ME)])
    verdict = me.observe(cloud(ME, 1).mean(axis=0))
    assert (verdict.anomalous, verdict.known, verdict.learned) == (False, (), True)


def test_a_huge_threshold_counts_as_three_times_ones_own() -> None:
    me = watching()
    liar = other("liar", PEER, threshold=1e300)
    me.set_peers([liar])
    assert {verdict.known for verdict in me.observe_many(cloud(NOBODY, 7, 20))} == {()}
    limit = me.gate.limit()
    X = cloud(PEER, 9, 300) + np.linspace(0.0, 4.0, 300)[:, np.newaxis]
    scores = Distance(liar.parts[0]).score_many(X)
    assert scores.min() < 3.0 * limit < scores.max()
    named = [me.elsewhere.known(x, limit) == ("liar",) for x in X]
    assert named == (scores <= 3.0 * limit).tolist()


@pytest.mark.parametrize("threshold", [math.nan, math.inf, -1.0])
def test_what_is_no_threshold_is_refused(threshold: float) -> None:
    with pytest.raises(BadInput, match="threshold of 'fan-2'"):
        other("fan-2", PEER, threshold=threshold)


def test_another_basis_is_refused_and_those_asked_before_stay() -> None:
    me = watching()
    me.set_peers([other("fan-2", PEER)])
    unlike = Basis(HiddenLayer(6, 5), 6, score="distance")
    with pytest.raises(Mismatch):
        me.set_peers([Other("fan-3", (moments_of(unlike, cloud(NOBODY, 1)),), 3.0)])
    assert me.observe(cloud(PEER, 1).mean(axis=0)).known == ("fan-2",)


def test_one_who_has_seen_nothing_is_not_asked() -> None:
    me = watching()
    me.set_peers([Other("fan-2", (Detector.for_basis(DISTANT).evidence,), 3.0)])
    assert len(me.elsewhere) == 0


def test_rows_of_a_file_are_known_where_observed_ones_are() -> None:
    me = watching()
    me.set_peers([other("fan-2", PEER)])
    rows = np.vstack([cloud(PEER, 7, 20), cloud(NOBODY, 7, 5)])
    scored = ScoredRows(me, rows)
    asked = [scored.known(index) for index in range(len(rows))]
    assert asked == [verdict.known for verdict in me.observe_many(rows)]
    assert asked[-5:] == [()] * 5


def test_the_same_loan_again_changes_no_score() -> None:
    me = trained(Detector.for_basis(DISTANT), cloud(ME, 1, 10))
    alone = me.score_many(cloud(ME, 2, 20))
    loan = other("fan-2", PEER).parts[0].weighted(1.0 / 600.0)
    me.set_peers([], loan)
    lent, version = me.score_many(cloud(ME, 2, 20)), me.model.version
    assert not np.allclose(lent, alone)
    me.set_peers([other("fan-2", PEER)], loan)
    assert me.model.version == version
    me.set_peers([])
    np.testing.assert_array_equal(me.score_many(cloud(ME, 2, 20)), alone)
