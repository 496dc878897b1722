"""A simulated pump: rpm, temp and amp follow one load, volt does not."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from elmgrove import Detector
from elmgrove.detector.drift import Drift

NAMES = ["rpm", "temp", "volt", "amp"]
TEMP = 1
#: The residual σ of temp: what is left of it when all others are known.
SIGMA = 0.5
#: Seconds between two rows, and when the first one is: at midnight.
STEP, START = 60.0, 1_700_006_400.0


def pump_rows(rows: int, seed: int, memory: float = 0.95) -> np.ndarray:
    """Rows of a pump whose load remembers its last value."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=rows + 200)
    load = lfilter([np.sqrt(1 - memory**2)], [1, -memory], steps)[200:]
    noise = rng.normal(size=(rows, 4))
    return np.column_stack(
        [
            1500 + 100 * load + 10 * noise[:, 0],
            50 + 5 * load + SIGMA * noise[:, 1],
            230 + noise[:, 2],
            8 + 1.5 * load + 0.15 * noise[:, 3],
        ]
    )


def pump_detector(seed: int, rows: int = 2000, **settings: Any) -> Detector:
    """A detector that has learned rows of a pump."""
    X = pump_rows(rows, seed)
    detector = Detector.for_data(pd.DataFrame(X, columns=NAMES), **settings)
    detector.learn_many(X)
    return detector


def drifts_in(detector: Detector, X: np.ndarray, first: int = 0) -> list[tuple[int, Drift]]:
    """What the watch tells of rows, a minute apart, and with which of them."""
    found = []
    times = START + STEP * (first + np.arange(len(X)))
    for row, verdict in enumerate(detector.observe_many(X, times), first):
        if verdict.drift is not None:
            found.append((row, verdict.drift))
    return found


#: The noise of each sensor of ``load_rows``.
NOISE = np.array([10.0, 1.0, 1.0, 0.4])


def load_rows(rows: int, seed: int, noise: np.ndarray = NOISE) -> np.ndarray:
    """Four sensors with one load behind all but the voltage."""
    rng = np.random.default_rng([seed, rows])
    load = rng.uniform(0.2, 1.0, size=rows)
    levels = [1000.0 + 400.0 * load, 40.0 + 30.0 * load, np.full(rows, 230.0), 2.0 + 8.0 * load]
    return np.stack(levels, axis=1) + noise * rng.normal(size=(rows, 4))
