"""Evidence that was packed comes back as it was."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import OSELM, BadInput, Basis, Evidence, HiddenLayer
from elmgrove.algebra.packing import pack_evidence, unpack_evidence

LAYER = HiddenLayer(inputs=6, units=3, seed=3)


@settings(max_examples=40, deadline=None)
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


def test_a_coarse_part_stays_known_as_coarse() -> None:
    fine, coarse = OSELM(LAYER, 6), OSELM(LAYER, 6, dtype=np.float32)
    for seed, model in enumerate((fine, coarse)):
        X = np.random.default_rng(seed).normal(size=(50, 6))
        model.learn_many(X, X)
    evidence = fine.evidence + coarse.evidence
    restored = unpack_evidence(evidence.basis, *pack_evidence(evidence))
    assert restored == evidence
    assert restored.resolution == evidence.resolution == np.finfo(np.float32).eps
