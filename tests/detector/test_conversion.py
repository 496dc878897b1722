"""What a device learned by itself is converted to another basis as if it had been learned so."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, Detector, HiddenLayer, PatternRule, Scaling, Spectrum
from elmgrove.algebra.moments import Moments
from elmgrove.detector.feedback import accept, reject
from elmgrove.detector.history import Span
from elmgrove.detector.state import converted
from elmgrove.errors import Mismatch
from support.factories import trained
from support.laws import law_examples
from support.snapshots import held

NAMES = ("flow", "amp", "rpm", "celsius")
HOUR = 3600.0


def rows(seed: int, count: int = 400) -> np.ndarray:
    """Rows of a pump whose columns have units far apart."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(2, 4))
    made = rng.normal(size=(count, 2)) @ mixing + 0.3 * rng.normal(size=(count, 4))
    return made * [1.0, 0.1, 300.0, 5.0] + [20.0, 3.0, 1450.0, 60.0]


def basis_for(X: np.ndarray, scaling: str = "standard", **more: Any) -> Basis:
    return Basis.fitted(X, NAMES, scaling=scaling, **more)


def times(count: int) -> np.ndarray:
    return 60.0 * np.arange(count)


def learned(basis: Basis, X: np.ndarray, **more: Any) -> Detector:
    return trained(Detector.for_basis(basis, **more), X, times(len(X)))


def other_basis(window: int, scaling: str, units: int | None, seed: int) -> Basis:
    """That of a federation whose machines are others."""
    return basis_for(2.0 * rows(9) + 7.0, scaling, window=window, units=units, seed=seed)


@settings(max_examples=law_examples(30), deadline=None)
@given(
    seed=st.integers(0, 99),
    window=st.sampled_from([1, 3]),
    here=st.sampled_from(["none", "standard", "minmax"]),
    there=st.sampled_from(["none", "standard", "minmax"]),
    units=st.sampled_from([None, 2, 3]),
    forgetting=st.sampled_from([1.0, 0.99]),
)
def test_sums_are_those_of_the_same_rows_learned_in_that_basis(
    seed: int, window: int, here: str, there: str, units: int | None, forgetting: float
) -> None:
    X = rows(seed)
    own = learned(basis_for(X, here, window=window), X, forgetting=forgetting)
    target = other_basis(window, there, units, seed=5)
    expected = learned(target, X, forgetting=forgetting)
    made = converted(own, target)
    assert made.basis.fingerprint == target.fingerprint
    assert made.evidence.close_to(expected.evidence, 1e-9)
    assert made.learned == expected.learned
    again = rows(seed + 1, 50)
    assert made.score_many(again) == pytest.approx(expected.score_many(again), rel=1e-6)
    # Learning goes on as if nothing had happened, and an hour can be taken out as well.
    for one in (made, expected):
        one.learn_many(again, times(50) + 400 * 60.0)
    assert made.evidence.close_to(expected.evidence, 1e-9)
    if forgetting == 1.0:
        told = [reject(one, Span(HOUR, 2 * HOUR)) for one in (made, expected)]
        assert told[0].taken == told[1].taken == 60 + window - 1
        assert made.evidence.close_to(expected.evidence, 1e-8)


@pytest.mark.parametrize("window", [1, 3])
def test_scores_threshold_and_state_go_on(window: int) -> None:
    X = rows(1, 3000)
    own = learned(basis_for(X, window=window), X)
    faulty = rows(1, 60)
    faulty[20:26, 1] += 3.0
    own.observe_many(faulty, times(60) + 3000 * 60.0)
    assert own.state == "watching"
    assert len(own.quarantine)
    made = converted(own, other_basis(window, "standard", None, 5))
    assert made.state == own.state
    # The row that is taken to have been seen is a unit away, and that unit is another one.
    assert made.threshold == pytest.approx(own.threshold, rel=0.02)
    tried = rows(1, 80)
    assert made.score_many(tried) == pytest.approx(own.score_many(tried), rel=0.05)
    assert held(made.events) == held(own.events)
    # What waits is learned there as it would have been here.
    assert accept(made).rows == accept(own).rows
    assert made.evidence.close_to(converted(own, made.basis).evidence)
    # The window goes on with the next row.
    verdicts = [one.observe(tried[0], 4000 * 60.0) for one in (own, made)]
    assert len(verdicts[0].row) == len(verdicts[1].row) == 4 * window


def test_in_own_units_they_are_those_that_it_learned_in() -> None:
    X = rows(1)
    charter = basis_for(rows(9), "own").common
    for scaling in ("standard", "none"):
        own = learned(basis_for(X, scaling), X)
        made = converted(own, charter)
        assert made.basis.fingerprint == charter.fingerprint
        units = charter.in_units_of(X)
        if scaling == "standard":
            known = own.basis.scaling
            units = replace(
                units, scaling=replace(units.scaling, shift=known.shift, scale=known.scale)
            )
        expected = learned(units, X)
        assert isinstance(made.evidence, Moments)
        assert made.evidence.close_to(expected.evidence)


def test_mixtures_are_converted_where_their_units_stay() -> None:
    X = rows(1)
    basis = basis_for(X, units=2, seed=5)
    own = learned(basis, X)
    shift = tuple(value + 1.0 for value in basis.scaling.shift)
    scale = tuple(2.0 * value for value in basis.scaling.scale)
    target = replace(basis, scaling=replace(basis.scaling, shift=shift, scale=scale))
    assert converted(own, target).evidence.close_to(learned(target, X).evidence)
    with pytest.raises(Mismatch, match="it holds 2 mixtures of 4 inputs, which have other units"):
        converted(own, other_basis(1, "standard", 2, 5))


CANT = {
    "window: 1 here, 10 there": basis_for(rows(9), window=10),
    "other columns: 'celsius' only here": Basis.fitted(
        rows(9)[:, :3], NAMES[:3], scaling="standard"
    ),
    "'celsius' only here, 'kelvin' only there": Basis.fitted(
        rows(9), ("flow", "amp", "rpm", "kelvin"), scaling="standard"
    ),
    "other columns: 4 columns here, 5 there": Basis.fitted(
        np.hstack([rows(9), rows(8)[:, :1]]), None, scaling="standard"
    ),
    "score: distance here, loss there": basis_for(rows(9), score="loss"),
    "spectrum: none here": basis_for(rows(9), spectrum=Spectrum(100.0, 64, 1)),
}


@pytest.mark.parametrize("reason", CANT)
def test_what_can_not_be_converted_is_refused_with_the_reason(reason: str) -> None:
    X = rows(1)
    own = learned(basis_for(X), X)
    if "columns here" in reason:
        own = learned(Basis.fitted(X, None, scaling="standard"), X)
    with pytest.raises(Mismatch, match=reason):
        converted(own, CANT[reason])


def test_neither_patterns_nor_a_loss_can_be_converted() -> None:
    layer = HiddenLayer(4, 4)
    target = other_basis(1, "standard", None, 5)
    scaling = Scaling.fitted("standard", rows(1))
    several = Detector(layer, features=NAMES, scaling=scaling, patterns=PatternRule())
    with pytest.raises(Mismatch, match="several normal patterns"):
        converted(several, target)
    with pytest.raises(Mismatch, match="score: loss"):
        converted(Detector(layer, features=NAMES, scaling=scaling, score="loss"), target)
