"""A pump, as a newcomer's first data."""

import numpy as np

NAMES = ("rpm", "temp", "volt", "amp")
NOISE = np.array([10.0, 1.0, 1.0, 0.4])


def pump_rows(rows: int, seed: int, noise: np.ndarray = NOISE) -> np.ndarray:
    """Four sensors with one load behind all but the voltage."""
    rng = np.random.default_rng([seed, rows])
    load = rng.uniform(0.2, 1.0, size=rows)
    levels = [1000.0 + 400.0 * load, 40.0 + 30.0 * load, np.full(rows, 230.0), 2.0 + 8.0 * load]
    return np.stack(levels, axis=1) + noise * rng.normal(size=(rows, 4))
