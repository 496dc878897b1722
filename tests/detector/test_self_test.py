"""A self-test: how large an error of each sensor a detector would notice, given the others."""

import re

import numpy as np
import pytest

from elmgrove import Spectrum
from elmgrove.detector.detector import Detector
from elmgrove.detector.patterns import PatternRule
from elmgrove.detector.self_test import SmallestError, errors_in_words, smallest_errors
from elmgrove.detector.thresholds import FixedThreshold
from support.factories import detector_for
from support.pumps import load_rows


def found(detector: Detector) -> dict[str, SmallestError]:
    return {one.feature: one for one in smallest_errors(detector)}


@pytest.mark.parametrize(
    ("scaling", "score"),
    [("standard", "loss"), *((kind, "distance") for kind in ("standard", "minmax", "own", "none"))],
)
def test_an_error_of_that_size_is_flagged_and_half_of_it_is_not(scaling: str, score: str) -> None:
    detector = detector_for(load_rows(2000, 0), scaling=scaling, score=score, window=1)
    said = errors_in_words(smallest_errors(detector)).removesuffix(".")
    claims = dict(re.findall(r"(column \d) ± ([\d.]+)", said))
    assert len(claims) == 4, "also of the one that no other sensor tells"
    later = load_rows(1000, 1)
    for name, size in claims.items():
        column = int(name.removeprefix("column "))
        for sign in (-1.0, 1.0):
            whole, half = later.copy(), later.copy()
            whole[:, column] += sign * float(size)
            half[:, column] += sign * float(size) / 2.0
            assert np.mean(detector.score_many(whole) > detector.threshold) > 0.9
            assert np.mean(detector.score_many(half) > detector.threshold) < 0.6


def test_a_window_sees_an_error_that_lasts() -> None:
    rng = np.random.default_rng(0)
    slow = np.cumsum(rng.normal(size=(4000, 1)), axis=0) % 40.0
    rows = np.hstack([np.abs(slow - 20.0), np.abs(slow - 20.0)]) + rng.normal(size=(4000, 2)) / 2
    alone, together = (found(detector_for(rows, window=window)) for window in (1, 10))
    for name, one in together.items():
        assert one.size is not None
        assert one.size < 0.8 * (alone[name].size or 0.0)


def test_patterns_and_a_fixed_threshold_have_one_too() -> None:
    far = load_rows(1000, 1) + 500.0
    rows = np.random.default_rng(0).permutation(np.vstack([load_rows(1000, 0), far]))
    apart = detector_for(rows, window=1, patterns=PatternRule(2))
    temp = smallest_errors(apart)[1]
    assert temp.size is not None
    assert temp.size < 20.0
    fixed = (
        detector_for(load_rows(2000, 0), threshold=FixedThreshold(value)) for value in (3.0, 30.0)
    )
    low, high = (smallest_errors(detector)[1].size or 0.0 for detector in fixed)
    assert 2.0 * low < high


def test_an_error_that_nothing_shows_has_no_size() -> None:
    blind = detector_for(load_rows(500, 0), threshold=FixedThreshold(1e9))
    assert [one.size for one in smallest_errors(blind)] == 4 * [None]
    assert "column 0 not at all" in errors_in_words(smallest_errors(blind))


def test_nothing_is_said_while_learning_and_of_samples() -> None:

    new = Detector.for_data(load_rows(500, 0))
    assert smallest_errors(new) == []
    new.learn_many(load_rows(20, 0))
    assert smallest_errors(new) == []
    assert (
        smallest_errors(Detector.for_data(load_rows(500, 0), threshold=FixedThreshold(3.0))) == []
    )
    samples = np.random.default_rng(0).normal(size=(64 * 400, 1))
    assert smallest_errors(detector_for(samples, spectrum=Spectrum(1000.0, 64))) == []
    assert errors_in_words([]) == ""


def test_words_name_the_best_and_the_worst() -> None:
    seen = [SmallestError(f"s{index}", 0.5 + index / 10, 10.0) for index in range(20)]
    blind = [SmallestError(f"b{index}", 123456.0 + index, 10.0) for index in range(20)]
    begin = "Smallest errors it notices (in 9 of 10 rows): "
    assert errors_in_words(seen[:2]) == f"{begin}s0 ± 0.5, s1 ± 0.6."
    assert errors_in_words(seen).count("±") == 11
    assert "s10 ± 1.5, 9 others." in errors_in_words(seen)
    both = errors_in_words([*blind, *seen])
    assert both.startswith(f"{begin}s0 ± 0.5, ")
    assert "s4 ± 0.9, 15 others; only large ones, as no other sensor tells: b19 ± 120000, " in both
    assert both.endswith(", 15 others.")
    few = errors_in_words([*seen[:2], *blind])
    assert "s0 ± 0.5, s1 ± 0.6; only large ones, as no other sensor tells: b19" in few
    assert few.endswith(", 11 others.")
    alone = errors_in_words([SmallestError("volt", None, 1.0)])
    assert alone == f"{begin}only large ones, as no other sensor tells: volt not at all."
