"""Windows over stretches of rows: many at once as one by one, gaps, and one row of a stretch."""

import numpy as np
import pytest

from elmgrove import Detector, HiddenLayer
from elmgrove.detector.inputs import Window
from support.factories import trained

WIDE = 4


def rows(number: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    level = np.cumsum(rng.normal(size=(number, 2)), axis=0) * 0.1
    mixing = np.array([[1.0, 0.5, -1.0], [0.2, 1.0, 0.7]])
    return level @ mixing + 0.1 * rng.normal(size=(number, 3))


def trained_detector(score: str, number: int = 200) -> Detector:
    return trained(Detector(HiddenLayer(3, 6), window=WIDE, score=score), rows(number))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 1, 3), (3, 4, 1), (1, 9, 1), (5, 5, 5)])
def test_rows_in_chunks_complete_the_inputs_that_rows_one_by_one_do(sizes: tuple[int, ...]) -> None:
    """A chunk shorter than a window must not be counted with what was held before it twice."""
    X = rows(sum(sizes))
    chunked, single = (Window(WIDE, 3, np.dtype(np.float64)) for _ in range(2))
    start = 0
    for size in sizes:
        many = chunked.add_many(X[start : start + size])
        made = [single.add(x) for x in X[start : start + size]]
        assert np.array_equal(many.reshape(-1, 12), [x for x in made if x is not None] or many)
        assert np.array_equal(chunked.tail, single.tail)
        start += size


def test_a_gap_starts_the_window_again_and_keeps_what_was_learned() -> None:
    detector = trained_detector("distance")
    held = detector.gate.recent.rows.copy()
    detector.interrupt()
    assert len(detector.preparation.last_rows) == 0
    assert np.array_equal(detector.gate.recent.rows, held), "they are still the last rows learned"
    verdicts = detector.observe_many(rows(WIDE, seed=2))
    assert [verdict.learned for verdict in verdicts] == [False, False, False, True]


@pytest.mark.parametrize("score", ["distance", "loss"])
def test_a_row_of_a_stretch_is_blamed_as_if_it_had_just_come(score: str) -> None:
    detector, new = trained_detector(score), rows(12, seed=2)
    new[7, 1] += 5.0
    for place in (0, 2, 3, 7, 9, 11):
        detector.interrupt()
        for x in new[max(place - WIDE + 1, 0) : place]:
            detector.preparation.last_rows.add(x)
        assert detector.blame_at(new, place, 2) == detector.blame(new[place], 2)
    assert [detector.blame_at(new, place, 1)[0].ago for place in (7, 8, 10)] == [0, 1, 3]


@pytest.mark.parametrize("score", ["distance", "loss"])
def test_a_row_that_completes_no_window_is_explained_as_well(score: str) -> None:
    detector = trained_detector(score)
    detector.interrupt()
    verdict = detector.observe(rows(1)[0] + [0.0, 9.0, 0.0])
    assert not verdict.learned
    assert len(verdict.explain(3)) == 3
    assert detector.causes(verdict, 1)[0].feature == "column 1"
