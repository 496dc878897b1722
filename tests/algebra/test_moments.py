"""Honest moments always pass, forged ones fail with a reason; and how a stream adds them up."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import OSELM, BadInput, Basis, Evidence, HiddenLayer, Mismatch, NotAdmissible
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.moments import Moments, zero_evidence
from elmgrove.algebra.summing import WAITING, MomentSums
from support.laws import law_examples
from support.moments import distance_basis, distance_between, literal_moments, moments_of

DTYPES = (np.float64, np.float32)


def honest(units: int = 4, rows: int = 40, dtype: Any = np.float64) -> Moments:
    rng = np.random.default_rng(rows)
    X = rng.normal(size=(rows, 4)) @ rng.normal(size=(4, 4))
    return moments_of(distance_basis(4, units, "standard", seed=3), X, dtype)


def changed(moments: Moments, **fields: Any) -> Moments:
    """These moments with something else in the place of some of them."""
    names = ("C", "s", "e", "count", "centre", "resolution")
    given = {name: fields.get(name, getattr(moments, name)) for name in names}
    return Moments(moments.basis, *given.values())


def put(array: np.ndarray, place: Any, value: float) -> np.ndarray:
    copied = np.array(array)
    copied[place] = value
    return copied


# Every sum over rows passes


@st.composite
def learned(draw: st.DrawFn) -> Moments:
    """Few rows or many, that repeat, lie in a plane, stand still, far away, in all units."""
    columns = draw(st.integers(1, 7))
    basis = distance_basis(
        columns,
        draw(st.integers(1, columns)),
        draw(st.sampled_from(["none", "standard"])),
        weights=draw(st.sampled_from(["uniform", "normal", "binary"])),
        seed=draw(st.integers(0, 2**32)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    distinct, rows = draw(st.integers(1, 30)), draw(st.integers(0, 300))
    rank = draw(st.integers(1, columns))
    X = rng.normal(size=(distinct, rank)) @ rng.normal(size=(rank, columns))
    X *= 10.0 ** rng.integers(-9, 10, size=columns)
    X += 10.0 ** draw(st.integers(0, 9)) * rng.normal(size=columns)
    X[:, rng.random(columns) < 0.3] = draw(st.sampled_from([0.0, 1.0, 1e-30, 1e9]))
    dtype = draw(st.sampled_from(DTYPES))
    X = X.clip(-4e9, 4e9).astype(dtype)
    sums = MomentSums(basis, draw(st.sampled_from([1.0, 0.99, 0.5, 0.01])), np.dtype(dtype))
    pick = rng.integers(distinct, size=rows)
    by_one = draw(st.integers(0, min(rows, 40)))
    sums.add_many(X[pick[by_one:]])
    for i in pick[:by_one]:
        sums.add(X[i])
    return sums.evidence


@settings(max_examples=law_examples(200), deadline=None)
@given(learned())
def test_what_was_learned_from_rows_is_admissible(moments: Moments) -> None:
    assert moments.admissible().reason == ""
    assert moments.admissible()


@settings(max_examples=law_examples(60), deadline=None)
@given(learned(), st.integers(2, 50), st.floats(1e-6, 1e6))
def test_what_was_added_up_or_weighted_is_admissible(
    moments: Moments, times: int, weight: float
) -> None:
    assert Evidence.sum([moments] * times).admissible().reason == ""
    assert moments.weighted(weight).admissible().reason == ""
    assert moments.weighted(0.0).admissible().reason == ""


@settings(max_examples=law_examples(200), deadline=None)
@given(learned(), st.floats(0.0, 1e9), st.integers(0, 2**32))
def test_about_any_centre_and_back_it_is_admissible(
    moments: Moments, far: float, seed: int
) -> None:
    """Also where all that was there is lost: a centre 1e9 deviations away."""
    size = np.sqrt(moments.e / max(moments.count, 1.0)) + 1e-9
    centre = moments.centre + far * size * np.random.default_rng(seed).normal(size=len(size))
    # Within what rows may be: sums of float32 hold no more.
    there = moments.about(centre.clip(-4e9, 4e9))
    assert there.admissible().reason == ""
    back = there.about(moments.centre)
    assert back.admissible().reason == ""
    # and a distance can be made of it
    assert np.isfinite(Distance(back).score_many(moments.centre[np.newaxis])).all()


@settings(max_examples=law_examples(100), deadline=None)
@given(learned(), st.integers(0, 2**32), st.floats(-9, 9))
def test_what_is_left_when_rows_are_taken_out_is_admissible(
    moments: Moments, seed: int, power: float
) -> None:
    """Whether much or next to nothing is left: rows up to 1e9 times as large go."""
    rng = np.random.default_rng(seed)
    basis = moments.basis
    size = np.sqrt(moments.e / max(moments.count, 1.0)) + 1e-30
    X = rng.normal(size=(30, basis.inputs)) * size * 10.0**power
    other = moments_of(basis, moments.centre + X)
    total = moments + other
    left = total.without(other)
    assert left.admissible().reason == ""
    assert left.count == pytest.approx(moments.count, abs=1e-9)
    assert total.without(moments).admissible().reason == ""
    assert isinstance(left, Moments)
    Distance(left)


@pytest.mark.parametrize("rows", [1, 3, 5, 40])
def test_two_precisions_added_are_admissible(rows: int) -> None:
    mixed = honest(rows=rows, dtype=np.float32) + honest(rows=rows)
    assert mixed.resolution == np.finfo(np.float32).eps
    assert mixed.admissible().reason == ""


@pytest.mark.parametrize("units", [2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_long_stream_of_equal_rows_is_admissible(dtype: Any, units: int) -> None:
    # Equal rows round in the same direction each time, so the error grows with their number.
    basis = distance_basis(3, units, "standard", seed=2)
    row = np.array([0.3, 0.7, 0.1], dtype)
    sums = MomentSums(basis, 1.0, np.dtype(dtype))
    for _ in range(10_000):
        sums.add(row)
    assert sums.evidence.admissible().reason == ""


@pytest.mark.parametrize("units", [1, 2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_rows_at_all_are_admissible(dtype: Any, units: int) -> None:
    nothing = zero_evidence(distance_basis(3, units), dtype)
    assert isinstance(nothing, Moments)
    assert nothing.admissible().reason == ""
    assert nothing.count == nothing.energy == 0.0
    assert not nothing.mean.any()


def test_the_distance_of_others_can_rest_on_no_rows_far_from_0() -> None:
    """No rows have no centre: they must not pull those of others to 0, where offsets cancel."""
    X = 1e9 + np.random.default_rng(0).normal(size=(50, 3))
    basis = distance_basis(3)
    theirs, nothing = moments_of(basis, X), zero_evidence(basis)
    for total in (nothing + theirs, theirs + nothing, Evidence.sum([nothing, theirs, nothing])):
        assert isinstance(total, Moments)
        assert np.array_equal(total.centre, theirs.centre)
        assert total == theirs


# Forged ones do not

FULL, MIXED = honest(), honest(units=2)
_E = FULL.e
FORGED = {
    "NaN in C": (changed(FULL, C=put(FULL.C, (1, 2), np.nan)), "not finite"),
    "inf in s": (changed(FULL, s=put(FULL.s, 1, np.inf)), "not finite"),
    "NaN in e": (changed(FULL, e=put(FULL.e, 1, np.nan)), "not finite"),
    "infinite count": (changed(FULL, count=np.inf), "not finite"),
    "NaN in the centre": (changed(FULL, centre=np.full(4, np.nan)), "not finite"),
    "negative count": (changed(FULL, count=-2.0), r"count \(-2\).*negative"),
    "negative e": (changed(FULL, e=put(_E, 2, -0.5)), r"negative entry \(-0.5\)"),
    "s too large": (changed(FULL, s=put(FULL.s, 1, 2 * np.sqrt(40 * _E[1]))), "40 rows"),
    "too few rows": (changed(FULL, s=np.sqrt(40 * _E) * 0.9, count=20.0), "20 rows"),
    "no rows": (changed(FULL, count=0.0, s=FULL.s + 1.0), "0 rows"),
    "diagonal is not e": (changed(FULL, C=FULL.C + np.diag(0.1 * _E)), "diagonal is not e"),
    "larger e": (changed(FULL, e=1.1 * _E), "diagonal is not e"),
    "unsymmetric": (changed(FULL, C=FULL.C + np.triu(FULL.C, 1) * 0.3), "not symmetric"),
    "entry too large": (
        changed(FULL, C=put(FULL.C, ([0, 1], [1, 0]), 2 * np.sqrt(_E[0] * _E[1]))),
        "larger than the squares allow",
    ),
    "indefinite": (
        changed(FULL, C=np.where(np.eye(4) > 0, FULL.C, -0.9 * np.sqrt(np.outer(_E, _E)))),
        "not positive semidefinite",
    ),
    "products without squares": (
        changed(FULL, e=put(_E, 2, 0.0), s=put(FULL.s, 2, 0.0), C=put(FULL.C, (2, 2), 0.0)),
        "larger than the squares allow",
    ),
    "mixed: NaN": (changed(MIXED, C=put(MIXED.C, (1, 2), np.nan)), "not finite"),
    "mixed: too large": (changed(MIXED, C=10.0 * MIXED.C), "larger than the squares allow"),
    "mixed: unsymmetric": (changed(MIXED, C=MIXED.C[::-1]), "not symmetric"),
    "mixed: negative": (changed(MIXED, C=-MIXED.C), "not positive semidefinite"),
    "mixed: explains too much": (changed(MIXED, C=1.2 * MIXED.C), "explain more of a column"),
    "mixed: less e": (changed(MIXED, e=0.9 * MIXED.e, s=0.5 * MIXED.s), "explain more"),
}


@pytest.mark.parametrize(("moments", "reason"), FORGED.values(), ids=FORGED)
def test_what_no_rows_can_give_is_refused_with_its_reason(moments: Moments, reason: str) -> None:
    with pytest.raises(NotAdmissible, match=rf"that file: .*{reason}"):
        moments.require_admissible("that file")
    # however many rows are claimed, where those were not the reason
    if "rows" not in reason and 0.0 <= moments.count < np.inf:
        assert not changed(moments, count=1e30).admissible()
    # and nobody can excuse it by a coarse resolution
    assert not changed(moments, resolution=1.0).admissible()


@settings(max_examples=law_examples(200), deadline=None)
@given(
    st.sampled_from([FULL, MIXED]),
    st.sampled_from(["C", "s", "e", "centre", "count"]),
    st.integers(0, 100),
    st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 1e160, 1e-320, -1e-320, 0.0]),
    st.floats(1e-300, 1e300),
)
def test_no_number_makes_the_check_fail_or_warn(
    moments: Moments, name: str, place: int, value: float, scale: float
) -> None:
    if name == "count":
        forged = changed(moments, count=value)
    else:
        array = np.array(getattr(moments, name))
        array.flat[place % array.size] = value
        forged = changed(moments, **{name: array})
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = forged.weighted(scale)
    for one in (forged, scaled):
        verdict = one.admissible()
        assert bool(verdict) is (verdict.reason == "")
        if not np.isfinite(value) and one is forged:
            assert not verdict


@pytest.mark.parametrize("moments", [FULL, MIXED])
def test_sums_beyond_range_are_refused_without_a_warning(moments: Moments) -> None:
    huge = moments.weighted(1e305)
    with np.errstate(over="ignore"):
        total = huge + huge.weighted(1e3)
    assert not total.admissible()
    # s² and N e would both be infinite; s is far more than the squares allow all the same
    assert not changed(huge, s=np.full(4, 1e307), count=1e5).admissible()
    # A centre far beyond the rows moves them beyond range.
    far = changed(moments.weighted(1e200), centre=np.full(4, 1e100)).about(np.zeros(4))
    assert not far.admissible()


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_just_above_rounding_is_seen(dtype: Any) -> None:
    moments = honest(rows=40, dtype=dtype)
    share = 100.0 * float(np.sqrt(np.finfo(dtype).eps))
    assert moments.admissible()
    C = (moments.C * (1.0 + share)).astype(dtype)
    assert not changed(moments, C=C).admissible()


def test_a_stated_tolerance_is_used() -> None:
    skewed = changed(FULL, C=put(FULL.C, (0, 1), FULL.C[0, 1] + 1e-3 * np.sqrt(_E[0] * _E[1])))
    assert not skewed.admissible()
    assert skewed.admissible(tolerance=1e-4)


def test_rows_that_were_never_there_can_not_be_taken_out() -> None:
    few, many = honest(rows=5), honest(rows=50)
    with pytest.raises(NotAdmissible, match="never learned here"):
        few.without(many)
    forged, _ = FORGED["indefinite"]
    with pytest.raises(NotAdmissible, match="to take out is not admissible"):
        (FULL + forged).without(forged)


# As values


def test_moments_are_values_that_nothing_changes() -> None:
    made = moments_of(distance_basis(3), 5.0 + np.random.default_rng(1).normal(size=(9, 3)))
    moved = made.about(np.ones(3))
    for one in (made, moved, made + moved, made.weighted(2.0)):
        for array in (*one.arrays.values(), one.centre):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert isinstance(again, Moments)
        assert again == made
        assert np.array_equal(again.centre, made.centre)


def test_the_centre_given_is_not_the_one_kept() -> None:
    made, centre = honest(), np.ones(4)
    moved = made.about(centre)
    centre[:] = 7.0
    assert moved.centre.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"C": np.zeros((3, 3))},
        {"s": np.zeros(3)},
        {"e": np.zeros((4, 1))},
        {"e": np.zeros(4, np.float32)},
        {"C": np.zeros((4, 4), int)},
        {"centre": np.zeros(5)},
    ],
)
def test_arrays_of_another_shape_or_type_are_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(BadInput, match=rf"^{name} must be \(4,( 4)?\)"):
        changed(FULL, **wrong)


def test_sums_of_another_kind_or_basis_do_not_add() -> None:
    basis = distance_basis(4, 4, "standard", seed=3)
    plain = Evidence(basis, np.eye(4), np.eye(4), 1.0, 1.0)
    with pytest.raises(Mismatch, match="another kind"):
        FULL + plain
    with pytest.raises(Mismatch, match=r"layer\.units: 4 here, 2 there"):
        FULL + MIXED
    with pytest.raises(BadInput, match="from moments"):
        MomentSums(basis, 1.0, np.dtype(np.float64)).load(plain)
    assert not FULL.close_to(MIXED)
    assert not FULL.close_to(plain)


def test_close_to_allows_for_rounding_of_what_cancels() -> None:
    """Rows about their own mean: s is nothing but rounding, and differs in every order."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 4))
    X -= X.mean(axis=0)
    basis = distance_basis(4, scaling="standard")
    one, other = moments_of(basis, X), moments_of(basis, X[::-1])
    assert not np.array_equal(one.s, other.s)
    assert one.close_to(other, 1e-12)
    assert not one.close_to(moments_of(basis, X[1:]), 1e-6)
    assert not one.close_to(moments_of(basis, X * [1, 1, 1, 1.001]), 1e-6)
    small = X * [1e-9, 1, 1, 1]
    assert not moments_of(basis, small).close_to(moments_of(basis, small * [1.1, 1, 1, 1]), 1e-6)


