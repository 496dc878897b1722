"""Honest moments always pass, forged ones fail with a reason; and how a stream adds them up."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from elmgrove import (
    OSELM,
    BadInput,
    Basis,
    Detector,
    Evidence,
    HiddenLayer,
    Mismatch,
    NotAdmissible,
)
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.linalg import regularized
from elmgrove.algebra.moment_sums import WAITING, MomentSums
from elmgrove.algebra.moments import (
    Moments,
    pack_evidence,
    pack_parts,
    unpack_evidence,
    unpack_parts,
    zero_evidence,
)
from elmgrove.detector.inputs import stacked
from support.factories import trained
from support.laws import law_examples
from support.literal import e2lm_in_fractions
from support.moments import (
    distance_basis,
    distance_between,
    evidence_in_single,
    literal_moments,
    moments_of,
)

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
        weights=draw(st.sampled_from(["uniform", "binary"])),
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
    forgetting = draw(st.sampled_from([1.0, 0.99, 0.5, 0.01]))
    pick = rng.integers(distinct, size=rows)
    if dtype == np.float32:
        return moments_of(basis, X[pick], dtype, forgetting)
    sums = MomentSums(basis, forgetting)
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


@pytest.mark.parametrize("units", [2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_long_stream_of_equal_rows_is_admissible(dtype: Any, units: int) -> None:
    # Equal rows round in the same direction each time, so the error grows with their number.
    basis = distance_basis(3, units, "standard", seed=2)
    rows = np.tile([0.3, 0.7, 0.1], (10_000, 1))
    assert moments_of(basis, rows, dtype).admissible().reason == ""


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
        MomentSums(basis, 1.0).load(plain)
    assert not FULL.close_to(MIXED)
    assert not FULL.close_to(plain)


# A stream


def test_rows_wait_and_count_at_once() -> None:
    X = np.random.default_rng(6).normal(size=(WAITING + 3, 2))
    for phi in (1.0, 0.9):
        sums = MomentSums(distance_basis(2), phi)
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
    sums = MomentSums(distance_basis(2), 1.0)
    sums.load(moments_of(distance_basis(2), X))
    sums.add_many(X + 5.0)
    assert np.array_equal(sums.evidence.centre, X[0])
    sums.load(zero_evidence(distance_basis(2)))
    sums.add_many(X + 5.0)
    assert np.array_equal(sums.evidence.centre, X[0] + 5.0)


# The laws of moments: any split, any order, any repetition, any centre gives the same sums

TOLERANCE = {np.float64: 1e-11, np.float32: 1e-4}


@dataclass(frozen=True)
class Fleet:
    """Rows, how they are spread over devices, how often each is merged, and in which order."""

    basis: Basis
    X: np.ndarray
    device_of: np.ndarray
    repeats: list[int]
    order: list[int]
    chunks: list[int]
    dtype: Any

    def rows(self, device: int) -> np.ndarray:
        return self.X[self.device_of == device]

    def sums(self, forgetting: float = 1.0) -> MomentSums:
        return MomentSums(self.basis, forgetting)

    def learned(self, device: int) -> Moments:
        """Learns its rows in chunks; chunks of one row the one-row way."""
        sums, X = self.sums(), self.rows(device)
        if self.dtype == np.float32:
            return moments_of(self.basis, X, self.dtype)
        edges = [0, *(cut for cut in self.chunks if cut < len(X)), len(X)]
        for start, stop in pairwise(edges):
            if stop - start == 1:
                sums.add(X[start])
            else:
                sums.add_many(X[start:stop])
        return sums.evidence

    @property
    def central(self) -> Moments:
        """All rows in one place, each as often as its device is merged."""
        often = np.array(self.repeats)[self.device_of]
        return moments_of(self.basis, np.repeat(self.X, often, axis=0), self.dtype)

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.dtype]


@st.composite
def fleets(
    draw: st.DrawFn, dtypes: tuple[Any, ...] = DTYPES, scalings: tuple[str, ...] = ("none", "std")
) -> Fleet:
    columns = draw(st.integers(1, 6))
    basis = distance_basis(
        columns,
        draw(st.integers(1, columns + 1)),
        draw(st.sampled_from(scalings)),
        weights=draw(st.sampled_from(["uniform", "binary"])),
        seed=draw(st.integers(0, 2**40)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, devices = draw(st.integers(1, 80)), draw(st.integers(1, 6))
    rank = draw(st.integers(1, columns))
    X = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))
    X *= 10.0 ** rng.integers(-3, 4, size=columns)
    X[:, rng.random(columns) < 0.2] = 3.7
    # Where rows are not scaled, each device may lie at a level of its own, far from 0.
    device_of = rng.integers(devices, size=rows)
    if basis.scaling.kind == "none":
        deviation = X.std(axis=0) + 1e-3
        X += 1e3 * deviation + (10.0 * rng.normal(size=(devices, columns)) * deviation)[device_of]
    dtype = draw(st.sampled_from(dtypes))
    return Fleet(
        basis,
        X.astype(dtype),
        device_of,
        draw(st.lists(st.integers(1, 3), min_size=devices, max_size=devices)),
        draw(st.permutations(range(devices))),
        sorted(draw(st.sets(st.integers(1, 80), max_size=10))),
        dtype,
    )


@settings(max_examples=law_examples(100), deadline=None)
@given(fleets())
def test_any_split_order_and_repetition_equals_all_rows_in_one_place(fleet: Fleet) -> None:
    parts = [fleet.learned(device) for device in fleet.order for _ in range(fleet.repeats[device])]
    one_by_one = parts[0]
    for part in parts[1:]:
        one_by_one = one_by_one + part
    for merged in (one_by_one, Evidence.sum(parts)):
        assert isinstance(merged, Moments)
        assert merged.count == fleet.central.count
        assert distance_between(merged, fleet.central) <= fleet.tolerance
        assert merged.admissible().reason == ""


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets((np.float64,)))
def test_learned_row_by_row_or_in_bulk_is_the_sum_written_out(fleet: Fleet) -> None:
    by_one = fleet.sums()
    for x in fleet.X:
        by_one.add(x)
    assert by_one.count == len(fleet.X)
    bulk = moments_of(fleet.basis, fleet.X, fleet.dtype)
    X = fleet.X.astype(np.float64)
    literal = Moments(fleet.basis, *literal_moments(fleet.basis, X, bulk.centre), bulk.centre)
    assert distance_between(by_one.evidence, bulk) <= fleet.tolerance
    assert distance_between(bulk, literal) <= fleet.tolerance


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets((np.float64,)), st.sampled_from([0.999, 0.9, 0.5, 0.01]))
def test_forgetting_one_by_one_or_in_bulk_is_the_weighted_sum(fleet: Fleet, phi: float) -> None:
    by_one, split = fleet.sums(phi), fleet.sums(phi)
    for x in fleet.X:
        by_one.add(x)
    edges = [0, *(cut for cut in fleet.chunks if cut < len(fleet.X)), len(fleet.X)]
    for start, stop in pairwise(edges):
        split.add_many(fleet.X[start:stop])
    waited = by_one.count
    evidence = by_one.evidence
    weights = phi ** np.arange(len(fleet.X) - 1, -1, -1.0)
    X = fleet.X.astype(np.float64)
    literal = literal_moments(fleet.basis, X, evidence.centre, weights)
    expected = Moments(fleet.basis, *literal, evidence.centre)
    assert waited == pytest.approx(expected.count, rel=1e-12)
    for made in (evidence, split.evidence):
        assert distance_between(made, expected) <= fleet.tolerance
        assert made.admissible().reason == ""


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets())
def test_what_is_taken_out_was_never_there_and_may_come_back(fleet: Fleet) -> None:
    parts = [fleet.learned(device) for device in fleet.order]
    total = Evidence.sum(parts)
    for gone, rest in ((parts[0], parts[1:]), (parts[-1], parts[:-1])):
        left = total.without(gone)
        assert isinstance(left, Moments)
        assert left.admissible().reason == ""
        if rest:
            expected = total - gone
            assert distance_between(expected + gone, total) <= fleet.tolerance
            assert distance_between(left + gone, total) <= fleet.tolerance
            # What is left of much is right to a few ε of what was there.
            loss = np.abs(left.e - total.aligned(Evidence.sum(rest)).e)
            assert (loss <= fleet.tolerance * (total.e + 1e-300)).all()
        else:
            assert left.count == 0.0


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets((np.float64,)))
def test_all_devices_may_leave_one_after_another(fleet: Fleet) -> None:
    parts = [fleet.learned(device) for device in fleet.order]
    total = Evidence.sum(parts)
    for part in parts:
        total = total.without(part)
        assert total.admissible().reason == ""
    assert total.count == 0.0
    assert not any(array.any() for array in total.arrays.values())


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets())
def test_another_centre_gives_the_same_sums_and_back(fleet: Fleet) -> None:
    here = moments_of(fleet.basis, fleet.X, fleet.dtype)
    centre = here.centre + 30.0 * (np.sqrt(here.e / here.count) + 1e-3)
    there = here.about(centre)
    X = fleet.X.astype(np.float64)
    literal = Moments(fleet.basis, *literal_moments(fleet.basis, X, centre), centre)
    assert distance_between(there, literal) <= fleet.tolerance
    assert there.admissible().reason == ""
    assert there.count == here.count
    back = there.about(here.centre)
    assert back.admissible().reason == ""
    # About a centre 30 times as far away, squares are a thousand times as large; where columns move
    # by far less than 1e-3 many more, and each of the two moves rounds by that much.
    rounding = 8.0 * np.sqrt(len(here.e)) * here.resolution * there.e.max()
    allowed = 1e4 * fleet.tolerance * max(here.e.max(), 1e-300) + rounding
    assert np.abs(back.e - here.e).max() <= allowed


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets((np.float64,)))
def test_a_merged_distance_is_that_of_all_rows_in_one_place(fleet: Fleet) -> None:
    parts = [fleet.learned(device) for device in fleet.order for _ in range(fleet.repeats[device])]
    merged, central = Evidence.sum(parts), fleet.central
    assert isinstance(merged, Moments)
    if fleet.basis.layer.units < fleet.basis.inputs:
        # Where mixtures are all but copies of each other, rounding decides between them.
        A = fleet.basis.hidden.alpha
        U = (central.C - np.outer(central.s @ A, central.mean)) @ A
        assume(np.linalg.cond(U) <= 1e5)
    ours, theirs = Distance(merged), Distance(central)
    anomalous = fleet.X + 5.0 * fleet.X.std(axis=0)
    for X in (fleet.X, anomalous):
        expected = theirs.score_many(X)
        assert ours.score_many(X) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets())
def test_the_papers_sums_follow_from_moments(fleet: Fleet) -> None:
    made = moments_of(fleet.basis, fleet.X, fleet.dtype)
    layer, X = fleet.basis.hidden, fleet.X.astype(np.float64)
    H = X @ layer.alpha + layer.b
    tolerance = 1e-12 if fleet.dtype == np.float64 else 1e-4
    energy = float((X**2).sum())
    for ours, literal in ((made.U, H.T @ H), (made.V, H.T @ X)):
        size = np.sqrt(np.abs(H.T @ H).max() * max(energy, np.abs(H.T @ H).max()))
        assert np.abs(ours - literal).max() <= tolerance * size
    assert made.energy == pytest.approx(energy, rel=tolerance)
    assert np.array_equal(made.U, made.U.T)
    assert np.abs(made.mean + made.centre - X.mean(axis=0)).max() <= tolerance * np.abs(X).max()


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets(), st.integers(0, 5))
def test_moments_that_were_packed_come_back_to_the_last_bit(fleet: Fleet, device: int) -> None:
    made = fleet.central if device not in fleet.order else fleet.learned(device)
    for evidence in (made, made.about(made.centre + 1.5), made.weighted(0.25)):
        numbers, arrays = pack_evidence(evidence)
        inputs = fleet.basis.inputs
        if fleet.basis.layer.units >= inputs:
            assert arrays["C"].shape == (inputs * (inputs + 1) // 2,)
        assert ("centre" in arrays) is bool(evidence.centre.any())
        back = unpack_evidence(fleet.basis, numbers, arrays)
        assert isinstance(back, Moments)
        assert back == evidence
        assert back.C.dtype == evidence.C.dtype
        assert np.array_equal(back.C, evidence.C)
        assert np.array_equal(back.centre, evidence.centre)
        assert back.resolution == evidence.resolution


@settings(max_examples=law_examples(40), deadline=None)
@given(fleets(), st.floats(0.01, 100.0))
def test_a_weight_counts_every_row_so_many_times(fleet: Fleet, weight: float) -> None:
    made = moments_of(fleet.basis, fleet.X, fleet.dtype)
    X = fleet.X.astype(np.float64)
    literal = literal_moments(fleet.basis, X, made.centre, np.full(len(X), weight))
    expected = Moments(fleet.basis, *literal, made.centre)
    assert distance_between(made.weighted(weight), expected) <= fleet.tolerance
    assert made.weighted(weight).admissible().reason == ""


# Evidence that was packed comes back as it was

LAYER = HiddenLayer(inputs=6, units=3, seed=3)


@settings(max_examples=law_examples(40), deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.sampled_from([np.float64, np.float32]))
def test_evidence_comes_back_to_the_last_bit(units: int, outputs: int, dtype: Any) -> None:
    rng = np.random.default_rng(units)
    basis = Basis(HiddenLayer(4, units, seed=1), outputs)
    U = rng.normal(size=(units, units)).astype(dtype)
    V = rng.normal(size=(units, outputs)).astype(dtype)
    evidence = Evidence(basis, U + U.T, V, 3.7, 2.5)
    fields, arrays = pack_evidence(evidence)
    assert arrays["U"].shape == (units * (units + 1) // 2,)
    restored = unpack_evidence(basis, fields, arrays)
    assert restored == evidence
    assert restored.U.dtype == dtype


@pytest.mark.parametrize("shape", [(), (1,), (5,), (7,), (3, 2), (1, 6), (6, 1), (3, 3)])
def test_a_triangle_of_another_size_is_refused(shape: tuple[int, ...]) -> None:
    arrays = {"U": np.ones(shape), "V": np.ones((3, 6))}
    with pytest.raises(BadInput, match="upper triangle"):
        unpack_evidence(Basis(LAYER, 6), {"energy": 1.0, "count": 1.0}, arrays)


@pytest.mark.parametrize("shape", [(), (3,), (21, 1), (20,), (22,), (6, 6), (2**40,)])
def test_products_of_another_size_are_refused(shape: tuple[int, ...]) -> None:
    """Also of a size that nobody could hold: it is only stated, by an array that repeats itself."""
    basis = distance_basis(6)
    arrays = {"C": np.broadcast_to(1.0, shape), "s": np.ones(6), "e": np.ones(6)}
    with pytest.raises(BadInput, match="upper triangle"):
        unpack_evidence(basis, {"count": 1.0}, arrays)


def test_parts_are_packed_side_by_side_whatever_their_kind() -> None:
    X = np.random.default_rng(2).normal(size=(20, 6)) + 4.0
    model = OSELM(LAYER, 6)
    model.learn_many(X, X)
    moments = moments_of(distance_basis(6), X)
    for parts in ([moments, moments.weighted(0.5)], [model.evidence] * 3, []):
        fields, arrays = pack_parts("part", parts)
        basis = parts[0].basis if parts else moments.basis
        back = unpack_parts(basis, "part", fields, arrays)
        assert list(back) == parts
        assert [type(part) for part in back] == [type(part) for part in parts]


def test_a_coarse_part_stays_known_as_coarse() -> None:
    fine = OSELM(LAYER, 6)
    X, Y = np.random.default_rng(0).normal(size=(2, 50, 6))
    fine.learn_many(X, X)
    evidence = fine.evidence + evidence_in_single(fine.basis, Y, Y, 1.0)
    restored = unpack_evidence(evidence.basis, *pack_evidence(evidence))
    assert restored == evidence
    assert restored.resolution == evidence.resolution == np.finfo(np.float32).eps


# The first score after P is computed again is as right as the others, however far rows lie

NOISE = np.random.default_rng(0).normal(size=(310, 8))


def exact_scores(detector: Detector, X: np.ndarray) -> np.ndarray:
    """The scores that follow from the detector's sums, without any rounding."""
    model, layer = detector.model, detector.basis.layer
    total = model.total
    ridge = regularized(total.U, model.ridge, total.resolution).ridge
    beta = np.array(e2lm_in_fractions(total.U, total.V, ridge))
    x, alpha, b = (np.vectorize(Fraction)(a) for a in (X, layer.alpha, layer.b))
    return np.mean((x - (x @ alpha + b) @ beta) ** 2, axis=1).astype(float)


