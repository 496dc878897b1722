"""Evidence is a value: it adds, subtracts, compares and solves, and never changes."""

import dataclasses
from dataclasses import dataclass
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
    Evidence,
    HiddenLayer,
    Mismatch,
    NotAdmissible,
)
from elmgrove.algebra.linalg import EPSILON
from support.laws import law_examples
from support.moments import evidence_in_single

BASIS = Basis(HiddenLayer(3, 5, "tanh", seed=1), 2)


def rows(seed: int, count: int, basis: Basis = BASIS) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, basis.layer.inputs)), rng.normal(size=(count, basis.outputs))


def evidence_of(
    X: np.ndarray, T: np.ndarray, basis: Basis = BASIS, dtype: Any = np.float64
) -> Evidence:
    """The definition: U = Σ hᵀh, V = Σ hᵀt, energy = Σ ‖t‖², count."""
    H = basis.layer(X)
    return Evidence(
        basis, (H.T @ H).astype(dtype), (H.T @ T).astype(dtype), np.square(T).sum(), len(X)
    )


def made(seed: int, count: int = 20, dtype: Any = np.float64) -> Evidence:
    return evidence_of(*rows(seed, count), dtype=dtype)


def snapshot(evidence: Evidence) -> tuple[bytes, bytes, float, float]:
    return evidence.U.tobytes(), evidence.V.tobytes(), evidence.energy, evidence.count


# Adding and subtracting


def test_zero_is_neutral_and_adding_commutes_to_the_last_bit() -> None:
    a, b, zero = made(1), made(2), Evidence.zero(BASIS)
    assert a + b == b + a
    assert a + zero == a - zero == a
    assert a - a == zero
    assert zero.count == zero.energy == 0


def test_sum_equals_adding_one_after_another_to_the_last_bit() -> None:
    parts = [made(seed) for seed in range(5)]
    one_by_one = parts[0]
    for part in parts[1:]:
        one_by_one = one_by_one + part
    assert Evidence.sum(parts) == one_by_one
    assert Evidence.sum(part for part in parts) == one_by_one
    assert Evidence.sum(parts[:1]) == parts[0]


@pytest.mark.parametrize(("left", "right"), [(np.float32, np.float64), (np.float64, np.float32)])
def test_two_precisions_add(left: Any, right: Any) -> None:
    mixed = made(1, dtype=left) + made(2, dtype=right)
    assert mixed.U.dtype == mixed.V.dtype
    assert mixed == Evidence.sum([made(1, dtype=left), made(2, dtype=right)])
    assert mixed.close_to(made(1) + made(2), 1e-6)


OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "sum": lambda a, b: Evidence.sum([a, b]),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_what_was_learned_in_different_ways_does_not_add(operation: Any) -> None:
    other = Evidence.zero(Basis(HiddenLayer(3, 5, "tanh", seed=2), 2))
    with pytest.raises(Mismatch, match=r"layer\.seed: 1 here, 2 there"):
        operation(made(1), other)


# Nothing changes


@pytest.mark.parametrize(
    "operation",
    [
        *OPERATIONS.values(),
        lambda a, b: a.close_to(b),
        lambda a, b: a == b,
        lambda a, b: a.solve(0.1),
        lambda a, b: a.error_of(b.solve(0.1)),
        lambda a, b: a.admissible(),
    ],
)
def test_no_operation_changes_its_arguments(operation: Any) -> None:
    a, b = made(1), made(2)
    before = snapshot(a), snapshot(b)
    operation(a, b)
    assert (snapshot(a), snapshot(b)) == before


@pytest.mark.parametrize(
    "evidence",
    [made(1), made(1) + made(2), made(1) - made(2), Evidence.sum([made(1)]), Evidence.zero(BASIS)],
)
def test_arrays_and_fields_are_read_only(evidence: Evidence) -> None:
    for array in (evidence.U, evidence.V):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        evidence.count = 3.0


# Comparing


@pytest.mark.parametrize("part", ["U", "V", "energy", "count"])
def test_each_part_counts_in_a_comparison(part: str) -> None:
    a = made(1)
    value = getattr(a, part)
    moved = dataclasses.replace(a, **{part: value + 1e-6 * np.abs(value).max()})
    assert a.close_to(moved, 1e-5)
    assert not a.close_to(moved, 1e-7)
    assert a != moved