def test_loss_and_distance_have_evidence_of_their_own() -> None:
    layer = HiddenLayer(3, 2)
    assert type(zero_evidence(Basis(layer, 3))) is Evidence
    assert type(zero_evidence(Basis(layer, 3, score="distance"))) is Moments
    # From the papers' sums that follow from moments, the papers' model follows as well.
    X = np.random.default_rng(5).normal(size=(60, 3))
    model = OSELM(layer, 3)
    model.learn_many(X, X)
    moments = moments_of(Basis(layer, 3, score="distance"), X)
    assert moments.solve(1e-3) == pytest.approx(model.evidence.solve(1e-3), rel=1e-9)
    beta = moments.solve(1e-3)
    assert moments.error_of(beta) == pytest.approx(model.evidence.error_of(beta), rel=1e-9)


# A stream


def test_rows_wait_and_count_at_once() -> None:
    X = np.random.default_rng(6).normal(size=(WAITING + 3, 2))
    for phi in (1.0, 0.9):
        sums = MomentSums(distance_basis(2), phi, np.dtype(float))
        for number, x in enumerate(X, 1):
            sums.add(x)
            assert sums.count == pytest.approx(float(np.sum(phi ** np.arange(number))), rel=1e-12)
        assert sums.waiting == 3
        assert np.array_equal(sums.rows_waiting, X[-3:])
        # What is settled does not know the rows that wait, the evidence does.
        settled = sums.settled
        before = moments_of(distance_basis(2), X[:-3], forgetting=phi)
        assert distance_between(settled, before) <= 1e-13
        assert sums.evidence.count > settled.count or phi < 1.0
        assert sums.waiting == 0


