"""Scores that follow a model which others change: by one step or by several, it is the same."""

from itertools import permutations

import numpy as np

from elmgrove import Detector, FalseAlarmRate, HiddenLayer, Scaling
from elmgrove.detector.decision import Recent
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member


def made(seed: int) -> Member:
    """A device with rows of its own, in units that all have in common."""
    rng = np.random.default_rng(seed)
    scaling = Scaling("standard", (1.0,) * 4, (2.0,) * 4)
    watching_soon = FalseAlarmRate(confidence=0.0)
    detector = Detector(HiddenLayer(4, 4), scaling=scaling, threshold=watching_soon)
    detector.learn_many(rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)) + rng.normal())
    return Member(f"fan-{seed}", detector, merges=True)


def test_the_order_in_which_others_come_leaves_no_trace() -> None:
    others: list[Contribution] = [made(seed).contribution() for seed in (2, 3, 4)]
    alone = made(1).to_bytes()
    found = set()
    for order in permutations(others):
        member = Member.from_bytes(alone)
        for one in order:
            member.receive(one)
            member = Member.from_bytes(member.to_bytes())
        found.add(member.to_bytes())
    assert len(found) == 1
    assert found != {alone}


def test_one_that_left_leaves_no_trace() -> None:
    member = made(1)
    alone, threshold = member.to_bytes(), member.detector.threshold
    for seed in (2, 3):
        member.receive(made(seed).contribution())
    assert member.detector.threshold != threshold
    for seed in (2, 3):
        member.forget(f"fan-{seed}")
    assert member.to_bytes() == alone


def recent(scores: list[float]) -> Recent:
    kept = Recent(4096, 1)
    kept.accept_many(np.zeros((len(scores), 1)), np.array(scores))
    return kept


def test_a_row_that_comes_later_is_not_changed_with_those_before() -> None:
    kept = recent([1.0, 2.0, 3.0])
    kept.follow(1.0, 2.0)
    assert kept.ordered == [2.0, 4.0, 6.0]
    kept.accept(np.zeros(1), 5.0)
    assert kept.ordered == [2.0, 4.0, 5.0, 6.0]
    kept.follow(2.0, 1.0)
    assert kept.ordered == [1.0, 2.0, 2.5, 3.0]
