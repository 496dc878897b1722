"""What is remembered of accepted rows: bounded, spread over the younger half, with near misses."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from elmgrove.detector.decision import ROWS, Recent
from support.laws import law_examples
from support.snapshots import held, restored

CAPACITY, WIDTH = 64, 2
# Where halves and doubles are exact.
SCORE = st.just(0.0) | st.floats(1e-200, 10)


def recent(*scores: float, capacity: int = CAPACITY) -> Recent:
    """Accepted rows [0, 0], [1, 1], ... with these scores."""
    made = Recent(capacity, WIDTH)
    for number, score in enumerate(scores):
        made.accept(np.full(WIDTH, float(number)), score)
    return made


def times(of: Recent) -> list[int]:
    """When the scores that are remembered came, counted in accepted rows."""
    return [when for when, _ in of._scores]


class AgainstLists(RuleBasedStateMachine):
    """Next to the plainest thing that could be right: all scores ever, by the row's number."""

    def __init__(self) -> None:
        super().__init__()
        self.recent = recent()
        self.accepted: list[float] = []
        self.rows: list[float] = []
        self.level = 1.0

    @rule(number=st.integers(0, 99), score=SCORE)
    def accept(self, number: int, score: float) -> None:
        self.recent.accept(np.full(WIDTH, float(number)), score)
        self.accepted.append(score)
        self.rows.append(float(number))

    @rule(numbers=st.lists(st.integers(0, 99), max_size=200), data=st.data())
    def accept_many(self, numbers: list[int], data: Any) -> None:
        scores = [data.draw(SCORE)] * len(numbers)
        rows = np.repeat(np.array(numbers, float)[:, np.newaxis], WIDTH, axis=1)
        self.recent.accept_many(rows, np.array(scores))
        self.accepted += scores
        self.rows += map(float, numbers)

    @rule()
    def refuse_by_a_lot(self) -> None:
        self.recent.refuse(100.0, 10.0)

    @rule(factor=st.sampled_from([0.5, 2.0]))
    def follow(self, factor: float) -> None:
        self.recent.follow(self.level, factor * self.level)
        self.level *= factor
        self.accepted = [factor * score for score in self.accepted]

    @rule()
    def save_and_restore(self) -> None:
        self.recent = restored(self.recent, recent())

    @invariant()
    def both_hold_the_same(self) -> None:
        known, stride = len(self.accepted), self.recent.stride
        assert self.recent.rows[:, 0].tolist() == self.rows[-ROWS:]
        assert len(self.recent) <= CAPACITY
        numbers = times(self.recent)
        # All of the younger half, one in so many; of the older half at most a few to be dropped.
        young = [n for n in range(known // 2 + 1, known + 1) if n % stride == 0]
        assert numbers[len(numbers) - len(young) :] == young
        assert len(numbers) - len(young) <= 16
        scores = [self.accepted[number - 1] for number in numbers]
        assert self.recent.ordered == sorted(scores)
        assert self.recent.near_misses == []


TestAgainstLists = AgainstLists.TestCase
TestAgainstLists.settings = settings(
    max_examples=law_examples(40), stateful_step_count=25, deadline=None
)


@pytest.mark.parametrize("rows", [50, 500, 5000, 100_000])
def test_scores_are_spread_evenly_over_the_younger_half_and_never_too_many(rows: int) -> None:
    made = recent()
    made.accept_many(np.zeros((rows, WIDTH)), np.arange(float(rows)))
    assert CAPACITY / 4 < len(made) <= CAPACITY
    when = times(made)
    assert rows / 2 - 32 < when[0] <= rows / 2 + 2 * made.stride
    assert rows - made.stride < when[-1] <= rows
    assert set(np.diff(when)) == {made.stride}


@given(st.integers(0, 300), st.integers(0, 200))
def test_it_says_how_many_rows_are_missing_for_so_many_scores(rows: int, wanted: int) -> None:
    made = recent(*[1.0] * rows, capacity=1000)
    missing = made.missing(wanted)
    made.accept_many(np.zeros((missing, WIDTH)), np.ones(missing))
    young = [when for when in times(made) if when > made.accepted // 2]
    assert len(young) >= wanted
    assert not missing or len(young) == wanted
    assert made.missing(wanted) == 0


# NearMisses


def test_of_rows_refused_together_those_of_the_first_third_of_a_window_are_remembered() -> None:
    made = Recent(CAPACITY, WIDTH, apart=5, window=10)
    made.accept_many(np.zeros((8, WIDTH)), np.ones(8))
    for score in (2.1, 2.2, 2.3, 2.4, 2.5):
        made.refuse(score, threshold=2.0)
    assert made.near_misses == [2.1, 2.2, 2.3]
    made.accept_many(np.zeros((3, WIDTH)), np.ones(3))
    made.refuse(2.6, threshold=2.0)
    assert made.near_misses == [2.1, 2.2, 2.3], "four rows after the last of them it is one of them"
    made.accept_many(np.zeros((4, WIDTH)), np.ones(4))
    again = restored(made, Recent(CAPACITY, WIDTH, apart=5, window=10))
    for one in (made, again):
        one.refuse(2.7, threshold=2.0)
        one.accept_many(np.zeros((1, WIDTH)), np.ones(1))
        one.refuse(2.8, threshold=2.0)
        one.refuse(2.9, threshold=2.0)
        assert one.near_misses == [2.1, 2.2, 2.3, 2.7, 2.8]


def test_a_stray_is_forgotten_with_the_scores_of_its_time() -> None:
    made = recent(*[1.0] * 40)
    made.refuse(2.1, threshold=2.0)
    while made.near_misses:
        oldest = times(made)[0]
        made.accept(np.zeros(WIDTH), 1.0)
    assert oldest <= 40 < times(made)[0]


def test_of_strays_as_many_are_kept_as_of_accepted_scores() -> None:
    """Else one in a hundred would look like one in ten once only every tenth score is kept."""
    made = recent()
    for index in range(4000):
        made.accept(np.zeros(WIDTH), 1.0)
        if index % 10 == 9:
            made.refuse(2.1, threshold=2.0)
    assert made.stride >= 32
    assert len(made.near_misses) == pytest.approx(len(made) / 10, abs=2)


def test_nothing_grows_old_while_rows_are_refused() -> None:
    """A fault that lasts longer than all that was learned does not become normal by that."""
    made = recent(*np.arange(50.0))
    before = made.ordered.copy()
    for _ in range(1000):
        made.refuse(1e6, threshold=60.0)
    assert made.ordered == before
    assert made.clock == 1050


def test_restored_it_goes_on_as_the_saved_one() -> None:
    saved = recent(*np.linspace(1.0, 5.0, 301))
    for _ in range(9):
        saved.refuse(5.5, threshold=5.0)
    again = restored(saved, recent())
    assert again.near_misses
    for score in np.linspace(0.0, 4.0, 700):
        for made in (saved, again):
            made.accept(np.full(WIDTH, score), score)
            made.refuse(score + 1.0, threshold=score + 0.9)
        assert again.ordered == saved.ordered
        assert again.near_misses == saved.near_misses
    assert held(again) == held(saved)
