"""The laws of merging, on random layers, rows, splits, orders and repetitions.

Two sums of the same terms in another order differ by a few ε of the sizes of the terms. Solving
multiplies that by the condition of U + λI, and by how far the terms of V cancel: their product
is κ here. So the law is 1e-9 in float64 where κ ≤ 1e6 (ε κ is 2e-10 there), and 64 ε κ in
float32, where also each hidden output carries an error of a few ε that depends on how many rows
BLAS computed at once.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from elmgrove import OSELM, Evidence, HiddenLayer
from support.laws import law_examples

DTYPES = (np.float64, np.float32)
CONDITION = {np.float64: 1e6, np.float32: 1e3}


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

    @property
    def dtype(self) -> Any:
        return self.settings["dtype"]


@st.composite
def fleets(draw: st.DrawFn, dtypes: tuple[Any, ...] = DTYPES) -> Fleet:
    layer = HiddenLayer(
        draw(st.integers(1, 6)),
        draw(st.integers(1, 10)),
        draw(st.sampled_from(["identity", "sigmoid", "relu", "tanh"])),
        draw(st.sampled_from(["uniform", "normal", "binary"])),
        draw(st.integers(0, 2**40)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, devices = draw(st.integers(1, 80)), draw(st.integers(1, 6))
    X = 10.0 ** draw(st.integers(-1, 1)) * rng.normal(size=(rows, layer.inputs))
    autoencoder = draw(st.booleans())
    T = X if autoencoder else rng.normal(size=(rows, draw(st.integers(1, 4))))
    return Fleet(
        layer,
        {"ridge": 10.0 ** draw(st.floats(-6, 1)), "dtype": draw(st.sampled_from(dtypes))},
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
    U, V = total.U.astype(np.float64), np.abs(total.V).max()
    assume(V > 0)
    cancelled = np.sqrt(U.diagonal().max() * total.energy) / V
    return float(np.linalg.cond(U + model.ridge * np.eye(len(U))) * max(cancelled, 1.0))


def same_model(ours: OSELM, central: OSELM) -> bool:
    """β to 1e-9 of its largest entry in float64, to 64 ε κ in float32."""
    kappa = condition(central)
    assume(kappa <= CONDITION[central.dtype.type])
    tolerance = 1e-9 if central.dtype == np.float64 else 64 * np.finfo(np.float32).eps * kappa
    difference = np.abs(ours.beta - central.beta).max()
    return bool(difference <= tolerance * np.abs(central.beta).max())


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
def test_the_sum_over_devices_is_the_evidence_of_all_rows(fleet: Fleet) -> None:
    parts = [
        fleet.learned(device).evidence
        for device in fleet.order
        for _ in range(fleet.repeats[device])
    ]
    # no condition here: evidence is a sum, and sums are exact up to rounding
    assert Evidence.sum(parts).close_to(fleet.central().evidence, 200 * np.finfo(fleet.dtype).eps)


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets())
def test_a_prior_equals_merging_equals_training_in_one_place(fleet: Fleet) -> None:
    first, *others = fleet.order
    model = fleet.learned(first)
    received = [Evidence.zero(model.basis, fleet.dtype)]
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
    zero = Evidence.zero(model.basis, fleet.dtype)
    merged = Evidence.sum([zero, *(fleet.learned(device).evidence for device in others)])
    model.merge(merged)
    model.subtract(merged)
    # what is left is right to a few ε of what was there in between
    grown = 1.0
    for name in ("U", "V"):
        back, was = getattr(model.evidence, name), getattr(before.evidence, name)
        most = np.abs(was).max() + np.abs(getattr(merged, name)).max()
        assert np.abs(back - was).max() <= 4 * np.finfo(fleet.dtype).eps * most
        # β carries that rounding on: more of it where little is left of much
        assume(was.any())
        grown = max(grown, most / np.abs(was).max())
    assert model.evidence.count == before.evidence.count
    assume(condition(before) * grown <= CONDITION[fleet.dtype])
    assert same_model(model, before)


@settings(max_examples=law_examples(60), deadline=None)
@given(fleets((np.float64,)))
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
    assume(total <= CONDITION[fleet.dtype])
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
        model.replace(older, newer.evidence)
    expected = fleet.new()
    expected.learn_many(*fleet.rows(first))
    for device in others:
        expected.learn_many(*fleet.rows(device))
        expected.learn_many(*fleet.rows(device))
    assert same_model(model, expected)
