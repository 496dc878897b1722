"""The laws of moments: any split, any order, any repetition, any centre gives the same sums.

Sums of the same terms in another order differ by a few ε of the terms. A centre far from the rows
costs the square of how far, in deviations: here devices lie ten deviations apart.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from elmgrove import Basis, Evidence
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.moments import Moments, pack_evidence, unpack_evidence
from elmgrove.algebra.summing import MomentSums
from support.laws import law_examples
from support.moments import distance_basis, distance_between, literal_moments, moments_of

DTYPES = (np.float64, np.float32)
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
        return MomentSums(self.basis, forgetting, np.dtype(self.dtype))

    def learned(self, device: int) -> Moments:
        """Learns its rows in chunks; chunks of one row the one-row way."""
        sums, X = self.sums(), self.rows(device)
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
        weights=draw(st.sampled_from(["uniform", "normal", "binary"])),
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
@given(fleets())
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
@given(fleets(), st.sampled_from([0.999, 0.9, 0.5, 0.01]))
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
        assert back.C.dtype == fleet.dtype
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
