"""Scaling with stated numbers."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import BadInput, Basis, HiddenLayer, Scaling
from elmgrove.algebra.layer import fingerprint
from elmgrove.algebra.moment_sums import MomentSums
from elmgrove.algebra.scaling import Levels
from elmgrove.detector.inputs import stacked

numbers = st.floats(-1e6, 1e6)
columns = st.lists(st.tuples(numbers, st.floats(1e-6, 1e6)), min_size=1, max_size=6)


def test_standard_takes_the_mean_off_and_divides() -> None:
    scaling = Scaling.standard([1, 2], [2, 0.5])
    assert scaling(np.array([3.0, 1.0])).tolist() == [1.0, -2.0]


def test_a_fitted_scaling_does_not_tell_the_row_that_sums_lack() -> None:
    X = np.random.default_rng(0).normal(3.0, 2.0, (500, 3))
    mean = np.array(Scaling.fitted("standard", X).shift)
    guessed = len(X) * mean - X[1:].sum(axis=0)
    assert np.linalg.norm(guessed - X[0]) > 20.0


@pytest.mark.parametrize("kind", ["minmax", "standard"])
@pytest.mark.parametrize(
    ("value", "unit"), [(0.0, 1.0), (0.1, 0.1), (-1e9 / 3, 1.0), (7.0, 1.0), (-2e-9, 2e-9)]
)
def test_a_constant_column_keeps_its_unit_or_has_its_size(
    kind: str, value: float, unit: float
) -> None:
    X = np.full((1000, 2), value)
    X[:, 1] = np.arange(1000)
    scaling = Scaling.fitted(kind, X)
    assert scaling.scale[0] == unit
    assert np.abs(scaling(X)[:, 0]).max() <= 1e-12 * max(abs(value), 1.0)
    # what was constant and then moves is seen in its own unit
    assert scaling(np.array([value + 3.0 * unit, 0.0]))[0] == pytest.approx(3.0, abs=1e-6)


@given(st.sampled_from(["minmax", "standard"]), columns)
def test_fields_survive_json_exactly(kind: str, stated: list[tuple[float, float]]) -> None:
    scaling = Scaling(kind, *zip(*stated, strict=True))
    again = Scaling.from_fields(json.loads(json.dumps(scaling.fields)))
    assert again == scaling
    assert fingerprint(again.fields) == fingerprint(scaling.fields)
    assert Scaling.from_fields(Scaling().fields) == Scaling()


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (Scaling.minmax([0.0], [1.0]), Scaling.minmax([-0.0], [1.0])),
        (Scaling.standard([0.0], [1.0]), Scaling("standard", (0,), (1,))),
    ],
)
def test_equal_scalings_have_equal_fingerprints(here: Scaling, there: Scaling) -> None:
    assert here == there
    assert fingerprint(here.fields) == fingerprint(there.fields)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Scaling("robust"), "robust"),
        (lambda: Scaling("minmax"), "needs a shift and a scale"),
        (lambda: Scaling("none", (0.0,), (1.0,)), "needs a shift and a scale"),
        (lambda: Scaling("standard", (0.0, 0.0), (1.0,)), "needs a shift and a scale"),
        (lambda: Scaling.minmax([0, 0], [1]), "2 lower bounds, but 1"),
        (lambda: Scaling.minmax([0, 5], [1, 5]), "column 1"),
        (lambda: Scaling.minmax([0, 5], [1, 4]), "column 1"),
        (lambda: Scaling.standard([0.0], [0.0]), "column 0"),
        (lambda: Scaling.standard([float("nan")], [1.0]), "column 0"),
        (lambda: Scaling.standard([0.0], [float("inf")]), "column 0"),
        (lambda: Scaling("standard", (0.0, 0.0), (1.0, 1.0), (1.0,)), "tails of 1 columns"),
        (lambda: Scaling("none", tails=(1.0,)), "tails of 1 columns"),
        (lambda: Scaling("standard", (0.0,), (1.0,), (0.5,)), "column 0: 0.5 must be"),
        (lambda: Scaling("standard", (0.0,), (1.0,), (float("nan"),)), "column 0"),
        (lambda: Scaling.fitted("robust", np.ones((2, 2))), "robust"),
        (lambda: Scaling.fitted("standard", np.array([[1.0, np.nan]])), "column 1"),
    ],
)
def test_bad_numbers_are_refused(make: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        make()


def test_tails_are_the_kurtosis_without_rows_that_may_be_faults() -> None:
    rng = np.random.default_rng(0)
    gauss, rare = rng.normal(size=5000), (rng.random(5000) < 0.02).astype(float)
    spikes, once = rng.normal(size=5000), np.zeros(5000)
    spikes[[7, 300, 4000]] = 1e6
    once[9] = 1.0
    X = np.column_stack([gauss, rare, spikes, once, np.full(5000, 3.0), 1e-9 * rare, 1e100 * gauss])
    found = Scaling.fitted("standard", X, tails=True).tails
    assert found[0] == found[2] == found[4] == found[6] == 1.0
    # A column that is 1 in a share p of the rows, else 0, has a kurtosis of about 1/p.
    assert 0.8 < found[1] / (1 / 0.02 / 3) < 1.6
    assert found[5] == pytest.approx(found[1])
    assert found[3] == 30.0
    assert Scaling.fitted("standard", X[:2], tails=True).tails == (1.0,) * 7


# Levels of columns, and one scaling for the rows of several files

seeds = st.integers(0, 2**32 - 1)


def files(seed: int, sizes: list[int], offset: float = 0.0) -> list[np.ndarray]:
    """Rows of several machines, each at levels and scales of its own; the last column is still."""
    rng = np.random.default_rng(seed)
    made = []
    for size in sizes:
        level, scale = 10.0 * rng.normal(size=4), 10.0 ** rng.uniform(-2, 2, 4)
        rows = offset + level + scale * rng.normal(size=(size, 4))
        rows[:, 3] = 0.1
        made.append(rows)
    return made


@given(seeds, st.lists(st.integers(2, 50), min_size=1, max_size=5), st.sampled_from([0.0, 1e6]))
def test_a_pooled_scaling_is_that_of_all_rows_in_one_file(
    seed: int, sizes: list[int], offset: float
) -> None:
    several = files(seed, sizes, offset)
    for kind in ("standard", "own"):
        pooled = Scaling.of(kind, Levels.together([Levels.of_rows(one) for one in several]))
        whole = Scaling.fitted(kind, np.vstack(several))
        np.testing.assert_allclose(pooled.shift, whole.shift, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(pooled.scale, whole.scale, rtol=1e-8)
        assert (pooled.shift[3], pooled.scale[3]) == (0.1, 0.1), "still in all files"


def test_tails_are_the_mean_of_each_file_not_those_between_their_levels() -> None:
    rng = np.random.default_rng(0)
    calm = rng.normal(size=(3000, 1))
    rare = (rng.random((1000, 1)) < 0.02).astype(float)
    alone = [Levels.of_rows(one, tails=True).tails for one in (calm, rare)]
    found = Levels.together([Levels.of_rows(one, tails=True) for one in (calm + 1000.0, rare)])
    assert found.tails == pytest.approx((3 * alone[0] + alone[1]) / 4)
    assert Levels.together([Levels.of_rows(calm), Levels.of_rows(rare, tails=True)]).tails is None


@pytest.mark.parametrize("kind", ["none", "minmax", "standard"])
@pytest.mark.parametrize("window", [1, 4])
def test_moments_tell_the_levels_of_their_rows_in_the_data_s_units(kind: str, window: int) -> None:
    rows = np.random.default_rng(0).normal([100.0, -3.0, 7.0], [5.0, 0.01, 0.0], (3000, 3))
    basis = Basis.fitted(rows, None, scaling=kind, window=window)
    sums = MomentSums(basis, 1.0)
    sums.add_many(stacked(basis.scaling(rows), window))
    levels, whole = sums.evidence.levels, Levels.of_rows(rows)
    # The first and last rows are in fewer windows than the others.
    near: dict[str, Any] = {"rtol": 1e-9 if window == 1 else 1e-2}
    np.testing.assert_allclose(levels.mean, whole.mean, rtol=1e-3 if window > 1 else 1e-12)
    np.testing.assert_allclose(levels.deviation, whole.deviation, **near)
    assert levels.variance[2] == 0.0
    assert levels.count == len(rows) - window + 1


# Own units


def test_own_units_are_no_part_of_the_fingerprint() -> None:
    here, there = files(0, [50, 60])
    basis = Basis.fitted(here, None, scaling="own")
    other = basis.in_units_of(there)
    assert basis != other
    assert basis.fingerprint == other.fingerprint == basis.common.fingerprint
    basis.require(other)
    assert basis.common == other.common
    assert not basis.common.scaling.shift
    assert basis.fingerprint != Basis.fitted(here, None, scaling="standard").fingerprint
    np.testing.assert_allclose(other.scaling(there)[:, :3].std(axis=0), 1.0)


def test_units_that_nobody_found_scale_nothing() -> None:
    with pytest.raises(BadInput, match="units_from"):
        Scaling("own")(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Scaling("own", (1.0,), ()), "needs a shift and a scale"),
        (lambda: Scaling("own", (1.0,), (1.0,), (1.0, 1.0)), "tails of 2 columns"),
        (lambda: _basis(Scaling("own", (1.0,), (1.0,))), "scaling of 1 columns for 2 inputs"),
        (lambda: _basis(Scaling("own", tails=(1.0,))), "scaling of 1 columns for 2 inputs"),
        (lambda: _basis(Scaling()).in_units_of(np.ones((2, 2))), r"units_from: the scaling \(none"),
        (lambda: _basis(Scaling("own")).in_units_of(np.ones((0, 2))), "no rows"),
        (lambda: _basis(Scaling("own")).in_units_of(np.ones((3, 5))), "scaling of 5 columns"),
    ],
)
def test_units_that_can_t_be(make: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        make()


def _basis(scaling: Scaling) -> Basis:
    return Basis(HiddenLayer(2, 2), 2, scaling=scaling, score="distance")
