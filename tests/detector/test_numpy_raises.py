"""A verdict comes even where another library made NumPy raise, as ``import emlearn`` does."""

import numpy as np
import pytest

from elmgrove import Detector, PatternRule


@pytest.mark.parametrize("settings", [{}, {"score": "loss"}, {"patterns": PatternRule()}])
@pytest.mark.parametrize("window", [1, 10])
def test_a_verdict_where_numpy_raises(window: int, settings: dict[str, object]) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8))
    X[:, 1], X[:, 2] = 3.0, X[:, 0]
    with np.errstate(all="raise"):
        detector = Detector.for_data(X, window=window, **settings)  # type: ignore[arg-type]
        detector.learn_many(X)
        for far in (0.0, 10.0, 1e5, 1e30, 1e75):
            for x in X[:12]:
                verdict = detector.observe(x + far * (np.arange(8) == 3))
                assert verdict.score >= 0.0
                verdict.explain()
                detector.blame(x)
        detector.score_many(1e60 * X[:50])
