"""Levels of columns, and one scaling for the rows of several files."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import BadInput, Basis, HiddenLayer, Scaling
from elmgrove.algebra.scaling import Levels
from elmgrove.algebra.summing import MomentSums
from elmgrove.detector.inputs import stacked

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
    for kind in ("minmax", "standard", "own"):
        pooled = Basis.pooled(several, None, scaling=kind).scaling
        whole = Scaling.fitted(kind, np.vstack(several))
        np.testing.assert_allclose(pooled.shift, whole.shift, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(pooled.scale, whole.scale, rtol=1e-8)
        assert (pooled.shift[3], pooled.scale[3]) == (0.1, 0.1), "still in all files"


def test_a_column_that_stands_still_at_two_levels_moves_between_them() -> None:
    pooled = Levels.together([Levels.of_rows(np.full((50, 1), value)) for value in (7.0, 9.0)])
    assert (pooled.count, pooled.mean[0], pooled.deviation[0]) == (100, 8.0, 1.0)


def test_tails_are_the_mean_of_each_file_not_those_between_their_levels() -> None:
    rng = np.random.default_rng(0)
    calm = rng.normal(size=(3000, 1))
    rare = (rng.random((1000, 1)) < 0.02).astype(float)
    alone = [Levels.of_rows(one, tails=True).tails for one in (calm, rare)]
    found = Levels.together([Levels.of_rows(one, tails=True) for one in (calm + 1000.0, rare)])
    assert found.tails == pytest.approx((3 * alone[0] + alone[1]) / 4)
    assert Levels.together([Levels.of_rows(calm), Levels.of_rows(rare, tails=True)]).tails is None


def test_wide_rows_have_pooled_tails() -> None:
    wide = [np.random.default_rng(seed).normal(size=(200, 80)) for seed in (0, 1)]
    assert len(Basis.pooled(wide, None, scaling="standard").scaling.tails) == 80


@pytest.mark.parametrize("kind", ["none", "minmax", "standard"])
@pytest.mark.parametrize("window", [1, 4])
def test_moments_tell_the_levels_of_their_rows_in_the_data_s_units(kind: str, window: int) -> None:
    rows = np.random.default_rng(0).normal([100.0, -3.0, 7.0], [5.0, 0.01, 0.0], (3000, 3))
    basis = Basis.fitted(rows, None, scaling=kind, window=window)
    sums = MomentSums(basis, 1.0, np.dtype(float))
    sums.add_many(stacked(basis.scaling(rows), window))
    levels, whole = sums.evidence.levels, Levels.of_rows(rows)
    # The first and last rows are in fewer windows than the others.
    near: dict[str, Any] = {"rtol": 1e-9 if window == 1 else 1e-2}
    np.testing.assert_allclose(levels.mean, whole.mean, rtol=1e-3 if window > 1 else 1e-12)
    np.testing.assert_allclose(levels.deviation, whole.deviation, **near)
    assert levels.variance[2] == 0.0
    assert levels.count == len(rows) - window + 1


def test_sums_do_not_tell_extremes() -> None:
    levels = Levels(10.0, np.zeros(1), np.ones(1))
    with pytest.raises(BadInput, match="extremes"):
        Scaling.of("minmax", levels)
    assert Scaling.of("standard", levels) == Scaling.standard([0.0], [1.0])


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


def test_a_basis_comes_back_from_its_fields_with_its_units_and_without() -> None:
    basis = Basis.fitted(files(0, [50])[0], None, scaling="own")
    for one in (basis, basis.common):
        again = Basis.from_fields(one.fields)
        assert again == one
        assert again.fingerprint == basis.fingerprint


def test_tails_are_common_and_units_are_not() -> None:
    wide = [np.random.default_rng(seed).normal(size=(200, 80)) ** 3 for seed in (0, 1)]
    basis = Basis.fitted(wide[0], None, scaling="own")
    other = basis.common.in_units_of(wide[1])
    assert other.scaling.tails == basis.scaling.tails == basis.common.scaling.tails != ()
    assert other.scaling.scale != basis.scaling.scale


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