def test_equal_is_to_the_last_bit() -> None:
    a = made(1)
    assert a == made(1)
    nudged = np.array(a.U)
    nudged[2, 3] = np.nextafter(nudged[2, 3], np.inf)
    assert a != dataclasses.replace(a, U=nudged)
    assert a.close_to(dataclasses.replace(a, U=nudged))


# Solving


@settings(max_examples=law_examples(50), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.sampled_from(["identity", "relu", "tanh"]))
def test_error_of_is_the_squared_error_over_the_rows(
    seed: int, count: int, activation: str
) -> None:
    basis = Basis(HiddenLayer(3, 5, activation, seed=seed), 2)
    X, T = rows(seed, count, basis)
    beta = np.random.default_rng(seed + 1).normal(size=(5, 2))
    true = np.square(T - basis.layer(X) @ beta).sum()
    # the three terms cancel, so rounding is a share of the largest of them
    rounding = 1e-12 * np.square(basis.layer(X) @ beta).sum()
    assert evidence_of(X, T, basis).error_of(beta) == pytest.approx(true, rel=1e-12, abs=rounding)


# What is not evidence


@pytest.mark.parametrize(
    ("U", "V", "words"),
    [
        (np.eye(4), np.ones((5, 2)), "U must be 5 × 5"),
        (np.eye(5), np.ones((2, 5)), "V must be 5 × 2"),
        (np.eye(5, dtype=int), np.ones((5, 2)), "U must be .* float64 or float32"),
        (np.eye(5), np.ones((5, 2), np.float16), "V must be .* float64 or float32"),
    ],
)
def test_arrays_of_another_shape_or_dtype_are_refused(U: Any, V: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Evidence(BASIS, U, V, 1.0, 1.0)


# Honest evidence always passes; each kind of corruption fails with its own reason

DTYPES = (np.float64, np.float32)


def honest(
    activation: str = "sigmoid", rows: int = 40, dtype: Any = np.float64, units: int = 6
) -> Evidence:
    rng = np.random.default_rng(rows)
    model = OSELM(HiddenLayer(4, units, activation, seed=3), 3)
    X, T = rng.normal(size=(rows, 4)), rng.normal(size=(rows, 3))
    if dtype == np.float32:
        return evidence_in_single(model.basis, X, T, 1.0)
    model.learn_many(X, T)
    return model.evidence


@st.composite
def learned(draw: st.DrawFn) -> Evidence:
    """Any layer, few rows or many, also rows that repeat, lie in a plane, or are all the same."""
    layer = HiddenLayer(
        draw(st.integers(1, 5)),
        draw(st.integers(1, 12)),
        draw(st.sampled_from(["identity", "sigmoid", "relu", "tanh"])),
        draw(st.sampled_from(["uniform", "binary"])),
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
    forgetting = draw(st.sampled_from([1.0, 0.99, 0.5]))
    model = OSELM(layer, T.shape[1], forgetting=forgetting)
    if draw(st.booleans()):
        return evidence_in_single(model.basis, X[pick], T[pick], forgetting)
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


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_long_stream_of_equal_rows_is_admissible(dtype: Any) -> None:
    # Equal rows round in the same direction each time, so the error grows with their number.
    model = OSELM(HiddenLayer(3, 8, "sigmoid", seed=2), 3)
    rows = np.tile([0.3, 0.7, 0.1], (10_000, 1))
    if dtype == np.float32:
        assert evidence_in_single(model.basis, rows, rows, 1.0).admissible().reason == ""
        return
    for row in rows:
        model.learn_one(row, row)
    assert model.evidence.admissible().reason == ""


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


# The laws of merging, on random layers, rows, splits, orders and repetitions

CONDITION = 1e6


@dataclass(frozen=True)
class Fleet:
    """Rows, how they are spread over devices, and how each device learns its part."""

    layer: HiddenLayer
    settings: dict[str, Any]
    X: np.ndarray
    T: np.ndarray
    device_of: np.ndarray
    repeats: list[int]
    order: list[int]
    chunks: list[int]

    def rows(self, device: int) -> tuple[np.ndarray, np.ndarray]:
        mine = self.device_of == device
        return self.X[mine], self.T[mine]

    def new(self) -> OSELM:
        return OSELM(self.layer, self.T.shape[1], **self.settings)

    def learned(self, device: int) -> OSELM:
        """Learns its rows in chunks; chunks of one row the one-row way."""
        model, (X, T) = self.new(), self.rows(device)
        edges = [0, *(cut for cut in self.chunks if cut < len(X)), len(X)]
        for start, stop in pairwise(edges):
            if stop - start == 1:
                model.learn_one(X[start], T[start])
            else:
                model.learn_many(X[start:stop], T[start:stop])
        return model

    def central(self) -> OSELM:
        """All rows in one place, each as often as its device is merged."""
        often = np.array(self.repeats)[self.device_of]
        model = self.new()
        model.learn_many(np.repeat(self.X, often, axis=0), np.repeat(self.T, often, axis=0))
        return model


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    layer = HiddenLayer(
        draw(st.integers(1, 6)),
        draw(st.integers(1, 10)),
        draw(st.sampled_from(["identity", "sigmoid", "relu", "tanh"])),
        draw(st.sampled_from(["uniform", "binary"])),
        draw(st.integers(0, 2**40)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, devices = draw(st.integers(1, 80)), draw(st.integers(1, 6))
    X = 10.0 ** draw(st.integers(-1, 1)) * rng.normal(size=(rows, layer.inputs))
    autoencoder = draw(st.booleans())
    T = X if autoencoder else rng.normal(size=(rows, draw(st.integers(1, 4))))
    return Fleet(
        layer,
        {"ridge": 10.0 ** draw(st.floats(-6, 1))},
        X,
        T,
        rng.integers(devices, size=rows),
        draw(st.lists(st.integers(1, 3), min_size=devices, max_size=devices)),
        draw(st.permutations(range(devices))),
        sorted(draw(st.sets(st.integers(1, 80), max_size=10))),
    )


def condition(model: OSELM) -> float:
    """κ: of the system, times what Σ |h||t| could be by Cauchy and Schwarz for each unit of V."""
    total = model.total
    U, V = total.U, np.abs(total.V).max()
    assume(V > 0)
    cancelled = np.sqrt(U.diagonal().max() * total.energy) / V
    return float(np.linalg.cond(U + model.ridge * np.eye(len(U))) * max(cancelled, 1.0))


def same_model(ours: OSELM, central: OSELM) -> bool:
    """β to 1e-9 of its largest entry."""
    assume(condition(central) <= CONDITION)
    difference = np.abs(ours.beta - central.beta).max()
    return bool(difference <= 1e-9 * np.abs(central.beta).max())


@settings(max_examples=law_examples(100), deadline=None)
@given(fleets())
def test_merging_devices_in_any_order_equals_training_in_one_place(fleet: Fleet) -> None:
    first, *others = fleet.order
    model = fleet.learned(first)
    own = model.evidence
    for _ in range(fleet.repeats[first] - 1):
        model.merge(own)
    for device in others:
        for _ in range(fleet.repeats[device]):
            model.merge(fleet.learned(device).evidence)
    assert same_model(model, fleet.central())


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets())
def test_what_small_devices_added_up_in_float32_merges_to_its_own_digits(fleet: Fleet) -> None:
    model, central = fleet.new(), fleet.central()
    for device in fleet.order:
        for _ in range(fleet.repeats[device]):
            model.merge(evidence_in_single(model.basis, *fleet.rows(device), 1.0))
    kappa = condition(central)
    assume(kappa <= 1e3)
    assert model.evidence.resolution == np.finfo(np.float32).eps
    difference = np.abs(model.beta - central.beta).max()
    assert difference <= 64 * np.finfo(np.float32).eps * kappa * np.abs(central.beta).max()


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets())
def test_the_sum_over_devices_is_the_evidence_of_all_rows(fleet: Fleet) -> None:
    parts = [
        fleet.learned(device).evidence
        for device in fleet.order
        for _ in range(fleet.repeats[device])
    ]
    # no condition here: evidence is a sum, and sums are exact up to rounding
    assert Evidence.sum(parts).close_to(fleet.central().evidence, 200 * EPSILON)


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets())
def test_a_prior_equals_merging_equals_training_in_one_place(fleet: Fleet) -> None:
    first, *others = fleet.order
    model = fleet.learned(first)
    received = [Evidence.zero(model.basis)]
    received += [model.evidence] * (fleet.repeats[first] - 1)
    for device in others:
        received += [fleet.learned(device).evidence] * fleet.repeats[device]
    model.prior = Evidence.sum(received)
    assert same_model(model, fleet.central())


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets())
def test_the_merged_model_goes_on_learning_as_the_central_one(fleet: Fleet) -> None:
    first, *others = fleet.order
    model, central = fleet.learned(first), fleet.new()
    central.learn_many(*fleet.rows(first))
    for device in others:
        merged = fleet.learned(device).evidence
        model.merge(merged)
        central.learn_many(*fleet.rows(device))
        for x, t in zip(fleet.X[:3], fleet.T[:3], strict=True):
            model.learn_one(x, t)
            central.learn_one(x, t)
    assert same_model(model, central)