def synced(detector: Detector, X: np.ndarray) -> None:
    other = trained(Detector.for_basis(detector.basis), X)
    detector.set_prior([other.evidence])


def taught(detector: Detector, X: np.ndarray) -> None:
    detector.learn_many(X)


@pytest.mark.combinations
@pytest.mark.parametrize("offset", [1e6, 1e7])
@pytest.mark.parametrize("units", [4, 8, 16])
@pytest.mark.parametrize("change", [synced, taught])
def test_the_first_score_is_that_of_the_sums(
    offset: float, units: int, change: Callable[[Detector, np.ndarray], None]
) -> None:
    X = offset + NOISE
    for x in X[300:303]:
        detector = trained(Detector(HiddenLayer(8, units, seed=1), score="loss"), X[:150])
        change(detector, X[150:300])
        (wanted,) = exact_scores(detector, x[np.newaxis])
        assert detector.model.answer(x).score == pytest.approx(wanted, rel=0.05)


# Many rows as they come score as each input by itself, whatever their units and offsets

SHAPES = [(1, 1, None), (8, 1, None), (3, 4, None), (19, 10, None), (90, 1, 30), (30, 3, 20)]


def walk(seed: int, rows: int, columns: int) -> np.ndarray:
    """Rows that drift a little, so that the rows of a window have other means."""
    rng = np.random.default_rng(seed)
    slow = np.cumsum(rng.normal(size=(rows, columns)), axis=0) / 20.0
    return slow + rng.normal(size=(rows, 3)) @ rng.normal(size=(3, columns)) + slow[:, ::-1]


