"""The distance against its definition, in float64 and in fifty digits, and what it promises."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elmgrove
from elmgrove import Basis, HiddenLayer, SingularSystem
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.linalg import Factor, mirrored, regularized
from elmgrove.algebra.similarity import (
    ONE_KIND,
    Fitted,
    FittedDistance,
    all_chances,
    all_losses,
    apart,
    kind_tolerance,
)
from support.factories import evidence_of, near_plane
from support.laws import law_examples
from support.literal import Dense, dense
from support.moments import distance_basis, moments_of


def made(X: np.ndarray, basis: Basis | None = None) -> Distance:
    return Distance(moments_of(basis or distance_basis(X.shape[1]), X))


def cloud(seed: int, rows: int, columns: int, rank: int | None = None) -> np.ndarray:
    """Rows whose columns move together, with a little of their own."""
    rng = np.random.default_rng(seed)
    rank = rank or max(columns // 2, 1)
    mix = rng.normal(size=(rank, columns))
    return rng.normal(size=(rows, rank)) @ mix + 0.3 * rng.normal(size=(rows, columns))


def sigma(distance: Distance) -> np.ndarray:
    """The covariance that a distance holds: D(I + LᵀL)D."""
    D = np.diag(distance.deviation)
    return D @ (np.eye(len(D)) + distance.L.T @ distance.L) @ D


# Against its definition


@pytest.mark.combinations
@pytest.mark.parametrize("scaling", ["none", "standard"])
@pytest.mark.parametrize(
    ("columns", "units", "window"),
    [(5, 5, 1), (5, 2, 1), (1, 1, 1), (8, 4, 1), (3, 9, 3), (4, 6, 3), (40, 40, 1), (40, 13, 1)],
)
@pytest.mark.parametrize("rows", [1, 2, 7, 60, 4000])
def test_a_score_is_what_dense_matrices_give(
    columns: int, units: int, window: int, scaling: str, rows: int
) -> None:
    basis = distance_basis(columns, units, scaling, window, seed=2)
    inputs = columns * window
    X = cloud(1, rows, inputs) + 0.5
    X[:, 0] = 0.25
    # Fewer rows than inputs are too much for an inverse in float64: U is singular but for λ.
    exact = rows <= inputs <= 12
    distance, literal = made(X, basis), dense(basis, X, exact=exact)
    share = 1e-4 if rows <= inputs and not exact else 1e-8
    assert distance.mean == pytest.approx(literal.mu.astype(float), rel=1e-12)
    deviation = literal.deviation.astype(float)
    expected = literal.sigma.astype(float) * np.outer(deviation, deviation)
    assert sigma(distance) == pytest.approx(expected, rel=share, abs=share)
    anomalous = X[:50] * np.linspace(0, 30, len(X[:50]))[:, np.newaxis]
    one = X[:50].copy()
    one[np.arange(len(one)), np.arange(len(one)) % inputs] += 2.0
    for tried in (X[:50], anomalous, one):
        scores = distance.score_many(tried)
        assert scores == pytest.approx(literal.scores(tried), rel=share, abs=1e-12)


@pytest.mark.parametrize("units", [13, 40])
def test_heavy_tails_make_noise_of_what_a_column_has_of_its_own(units: int) -> None:
    plain = distance_basis(40, units, "standard", seed=2)
    tails = tuple(np.geomspace(1.0, 30.0, 40).tolist())
    basis = replace(plain, scaling=replace(plain.scaling, tails=tails))
    X = cloud(1, 500, 40)
    distance, literal = made(X, basis), dense(basis, X)
    for tried in (X[:50], 30.0 * X[:50]):
        assert distance.score_many(tried) == pytest.approx(literal.scores(tried), rel=1e-8)
    assert distance.score_many(X).mean() == pytest.approx(1.0, rel=0.05)
    assert (distance.deviation >= made(X, plain).deviation * np.sqrt(tails) * (1 - 1e-9)).all()


@st.composite
def hard(draw: st.DrawFn) -> tuple[Basis, np.ndarray]:
    """Three to five columns: constant, copies, sums of others, in any unit, far from 0."""
    columns = draw(st.integers(3, 5))
    scaling = draw(st.sampled_from(["none", "standard"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = draw(st.integers(1, 30))
    X = rng.normal(size=(rows, columns))
    for column in range(1, columns):
        way = draw(st.sampled_from(["free", "constant", "copy", "sum", "almost"]))
        if way == "constant":
            X[:, column] = draw(st.sampled_from([0.0, 1.0, -3.5]))
        elif way == "copy":
            X[:, column] = X[:, 0]
        elif way == "sum":
            X[:, column] = X[:, :column].sum(axis=1)
        elif way == "almost":
            X[:, column] = X[:, 0] + 1e-6 * X[:, column]
    X = X[rng.integers(rows, size=2 * rows)] if draw(st.booleans()) else X
    if scaling == "none":
        X = X * 10.0 ** rng.integers(-9, 10, size=columns)
        X += draw(st.sampled_from([0.0, 1.0, 1e6, 1e12])) * (X.std(axis=0) + 1e-9)
    return distance_basis(columns, scaling=scaling), X


def allowed(literal: Dense, expected: np.ndarray, X: np.ndarray, share: float) -> np.ndarray:
    """What a score may be off: a share of it, and what half the last digit of an input makes."""
    deviation = np.array([float(value) for value in literal.deviation])
    step = np.spacing(np.abs(X).max(axis=0)).astype(np.float64) / deviation
    digit = np.sqrt(len(step)) * float(step.max())
    more: np.ndarray = share * (1.0 + expected) + 16.0 * (np.sqrt(expected) + digit) * digit
    return more


@settings(max_examples=law_examples(60), deadline=None)
@given(hard())
def test_a_score_is_what_fifty_digits_give(given: tuple[Basis, np.ndarray]) -> None:
    basis, X = given
    literal, distance = dense(basis, X, exact=True), made(X, basis)
    deviation = X.std(axis=0)
    for tried in (
        X[:5],
        X[:3] + 3.0 * deviation,
        X[:3] + [7.0, *[0.0] * (X.shape[1] - 1)] * deviation,
    ):
        expected = literal.scores(tried)
        off = np.abs(distance.score_many(tried) - expected)
        assert (off <= allowed(literal, expected, np.vstack([X, tried]), 1e-8)).all()


@pytest.mark.parametrize("units", [5, 2])
def test_forgetting_weighs_rows_by_their_age(units: int) -> None:
    X, phi = cloud(3, 300, 5), 0.98
    basis = distance_basis(5, units, "standard")
    distance = Distance(moments_of(basis, X, forgetting=phi))
    literal = dense(basis, X, weights=phi ** np.arange(299, -1, -1.0))
    assert distance.score_many(X[:40]) == pytest.approx(literal.scores(X[:40]), rel=1e-8)


def test_offsets_up_to_1e12_leave_scores_as_they_are() -> None:
    """All that is lost is what the rows themselves lost by being so far away."""
    X = cloud(4, 400, 4)
    near = made(X).score_many(X)
    for offset, tolerance in ((1e3, 1e-9), (1e6, 1e-6), (1e9, 1e-4), (1e12, 0.05)):
        far = made(X + offset).score_many(X + offset)
        assert far == pytest.approx(near, rel=tolerance, abs=tolerance)


# Never nonsense


@st.composite
def anything(draw: st.DrawFn) -> tuple[Basis, np.ndarray, float]:
    columns = draw(st.integers(1, 8))
    window = draw(st.integers(1, 3))
    inputs = columns * window
    basis = distance_basis(
        columns,
        draw(st.integers(1, inputs)),
        draw(st.sampled_from(["none", "standard"])),
        window,
        weights=draw(st.sampled_from(["uniform", "binary"])),
        seed=draw(st.integers(0, 99)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    powers = draw(st.sampled_from([(-200, 76), (-9, 9), (0, 0)]))
    rows, rank = draw(st.integers(0, 40)), draw(st.integers(1, inputs))
    X = rng.normal(size=(rows, rank)).clip(-1, 1) @ rng.normal(size=(rank, inputs)).clip(-1, 1)
    X *= 10.0 ** rng.integers(powers[0], powers[1] + 1, size=inputs) / inputs
    X[:, rng.random(inputs) < 0.2] = rng.choice([0.0, 1.0, 10.0 ** powers[0], 10.0 ** powers[1]])
    return basis, X, draw(st.sampled_from([1.0, 0.9, 0.01]))


@settings(max_examples=law_examples(300), deadline=None)
@given(anything(), st.integers(0, 2**32))
def test_a_score_is_a_number_from_0_on_whatever_was_learned(
    given: tuple[Basis, np.ndarray, float], seed: int
) -> None:
    """Warnings are errors here: nothing overflows on the way."""
    basis, X, phi = given
    distance = Distance(moments_of(basis, X, forgetting=phi))
    assert np.isfinite(distance.K).all()
    extreme = np.full((1, basis.inputs), 1e76)
    tried = np.vstack([X[:5], np.zeros((1, basis.inputs)), extreme, -extreme, 1e-30 * extreme])
    scores = distance.score_many(tried)
    assert np.isfinite(scores).all()
    assert (scores >= 0.0).all()
    by_one = [distance.score_one(x) for x in tried]
    assert scores == pytest.approx(by_one, rel=1e-9, abs=1e-6)
    assert distance.mean_score(distance) == pytest.approx(1.0, rel=1e-6)
    if basis.inputs > 1:
        assert distance.last(1).score_one(tried[0, -1:]) >= 0.0
    share, expected = distance.explained(tried[0], np.array([0]))
    assert -1e-6 <= share <= 1.0 + 1e-6
    assert np.isfinite(expected).all()


# What it promises


@pytest.mark.parametrize("units", [1, 4, 9, 19])
@pytest.mark.parametrize("scaling", ["none", "standard"])
@pytest.mark.parametrize("rows", [300, 5000])
def test_a_typical_row_scores_about_1(units: int, scaling: str, rows: int) -> None:
    X = cloud(6, rows + 3000, 19)
    distance = made(X[:rows], distance_basis(19, units, scaling))
    new = distance.score_many(X[rows:])
    # What units leave over is taken for independent, which it is not quite.
    assert np.mean(new) == pytest.approx(1.0, rel=0.06 if units == 19 and rows == 5000 else 0.25)
    # and a row twice as far out scores four times as much
    twice = distance.mean + 2.0 * (X[rows:] - distance.mean)
    assert np.median(distance.score_many(twice) / new) > 3.9


@settings(max_examples=law_examples(40), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 200), st.permutations(range(5)))
def test_neither_units_nor_the_order_of_columns_matter(
    seed: int, rows: int, order: list[int]
) -> None:
    """Where there are as many units as inputs."""
    rng = np.random.default_rng(seed)
    X = cloud(seed, rows + 20, 5) + 3.0
    scale = 10.0 ** rng.uniform(-9, 9, size=5) * rng.choice([-1.0, 1.0], size=5)
    scores = made(X[:rows]).score_many(X)
    scaled = X * scale
    assert made(scaled[:rows]).score_many(scaled) == pytest.approx(scores, rel=1e-6)
    turned = X[:, order]
    assert made(turned[:rows]).score_many(turned) == pytest.approx(scores, rel=1e-6)
    standard = distance_basis(5, scaling="standard")
    ours = made(X[:rows], standard).score_many(X)
    theirs = made(turned[:rows], standard).score_many(turned)
    assert theirs == pytest.approx(ours, rel=1e-6)


@pytest.mark.parametrize("scaling", ["none", "standard"])
@pytest.mark.parametrize("units", [4, 2])
def test_a_constant_column_that_moves_is_anomalous(scaling: str, units: int) -> None:
    X = cloud(8, 500, 4)
    X[:, 2] = 5.0
    distance = made(X, distance_basis(4, units, scaling))
    moved = X.copy()
    moved[:, 2] = 7.0
    assert distance.score_many(X).mean() < 1.2
    assert distance.score_many(moved).min() > 10.0
    share, expected = distance.explained(moved[0], np.array([2]))
    assert share > 0.9
    assert expected == pytest.approx([5.0], abs=0.05)


@pytest.mark.parametrize("units", [4, 2])
@pytest.mark.parametrize("still", [1e3, 1e6, 1e7])
def test_a_column_that_stands_still_far_away_tells_nothing_about_others(
    still: float, units: int
) -> None:
    """All that its products hold is rounding, which grows with the rows."""
    X = cloud(8, 5000, 4)
    basis = distance_basis(4, units, "standard")
    X[:, 2] = still + 0.1
    distance = made(X, basis)
    scores = dense(basis, X).scores(X[:30])
    # What a mixture holds of it is rounding as well, but beside something.
    assert distance.score_many(X[:30]) == pytest.approx(scores, rel=1e-6 if units == 4 else 1e-3)
    assert np.abs(distance.L[:, 2]).max() < 1e-6


def test_a_value_that_breaks_what_columns_do_together_is_anomalous() -> None:
    """It lies well within its own range; only the others tell that it is wrong."""
    rng = np.random.default_rng(9)
    load = rng.normal(size=(1000, 1))
    X = load * [1.0, 2.0, -1.0, 0.5] + 0.05 * rng.normal(size=(1000, 4))
    distance = made(X)
    for column in range(4):
        wrong = np.zeros(4)
        wrong[column] = X[:, column].std()
        assert distance.score_one(wrong) > 5.0
        blamed = [distance.explained(wrong, np.array([j]))[0] for j in range(4)]
        assert int(np.argmax(blamed)) == column
        assert distance.explained(wrong, np.array([column]))[1] == pytest.approx([0.0], abs=0.2)


def test_one_value_can_not_drown_all_others() -> None:
    X = cloud(10, 500, 4)
    distance = made(X)
    scores = [distance.score_one(np.array([far, 0.0, 0.0, 0.0])) for far in (1e2, 1e4, 1e8, 1e70)]
    assert scores == sorted(scores)
    assert scores[0] > 20.0
    assert scores[-1] < 1e4 * scores[0]


@pytest.mark.parametrize("units", [6, 3])
def test_many_are_scored_as_one_by_one(units: int) -> None:
    X = cloud(11, 3000, 6)
    X[::7] *= 40.0
    X[::11, 3] += 4.0
    distance = made(X[:400], distance_basis(6, units, "standard"))
    by_one = [distance.score_one(x) for x in X]
    assert distance.score_many(X) == pytest.approx(by_one, rel=1e-9)
    assert distance.score_many(X[:0]).tolist() == []
    before = X.copy()
    distance.score_many(X)
    distance.score_one(X[0])
    assert np.array_equal(X, before)


# Between two


def mahalanobis(X: np.ndarray, distance: Distance) -> np.ndarray:
    Y = X - distance.mean
    squares: np.ndarray = np.einsum("ij,jk,ik->i", Y, np.linalg.inv(sigma(distance)), Y)
    return squares / X.shape[1]


@pytest.mark.parametrize("units", [5, 2])
def test_the_mean_score_is_what_rows_of_the_other_score(units: int) -> None:
    basis = distance_basis(5, units, "standard")
    rows = cloud(13, 400, 5), cloud(14, 300, 5) * [1, 2, 3, 1, 1] + [0, 0, 4, 0, 0]
    one, other = (made(X, basis) for X in rows)
    for here, there, X in ((one, other, rows[1]), (other, one, rows[0]), (one, one, rows[0])):
        away, inverse = there.mean - here.mean, np.linalg.inv(sigma(here))
        spread = np.diag(there.own) + there.seen.T @ there.seen
        spread *= np.outer(there.deviation, there.deviation)
        exact = (np.trace(inverse @ spread) + away @ inverse @ away) / 5
        assert here.mean_score(there) == pytest.approx(here.times_typical(exact), rel=1e-9)
        scored = here.times_typical(mahalanobis(X, here).mean())
        assert here.mean_score(there) == pytest.approx(scored, rel=0.03 if units == 5 else 0.2)
    assert one.mean_score(one) == pytest.approx(1.0, rel=1e-9)


def test_the_mean_score_of_rows_out_of_range_is_large_and_no_warning() -> None:
    near, far = made(1e-150 * cloud(16, 50, 3)), made(1e70 * cloud(16, 50, 3) + 1e76)
    assert near.mean_score(far) > 1e100
    assert far.mean_score(near) >= 0.0


# Parts of a row


@pytest.mark.parametrize(("units", "columns"), [(6, 2), (6, 5), (3, 1), (3, 4)])
def test_the_last_columns_have_the_marginal_distance(units: int, columns: int) -> None:
    X = cloud(17, 300, 6)
    whole = made(X, distance_basis(6, units, "standard"))
    part = whole.last(columns)
    assert part is whole.last(columns)
    Y = (X - whole.mean)[:, -columns:]
    inverse = np.linalg.inv(sigma(whole)[-columns:, -columns:])
    squares = np.einsum("ij,jk,ik->i", Y, inverse, Y)
    # Rows without one value that is far by itself: those score what the Gaussian gives.
    scale = whole.scale
    near = scale * squares < 9.0
    assert near.sum() > 50
    expected = scale * squares[near] / columns
    assert part.score_many(X[near][:, -columns:]) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=law_examples(40), deadline=None)
@given(st.sampled_from([6, 3, 1]), st.sets(st.integers(0, 5), min_size=1), st.integers(0, 99))
def test_what_columns_explain_is_the_closed_form(units: int, chosen: set[int], row: int) -> None:
    X = cloud(18, 200, 6) + 2.0
    distance = made(X, distance_basis(6, units))
    block = np.array(sorted(chosen))
    rest = np.setdiff1d(np.arange(6), block)
    omega = np.linalg.inv(sigma(distance))
    x = 3.0 * X[row]
    g = omega @ (x - distance.mean)
    within = omega[np.ix_(block, block)]
    share, expected = distance.explained(x, block)
    gone = g[block] @ np.linalg.solve(within, g[block])
    assert share == pytest.approx(gone / (g @ (x - distance.mean)), rel=1e-8)
    # what the columns should have been is their mean given the others
    S = sigma(distance)
    conditional = distance.mean[block]
    if len(rest):
        weights = np.linalg.solve(S[np.ix_(rest, rest)], S[np.ix_(rest, block)])
        conditional = conditional + (x - distance.mean)[rest] @ weights
    assert expected == pytest.approx(conditional, rel=1e-6, abs=1e-9)
    # of many rows at once, too, with what is then left of their variance
    many, deviation = distance.expected(np.vstack([X[:3], x]), block)
    assert many[3] == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert many.shape == (4, len(block))
    assert deviation == pytest.approx(np.sqrt(np.diag(np.linalg.inv(within))), rel=1e-8)
    # and with them in their place, that share of the distance is gone
    mended = x.copy()
    mended[block] = expected
    left = mahalanobis(mended[np.newaxis], distance)[0] / mahalanobis(x[np.newaxis], distance)[0]
    assert share == pytest.approx(1.0 - left, abs=1e-8)


def test_a_verdict_needs_no_lenient_numpy() -> None:
    """Other libraries make every underflow an error (emlearn does, when it is imported)."""
    X = np.random.default_rng(0).normal(size=(500, 4))
    X[:, 3] = 1.0
    with np.errstate(all="raise"):
        detector = elmgrove.Detector.for_data(X, window=1)
        detector.learn_many(X)
        assert detector.observe([*X[0, :3], 5.0]).anomalous


# Solving by Cholesky: right where it answers, and plain about why where it does not

EPSILON = {dtype: float(np.finfo(dtype).eps) for dtype in (np.float64, np.float32)}


def sums(rows: int, units: int, dtype: Any = np.float64) -> np.ndarray:
    H = np.random.default_rng(rows).normal(size=(rows, units))
    return (H.T @ H).astype(dtype)


@pytest.mark.parametrize("ridge", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_it_solves_and_inverts_as_numpy_does(ridge: float, dtype: Any) -> None:
    U = sums(50, 6, dtype)
    A = U.astype(np.float64) + ridge * np.eye(6)
    B = np.random.default_rng(1).normal(size=(6, 3))
    factor = Factor(U, ridge)
    np.testing.assert_allclose(factor.solve(B), np.linalg.solve(A, B), rtol=1e-10)
    np.testing.assert_allclose(mirrored(factor.inverse()), np.linalg.inv(A), rtol=1e-10)


def test_fewer_rows_than_units_need_a_ridge() -> None:
    U = sums(3, 6)
    with pytest.raises(SingularSystem, match="6 hidden units with ridge 0 is singular"):
        Factor(U, 0.0)
    assert np.isfinite(Factor(U, 1e-6).inverse()[np.triu_indices(6)]).all()


@pytest.mark.parametrize(
    "cause", ["fewer rows than hidden units", "constant", "copies", "scale them", "ridge far too"]
)
def test_a_singular_system_names_its_likely_causes(cause: str) -> None:
    with pytest.raises(SingularSystem, match=cause):
        Factor(np.zeros((2, 2)), 0.0)


def test_equal_columns_are_singular_even_where_rounding_lets_cholesky_pass() -> None:
    H = np.random.default_rng(0).normal(size=(50, 3))
    H = np.hstack([H, H[:, :1] * (1 + 1e-15)])
    with pytest.raises(SingularSystem):
        Factor(H.T @ H, 0.0)


@pytest.mark.parametrize("dtype", EPSILON)
def test_a_ridge_too_small_to_see_is_raised_to_what_rounding_leaves_visible(dtype: Any) -> None:
    U = 1e6 * sums(3, 6)
    visible = 32 * EPSILON[dtype] * U.diagonal().max()
    assert regularized(U, 1e-300, EPSILON[dtype]).ridge == visible
    assert regularized(U, 2 * visible, EPSILON[dtype]).ridge == 2 * visible


def test_the_ridge_is_raised_until_it_covers_an_error_of_the_sums() -> None:
    # What many equal rows leave that were rounded in the same direction each time.
    h = np.array([3.0, 7.0, 1.0])
    error = 1e-3 * 49
    U = np.outer(h, h) - error * np.eye(3)
    assert error < regularized(U, 1e-6, EPSILON[np.float32]).ridge < 5 * error


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (0, 2), (2, 2)])
def test_sums_that_are_not_finite_are_told_from_singular_ones(
    bad: float, place: tuple[int, int]
) -> None:
    U = sums(50, 6)
    U[place] = bad
    with pytest.raises(SingularSystem, match="not finite"):
        Factor(U, 1.0)


# What two sets of rows lose with each other: how much of it is chance, and what is beyond


def basis_of(columns: int, window: int = 1) -> Basis:
    inputs = columns * window
    return Basis(HiddenLayer(columns, min(inputs, 40)), inputs, score="distance", window=window)


def drawn(seed: int, rows: int, columns: int = 8) -> np.ndarray:
    """Rows of one law, the same for all seeds."""
    mixing = np.random.default_rng(7).normal(size=(2, columns))
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 2)) @ mixing + 0.3 * rng.normal(size=(rows, columns))


def known(seed: int, rows: int, columns: int = 8) -> FittedDistance:
    return FittedDistance(moments_of(basis_of(columns), drawn(seed, rows, columns)), 0.0)


@pytest.mark.parametrize("columns", [4, 8, 38])
@pytest.mark.parametrize("rows", [100, 300, 1000])
def test_rows_of_one_law_are_mostly_no_farther_apart_than_by_chance(
    columns: int, rows: int
) -> None:
    pairs = [(known(2 * n, rows, columns), known(2 * n + 1, rows, columns)) for n in range(100)]
    beyond = np.array([apart(one, other) for one, other in pairs])
    assert np.mean(beyond <= 0.0) >= 0.75
    assert beyond.max() < ONE_KIND
    assert np.median(beyond) > -0.5, "a chance that excuses everything would pass"


def test_chance_is_less_the_more_rows_there_are_and_is_that_of_the_fewer() -> None:
    few, some, many = known(1, 50), known(2, 500), known(3, 5000)
    assert 1.0 > few.chance_with(many) > some.chance_with(many) > many.chance_with(many) > 0.0
    assert few.chance_with(many) == many.chance_with(few)
    assert known(4, 2).chance_with(many) == 1.0


def test_of_windows_as_many_rows_as_one_holds_count_for_one() -> None:
    rows, law = drawn(1, 1000, 2), basis_of(2, 10)
    inputs = np.hstack([rows[n : n + 991] for n in range(10)])
    window = FittedDistance(moments_of(law, inputs), 0.0)
    single = FittedDistance(moments_of(basis_of(20), inputs), 0.0)
    tenth = FittedDistance(moments_of(basis_of(20), inputs[::10]), 0.0)
    assert window.chance_with(window) == pytest.approx(tenth.chance_with(tenth), rel=0.02)
    assert window.chance_with(window) > 3.0 * single.chance_with(single)


@settings(max_examples=law_examples(20), deadline=None)
@given(st.lists(st.integers(2, 400), min_size=1, max_size=5))
def test_all_pairs_at_once_are_each_pair(sizes: list[int]) -> None:
    sets = [known(seed, rows) for seed, rows in enumerate(sizes)]
    for i, one in enumerate(sets):
        for j, other in enumerate(sets):
            assert all_losses(sets)[i, j] == pytest.approx(one.loss_with(other), abs=1e-9)
            assert all_chances(sets)[i, j] == one.chance_with(other)


def test_by_loss_nothing_is_chance() -> None:
    one, other = (Fitted(evidence_of(near_plane(1, seed)), 0.05) for seed in (1, 2))
    assert apart(one, other) == one.loss_with(other)
    assert kind_tolerance(one.evidence.basis) == 0.02
    assert kind_tolerance(basis_of(4)) == ONE_KIND