@settings(max_examples=law_examples(100), deadline=None)
@given(fleets())
def test_adding_then_subtracting_gives_back_the_model(fleet: Fleet) -> None:
    first, *others = fleet.order
    model, before = fleet.learned(first), fleet.learned(first)
    zero = Evidence.zero(model.basis)
    merged = Evidence.sum([zero, *(fleet.learned(device).evidence for device in others)])
    model.merge(merged)
    model.subtract(merged)
    # what is left is right to a few ε of what was there in between
    grown = 1.0
    for name in ("U", "V"):
        back, was = getattr(model.evidence, name), getattr(before.evidence, name)
        most = np.abs(was).max() + np.abs(getattr(merged, name)).max()
        assert np.abs(back - was).max() <= 4 * EPSILON * most
        # β carries that rounding on: more of it where little is left of much
        assume(was.any())
        grown = max(grown, most / np.abs(was).max())
    assert model.evidence.count == before.evidence.count
    assume(condition(before) * grown <= CONDITION)
    assert same_model(model, before)


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets())
def test_all_devices_may_leave_one_after_another(fleet: Fleet) -> None:
    parts = [fleet.learned(device).evidence for device in fleet.order]
    model = fleet.new()
    for part in parts:
        model.merge(part)
    most = np.abs(model.evidence.U).max()
    # a device whose hidden outputs were all but 0 would be lost in the rounding of the others
    assume(all(np.abs(part.U).max() > 1e-6 * most for part in parts if part.count))
    for part in parts:
        model.subtract(part)
    assert model.evidence.count == 0
    assert np.abs(model.evidence.U).max() <= 1e-14 * most
    # and the model is as good as new
    model.learn_many(fleet.X, fleet.T)
    new = fleet.new()
    new.learn_many(fleet.X, fleet.T)
    assert same_model(model, new)


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets())
def test_a_device_that_leaves_was_never_there(fleet: Fleet) -> None:
    first, *others = fleet.order
    model, rest = fleet.new(), fleet.new()
    for device in fleet.order:
        model.merge(fleet.learned(device).evidence)
    for device in others:
        rest.merge(fleet.learned(device).evidence)
    total = condition(model)
    model.subtract(fleet.learned(first).evidence)
    assume(total <= CONDITION)
    assert same_model(model, rest)


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets())
def test_a_newer_contribution_replaces_the_older_one(fleet: Fleet) -> None:
    first, *others = fleet.order
    model = fleet.learned(first)
    for device in others:
        newer = fleet.learned(device)
        older = newer.evidence
        model.merge(older)
        newer.learn_many(*fleet.rows(device))
        model.subtract(older)
        model.merge(newer.evidence)
    expected = fleet.new()
    expected.learn_many(*fleet.rows(first))
    for device in others:
        expected.learn_many(*fleet.rows(device))
        expected.learn_many(*fleet.rows(device))
    assert same_model(model, expected)
