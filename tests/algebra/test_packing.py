"""Evidence that was packed comes back as it was."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import OSELM, BadInput, Basis, Evidence, HiddenLayer
from elmgrove.algebra.moments import (
    array_names,
    pack_evidence,
    pack_parts,
    unpack_evidence,
    unpack_parts,
)
from support.laws import law_examples
from support.moments import distance_basis, moments_of

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


@pytest.mark.parametrize("name", ["s", "e", "centre"])
def test_sums_of_another_size_are_refused(name: str) -> None:
    moments = moments_of(distance_basis(6, 3), np.random.default_rng(1).normal(size=(9, 6)))
    fields, arrays = pack_evidence(moments)
    assert set(arrays) == {"C", "s", "e", "centre"} == set(array_names(moments.basis))
    with pytest.raises(BadInput, match=rf"^{name} must be \(6,\)"):
        unpack_evidence(moments.basis, fields, {**arrays, name: np.ones(5)})


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
    fine, coarse = OSELM(LAYER, 6), OSELM(LAYER, 6, dtype=np.float32)
    for seed, model in enumerate((fine, coarse)):
        X = np.random.default_rng(seed).normal(size=(50, 6))
        model.learn_many(X, X)
    evidence = fine.evidence + coarse.evidence
    restored = unpack_evidence(evidence.basis, *pack_evidence(evidence))
    assert restored == evidence
    assert restored.resolution == evidence.resolution == np.finfo(np.float32).eps
