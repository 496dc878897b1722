"""Other libraries' detectors, as they are compared with."""

from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.quality.peers import HalfSpaceTrees, PyOD, Rival

RATE = 0.02


def _pyod(name: str) -> Callable[[], Rival]:
    def made() -> Rival:
        pytest.importorskip("pyod")
        return PyOD(name, RATE)

    return made


def _river() -> Rival:
    pytest.importorskip("river")
    return HalfSpaceTrees(RATE)


MADE = {
    "HalfSpaceTrees": _river,
    **{name: _pyod(name) for name in ("ECOD", "IForest", "KNN", "PCA", "LOF")},
}


@pytest.mark.parametrize("name", MADE)
# Of a library's own making, which is not ours to mend.
@pytest.mark.filterwarnings("default")
def test_each_finds_what_lies_far_out_at_about_the_stated_rate(name: str) -> None:
    rng = np.random.default_rng(0)
    train, normal = rng.normal(size=(1500, 3)), rng.normal(size=(1500, 3))
    train[:, 2] = normal[:, 2] = 5.0
    far = normal[:50] + np.array([9.0, 9.0, 0.0])
    rival = MADE[name]()
    rival.fit(train)
    scores = rival.score(np.vstack([normal, far]))
    assert scores.shape == (1550,)
    assert np.isfinite(scores).all()
    flagged = scores > rival.threshold
    assert flagged[1500:].mean() > 0.9
    assert flagged[:1500].mean() < 3 * RATE
