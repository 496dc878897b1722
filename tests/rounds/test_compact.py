"""Models in 8 bits: how far they are from the float ones, and that their bytes come back whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadFile, BadInput, Basis, HiddenLayer, SingularSystem
from elmgrove.algebra.fed_elms import RoundModel
from elmgrove.algebra.scaling import Scaling
from elmgrove.rounds.compact import CompactClassifier, CompactModel, Quantized
from support.places import GOLDEN

LAYER = HiddenLayer(inputs=6, units=10, activation="relu", weights="binary", seed=2)
BASIS = Basis(LAYER, outputs=3)
seeds = st.integers(0, 10**6)
scales = st.floats(-30, 30).map(lambda power: 10.0**power)


def definite(seed: int, size: int = 10) -> np.ndarray:
    """Eigenvalues over eight orders of magnitude."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(size, size)))
    return (axes * 10.0 ** rng.uniform(-8, 0, size)) @ axes.T


def model(seed: int = 0) -> CompactModel:
    beta = np.random.default_rng(seed).normal(size=(10, 3))
    return CompactModel.of(RoundModel(beta, definite(seed)))


def classifier(seed: int = 0) -> CompactClassifier:
    return CompactClassifier.of(BASIS, np.random.default_rng(seed).normal(size=(10, 3)), 2.0)


# A matrix


@settings(deadline=None)
@given(seeds, scales, st.booleans())
def test_an_entry_is_off_by_half_a_scale_at_most(seed: int, size: float, by_column: bool) -> None:
    matrix = size * np.random.default_rng(seed).normal(size=(7, 4))
    made = Quantized.of(matrix, by_column=by_column)
    assert made.scale.shape == (1, 4 if by_column else 1)
    assert (np.abs(made.matrix - matrix) <= made.scale / 2 * (1 + 1e-12)).all()
    assert np.abs(made.values.astype(int)).max() == 127


def test_nothing_stays_nothing_and_what_is_not_finite_is_refused() -> None:
    np.testing.assert_array_equal(Quantized.of(np.zeros((2, 2))).matrix, np.zeros((2, 2)))
    for bad in (np.nan, np.inf, 1e300):
        with pytest.raises(BadInput, match="not finite"):
            Quantized.of(np.full((2, 2), bad))


# A message


@settings(deadline=None)
@given(seeds)
def test_p_stays_positive_definite_and_near(seed: int) -> None:
    P = definite(seed)
    found = CompactModel.of(RoundModel(np.zeros((10, 3)), P)).state.P
    np.linalg.cholesky(found)
    assert np.abs(found - P).max() < 0.03 * P.diagonal().max()


def test_p_stays_definite_where_a_diagonal_is_small_beside_its_column() -> None:
    """A diagonal of 1 above 1000: nearer to 0 than to a step."""
    C = np.eye(10)
    C[1:, 0] = 1000.0
    np.linalg.cholesky(CompactModel.of(RoundModel(np.zeros((10, 3)), C @ C.T)).state.P)


def test_p_itself_in_8_bits_would_not_stay_so() -> None:
    """Why the factor travels."""
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(Quantized.of(definite(1)).matrix)


def test_what_is_not_positive_definite_is_not_sent() -> None:
    with pytest.raises(SingularSystem):
        CompactModel.of(RoundModel(np.zeros((10, 3)), -np.eye(10)))


# The classifier


def test_sums_of_32_bits_never_overflow_even_at_the_worst_row() -> None:
    """All units at their largest and all weights 127: wide enough that bits must be dropped."""
    layer = HiddenLayer(2000, 300, "relu", "binary", 5)
    small = CompactClassifier.of(Basis(layer, 1), np.ones((300, 1)), 1.0)
    assert small.shift > 0
    X = np.sign(layer.alpha.T)[:50]
    wide = small._hidden(X).astype(object) @ small.beta.values.astype(object)
    np.testing.assert_array_equal(small.sums(X), wide)
    assert small.sums(X).dtype == np.int32


def test_inputs_beyond_the_range_are_cut_off() -> None:
    small = classifier()
    np.testing.assert_array_equal(
        small.sums(np.full((1, 6), 50.0)), small.sums(np.full((1, 6), 2.0))
    )


def test_a_classifier_comes_back_from_its_bytes() -> None:
    small = classifier()
    blob = small.to_bytes()
    came = CompactClassifier.from_bytes(blob)
    assert (came.to_bytes(), came.step) == (blob, small.step)
    with pytest.raises(BadFile):
        CompactClassifier.from_bytes(blob[:-1])


@pytest.mark.parametrize(
    "layer", [HiddenLayer(6, 10, "relu"), HiddenLayer(6, 10, "tanh", "binary")]
)
def test_other_layers_are_refused(layer: HiddenLayer) -> None:
    with pytest.raises(BadInput, match="binary weights and relu"):
        CompactClassifier.of(Basis(layer, 3), np.ones((10, 3)), 1.0)


@pytest.mark.parametrize("largest", [0.0, -1.0, np.nan, np.inf, 1e-12])
def test_a_range_that_makes_no_sense_is_refused(largest: float) -> None:
    with pytest.raises(BadInput, match="steps of"):
        CompactClassifier.of(BASIS, np.ones((10, 3)), largest)


# Files of version 2


def test_the_golden_classifier_is_read_and_written_as_it_was() -> None:
    blob = (GOLDEN / "classifier-1.compact").read_bytes()
    came = CompactClassifier.from_bytes(blob)
    assert came.to_bytes() == blob
    # The float model's outputs for it are −3.53, 0.15 and −2.13.
    assert came.predict(np.zeros((1, 6))).tolist() == [1]


def test_a_classifier_does_not_pass_over_a_scaling() -> None:
    layer = HiddenLayer(2, 3, "relu", "binary", seed=1)
    basis = Basis(layer, 2, None, Scaling.minmax([0.0, 1.0], [2.0, 5.0]))
    with pytest.raises(BadInput, match="scale them before"):
        CompactClassifier.of(basis, np.ones((3, 2)), 1.0)
