"""The ring of accepted rows: bounded, in order, and with the scores of recent strays."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from elmgrove.detector.recent import Recent

CAPACITY, WIDTH = 5, 2
SCORE = st.floats(0, 10)


def ring(*scores: float, capacity: int = CAPACITY) -> Recent:
    """A ring that accepted rows [0, 0], [1, 1], ... with these scores."""
    recent = Recent(capacity, WIDTH, np.dtype(float))
    for number, score in enumerate(scores):
        recent.accept(np.full(WIDTH, float(number)), score)
    return recent


class RingAgainstLists(RuleBasedStateMachine):
    """The ring next to the plainest thing that could be right: whole lists, cut at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.ring = ring()
        self.accepted: list[tuple[float, float]] = []
        self.refused: list[tuple[int, float]] = []
        self.events = 0

    @rule(number=st.integers(0, 99), score=SCORE)
    def accept(self, number: int, score: float) -> None:
        self.ring.accept(np.full(WIDTH, float(number)), score)
        self.accepted.append((float(number), score))
        self.events += 1

    @rule()
    def refuse_by_a_little(self) -> None:
        median = sorted(score for _, score in self.kept)[len(self.kept) // 2] if self.kept else 0.0
        self.ring.refuse(median + 1.1, threshold=median + 1.0)
        self.events += 1
        if self.kept:
            self.refused.append((self.events, median + 1.1))

    @rule(threshold=SCORE)
    def refuse_by_a_lot(self, threshold: float) -> None:
        self.ring.refuse(100.0, threshold)
        self.events += 1

    @rule(numbers=st.lists(st.integers(0, 99), max_size=12), data=st.data())
    def extend_and_rescore(self, numbers: list[int], data: Any) -> None:
        rows = np.repeat(np.array(numbers, float)[:, np.newaxis], WIDTH, axis=1)
        self.ring.extend(rows)
        self.accepted += [(float(number), 0.0) for number in numbers]
        self.events += min(len(numbers), CAPACITY)
        size = len(self.kept)
        scores = data.draw(st.lists(SCORE, min_size=size, max_size=size))
        strays = len(self.recent_strays)
        self.ring.rescore(np.array(scores))
        self.accepted = [(row, s) for (row, _), s in zip(self.kept, scores, strict=True)]
        # How high strays stand after that is another test's subject; that they count is not.
        assert len(self.ring.strays) == strays
        self.refused = [
            (when, score)
            for (when, _), score in zip(self.recent_strays, self.ring.strays, strict=True)
        ]

    @property
    def kept(self) -> list[tuple[float, float]]:
        return self.accepted[-CAPACITY:]

    @property
    def recent_strays(self) -> list[tuple[int, float]]:
        return [(when, s) for when, s in self.refused if when > self.events - CAPACITY]

    @invariant()
    def both_hold_the_same(self) -> None:
        assert len(self.ring) == len(self.kept) <= CAPACITY
        assert self.ring.rows[:, 0].tolist() == [row for row, _ in self.kept]
        assert self.ring.arrays["ring_scores"].tolist() == [score for _, score in self.kept]
        assert self.ring.ordered == sorted(score for _, score in self.kept)
        assert self.ring.strays == [score for _, score in self.recent_strays]


TestRingAgainstLists = RingAgainstLists.TestCase
TestRingAgainstLists.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


# Strays


def test_a_row_refused_by_a_little_is_remembered_and_one_refused_by_a_lot_is_not() -> None:
    recent = ring(0.9, 1.0, 1.1)
    recent.refuse(2.4, threshold=2.0)
    recent.refuse(40.0, threshold=2.0)
    assert recent.strays == [2.4]


def test_a_stray_is_forgotten_after_as_many_rows_as_the_ring_is_long() -> None:
    recent = ring(1.0, 1.0, 1.0)
    recent.refuse(2.1, threshold=2.0)
    for _ in range(CAPACITY - 1):
        recent.refuse(40.0, threshold=2.0)
        assert recent.strays == [2.1]
    recent.accept(np.zeros(WIDTH), 1.0)
    assert recent.strays == []


def test_there_are_never_more_strays_than_the_ring_is_long() -> None:
    recent = ring(1.0, 1.0, 1.0)
    for _ in range(10 * CAPACITY):
        recent.refuse(2.1, threshold=2.0)
    assert len(recent.strays) == CAPACITY


def test_an_empty_ring_remembers_no_strays() -> None:
    recent = ring()
    recent.refuse(2.1, threshold=2.0)
    assert recent.strays == []


@given(st.floats(0.01, 100))
def test_after_rescoring_strays_still_stand_above_the_accepted_rows_by_a_little(
    factor: float,
) -> None:
    recent = ring(0.5, 1.0, 2.0)
    recent.refuse(2.3, threshold=2.0)
    recent.rescore(factor * np.array([0.5, 1.0, 2.0]))
    (stray,) = recent.strays
    assert 2.0 * factor <= stray <= 3.0 * factor


# Copies


def test_the_ring_keeps_its_own_copy_of_a_row() -> None:
    recent, buffer = ring(), np.array([1.0, 2.0])
    recent.accept(buffer, 0.5)
    buffer[:] = 9.0
    assert recent.rows.tolist() == [[1.0, 2.0]]


def test_of_many_rows_the_last_ones_are_kept() -> None:
    recent = ring(1.0, 1.0)
    recent.extend(np.arange(24.0).reshape(12, 2))
    assert recent.rows.tolist() == np.arange(24.0).reshape(12, 2)[-CAPACITY:].tolist()


def test_a_restored_ring_goes_on_as_the_saved_one() -> None:
    saved = ring(1.0, 3.0, 2.0, 5.0, 4.0, 1.5, 2.5)
    saved.refuse(5.5, threshold=5.0)
    saved.accept(np.full(WIDTH, 9.0), 2.0)
    restored = ring()
    restored.restore(saved.arrays)
    assert restored.strays == [5.5]
    for score in (3.5, 1.0, 4.0, 2.0, 3.0):
        for recent in (saved, restored):
            recent.accept(np.full(WIDTH, score), score)
        assert restored.rows.tolist() == saved.rows.tolist()
        assert restored.arrays["ring_scores"].tolist() == saved.arrays["ring_scores"].tolist()
        assert restored.ordered == saved.ordered
        assert restored.strays == saved.strays
    assert saved.strays == []