def test_the_first_row_is_the_centre_unless_rows_are_scaled() -> None:
    X = np.random.default_rng(7).normal(size=(5, 2)) + 100.0
    assert np.array_equal(moments_of(distance_basis(2), X).centre, X[0])
    assert not moments_of(distance_basis(2, scaling="standard"), X).centre.any()
    # A sum that others began keeps its centre; one of no rows has none yet.
    sums = MomentSums(distance_basis(2), 1.0, np.dtype(float))
    sums.load(moments_of(distance_basis(2), X))
    sums.add_many(X + 5.0)
    assert np.array_equal(sums.evidence.centre, X[0])
    sums.load(zero_evidence(distance_basis(2)))
    sums.add_many(X + 5.0)
    assert np.array_equal(sums.evidence.centre, X[0] + 5.0)


def test_a_centre_that_float32_can_not_hold_costs_nothing() -> None:
    """Rows in float32 go on from sums in float64, about a centre between two of its numbers."""
    basis = distance_basis(2)
    centre = np.array([1000.00003, 2000.00005])
    start = moments_of(basis, centre[np.newaxis])
    X = (1000.0 + np.random.default_rng(8).normal(size=(500, 2))).astype(np.float32)
    sums = MomentSums(basis, 1.0, np.dtype(np.float32))
    sums.load(start)
    sums.add_many(X)
    s = literal_moments(basis, X.astype(np.float64), centre)[1]
    assert sums.evidence.s == pytest.approx(s, rel=1e-6)


def test_evidence_given_away_does_not_change_when_more_is_learned() -> None:
    X = np.random.default_rng(9).normal(size=(20, 3))
    for units in (3, 2):
        sums = MomentSums(distance_basis(3, units), 1.0, np.dtype(float))
        sums.add_many(X[:10])
        given = sums.evidence
        kept = pickle.loads(pickle.dumps(given))
        sums.add_many(X[10:])
        assert given == kept
        assert sums.evidence.count == 20.0
