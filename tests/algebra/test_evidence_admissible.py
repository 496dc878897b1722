"""Honest evidence always passes; each kind of corruption fails with its own reason."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import OSELM, Basis, Evidence, HiddenLayer, NotAdmissible
from support.laws import law_examples

DTYPES = (np.float64, np.float32)


def honest(
    activation: str = "sigmoid", rows: int = 40, dtype: Any = np.float64, units: int = 6
) -> Evidence:
    rng = np.random.default_rng(rows)
    model = OSELM(HiddenLayer(4, units, activation, seed=3), 3, dtype=dtype)
    model.learn_many(rng.normal(size=(rows, 4)), rng.normal(size=(rows, 3)))
    return model.evidence


@st.composite
def learned(draw: st.DrawFn) -> Evidence:
    """Any layer, few rows or many, also rows that repeat, lie in a plane, or are all the same."""
    layer = HiddenLayer(
        draw(st.integers(1, 5)),
        draw(st.integers(1, 12)),
        draw(st.sampled_from(["identity", "sigmoid", "relu", "tanh"])),
        draw(st.sampled_from(["uniform", "normal", "binary"])),
        draw(st.integers(0, 2**32)),
    )
    outputs = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    distinct, rows = draw(st.integers(1, 30)), draw(st.integers(0, 300))
    size = 10.0 ** draw(st.integers(-3, 4))
    rank = draw(st.integers(1, layer.inputs))
    X = size * rng.normal(size=(distinct, rank)) @ rng.normal(size=(rank, layer.inputs))
    T = size * rng.normal(size=(distinct, outputs)) if draw(st.booleans()) else X[:, :1] * [[1.0]]
    pick = rng.integers(distinct, size=rows)
    model = OSELM(
        layer,
        T.shape[1],
        forgetting=draw(st.sampled_from([1.0, 0.99, 0.5])),
        dtype=draw(st.sampled_from(DTYPES)),
    )
    # in blocks, and the last rows one by one
    by_one = draw(st.integers(0, min(rows, 40)))
    model.learn_many(X[pick[by_one:]], T[pick[by_one:]])
    for i in pick[:by_one]:
        model.learn_one(X[i], T[i])
    return model.evidence


@settings(max_examples=law_examples(150), deadline=None)
@given(learned())
def test_what_was_learned_from_rows_is_admissible(evidence: Evidence) -> None:
    assert evidence.admissible().reason == ""
    assert evidence.admissible()


@settings(max_examples=law_examples(50), deadline=None)
@given(learned(), st.integers(2, 50))
def test_what_was_added_up_is_admissible(evidence: Evidence, times: int) -> None:
    assert Evidence.sum([evidence] * times).admissible().reason == ""


@pytest.mark.parametrize("rows", [1, 3, 5, 40])
def test_two_precisions_added_are_admissible(rows: int) -> None:
    mixed = honest(rows=rows, dtype=np.float32) + honest(rows=rows, dtype=np.float64)
    assert mixed.admissible().reason == ""


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_long_stream_of_equal_rows_is_admissible(dtype: Any) -> None:
    # Equal rows round in the same direction each time, so the error grows with their number.
    model = OSELM(HiddenLayer(3, 8, "sigmoid", seed=2), 3, dtype=dtype)
    row = np.array([0.3, 0.7, 0.1], dtype)
    for _ in range(10_000):
        model.learn_one(row, row)
    assert model.evidence.admissible().reason == ""


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_rows_at_all_are_admissible(dtype: Any) -> None:
    assert Evidence.zero(Basis(HiddenLayer(2, 3), 1), dtype).admissible()


def corrupted(evidence: Evidence, name: str, place: tuple[int, int], value: float) -> Evidence:
    array = getattr(evidence, name).copy()
    array[place] = value
    return dataclasses.replace(evidence, **{name: array})


GOOD = honest()
BEYOND = 2.0 * float(np.sqrt(GOOD.U[0, 0] * GOOD.U[1, 1]))
CORRUPTIONS = {
    "NaN in U": (corrupted(GOOD, "U", (1, 2), np.nan), "not finite"),
    "inf in V": (corrupted(GOOD, "V", (1, 2), np.inf), "not finite"),
    "NaN energy": (dataclasses.replace(GOOD, energy=np.nan), "not finite"),
    "infinite count": (dataclasses.replace(GOOD, count=np.inf), "not finite"),
    "negative energy": (dataclasses.replace(GOOD, energy=-1.0), r"energy \(-1\).*negative"),
    "negative count": (dataclasses.replace(GOOD, count=-2.0), r"count \(-2\).*negative"),
    "unsymmetric": (corrupted(GOOD, "U", (1, 2), GOOD.U[1, 2] + 1.0), "not symmetric"),
    "negative diagonal": (corrupted(GOOD, "U", (2, 2), -0.5), r"negative diagonal entry \(-0.5\)"),
    "indefinite": (
        corrupted(corrupted(GOOD, "U", (0, 1), BEYOND), "U", (1, 0), BEYOND),
        "not positive semidefinite",
    ),
    "diagonal beyond the rows": (dataclasses.replace(GOOD, count=1.0), "1 rows of hidden outputs"),
    "V beyond the energy": (dataclasses.replace(GOOD, V=3.0 * GOOD.V + 10.0), "V claims"),
    "energy below V": (dataclasses.replace(GOOD, energy=1e-3 * GOOD.energy), "V claims"),
    "V without U": (dataclasses.replace(GOOD, U=np.zeros((6, 6))), "V is not 0 though U is"),
}


@pytest.mark.parametrize(("evidence", "reason"), CORRUPTIONS.values(), ids=CORRUPTIONS)
def test_each_corruption_fails_with_its_own_reason(evidence: Evidence, reason: str) -> None:
    verdict = evidence.admissible()
    assert not verdict
    with pytest.raises(NotAdmissible, match=rf"that file: .*{reason}"):
        evidence.require_admissible("that file")
    others = {text for _, text in CORRUPTIONS.values()} - {reason}
    assert verdict.reason
    assert not any(text in verdict.reason for text in others)


@pytest.mark.parametrize("name", ["unsymmetric", "negative diagonal", "indefinite", "V without U"])
def test_a_large_claimed_count_does_not_excuse_corruption(name: str) -> None:
    evidence, _ = CORRUPTIONS[name]
    assert not dataclasses.replace(evidence, count=1e30).admissible()


@pytest.mark.parametrize(
    ("activation", "bounded"),
    [("identity", False), ("sigmoid", True), ("relu", False), ("tanh", True)],
)
def test_only_bounded_activations_limit_the_diagonal(activation: str, bounded: bool) -> None:
    evidence = honest(activation)
    fewer = dataclasses.replace(evidence, count=0.9 * evidence.U.diagonal().max())
    assert bool(fewer.admissible()) is not bounded


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", ["U", "V"])
def test_corruption_just_above_rounding_is_seen(part: str, dtype: Any) -> None:
    evidence = honest("tanh", rows=3, dtype=dtype)
    share = 100 * float(np.sqrt(np.finfo(dtype).eps))
    if part == "U":
        changed = evidence.U - share * np.abs(evidence.U).max() * np.eye(6, dtype=dtype)
    else:
        changed = evidence.V * (1 + share) + 0
    bad = dataclasses.replace(evidence, **{part: changed.astype(dtype)})
    assert evidence.admissible()
    assert not bad.admissible()


def test_a_stated_tolerance_is_used() -> None:
    skewed = corrupted(GOOD, "U", (1, 2), GOOD.U[1, 2] + 1e-6 * np.abs(GOOD.U).max())
    assert not skewed.admissible()
    assert skewed.admissible(tolerance=1e-5)


def test_admissible_evidence_passes_the_requirement() -> None:
    GOOD.require_admissible("this")
