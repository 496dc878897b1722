"""A classifier in whole numbers is as far from the float model as it is said to be."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmgrove import Basis, HiddenLayer
from elmgrove.rounds import CompactClassifier
from elmgrove_papers.fed_elms.whole_numbers import deviation, tolerance

seeds = st.integers(0, 10**6)


# A weight and a hidden value that are both rounded to 0.
@example(seed=130234, inputs=1, units=1, largest=1.0)
@settings(deadline=None)
@given(
    seeds,
    st.integers(1, 60),
    st.integers(1, 200),
    st.floats(-3, 3).map(lambda power: 10.0**power),
)
def test_each_output_is_within_the_tolerance_and_six_deviations(
    seed: int, inputs: int, units: int, largest: float
) -> None:
    rng = np.random.default_rng(seed)
    layer = HiddenLayer(inputs, units, "relu", "binary", seed)
    beta = rng.normal(size=(units, 3))
    X = rng.uniform(-largest, largest, size=(20, inputs))
    small = CompactClassifier.of(Basis(layer, 3), beta, largest)
    off = np.abs(small.outputs(X) - layer(X) @ beta)
    assert (off <= tolerance(small, X) * (1 + 1e-9)).all()
    assert (off <= 6 * deviation(small, X) + 1e-9 * np.abs(beta).max()).all()


@pytest.mark.parametrize(
    ("inputs", "units", "shift"), [(20, 100, 0), (87, 1000, 0), (1000, 450, 2)]
)
def test_the_deviation_is_about_what_the_outputs_are_off_by(
    inputs: int, units: int, shift: int
) -> None:
    """Over many models: β's roundings are the same for all rows. The widest one drops bits."""
    squares = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        layer = HiddenLayer(inputs, units, "relu", "binary", seed)
        beta, X = rng.normal(size=(units, 3)), rng.uniform(-1, 1, size=(5, inputs))
        if shift:
            # No weight is small, so that a smaller layer fills its sums.
            beta = np.sign(beta) * rng.uniform(0.5, 1.0, beta.shape)
        small = CompactClassifier.of(Basis(layer, 3), beta, 1.0)
        assert small.shift == shift
        off, expected = small.outputs(X) - layer(X) @ beta, deviation(small, X)
        squares.append((np.mean(off**2), np.mean(expected**2), np.mean(tolerance(small, X) ** 2)))
    found, expected, worst = np.sqrt(np.mean(squares, axis=0))
    assert 0.7 < found / expected < 1.3
    assert worst > 20 * expected