def known(rows: np.ndarray, window: int, units: int | None, scaling: str) -> Distance:
    basis = Basis.fitted(rows, None, scaling=scaling, window=window, units=units)
    sums = MomentSums(basis, 1.0)
    sums.add_many(stacked(basis.scaling(rows), window))
    return Distance(sums.evidence)


@pytest.mark.combinations
@pytest.mark.parametrize("scaling", ["none", "standard", "minmax"])
@pytest.mark.parametrize(("size", "offset"), [(1.0, 0.0), (1e-9, 1e-6), (1e9, -1e12), (1e-3, 5.0)])
@pytest.mark.parametrize(("columns", "window", "units"), SHAPES)
def test_many_rows_score_as_one_by_one_whatever_is_beside_them(
    columns: int, window: int, units: int | None, size: float, offset: float, scaling: str
) -> None:
    rows = walk(1, 600, columns) * size + offset
    distance = known(rows, window, units, scaling)
    tried = rows.copy()
    tried[40, 0] += 30.0 * rows[:, 0].std()
    # One value that is off alone, by as much as counts more and more.
    unit = distance.basis.scaling.scale[-1] if scaling != "none" else 1.0
    tried[100:140, -1] += np.linspace(2.0, 6.0, 40) * distance.residual[-1] * unit
    tried[90:95] -= 1e3 * np.ptp(rows, axis=0)
    inputs = stacked(distance.basis.scaling(tried), window)
    expected = [distance.score_one(x) for x in inputs[:150]]
    assert distance.score_many(inputs)[:150] == pytest.approx(expected, rel=1e-9)
    assert distance.score_many(inputs[:150]) == pytest.approx(expected, rel=1e-9)
    assert not len(distance.score_many(inputs[:0]))
