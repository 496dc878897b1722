"""Writes three CSV files to try the commands on: two fans' normal rows, and rows with two faults.

The numbers are made up (seeded, always the same): six sensors that follow the load, plus noise.
The second fan stands in a warmer room. In new.csv line 52 has a vibration and line 122 a
temperature that do not fit the rest.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SENSORS = ("rpm", "celsius", "volt", "vibration", "humidity", "ampere")
AT_REST = np.array([1200.0, 55.0, 12.0, 0.20, 40.0, 1.1])
PER_LOAD = np.array([200.0, 8.0, -0.3, 0.05, -2.0, 0.15])
NOISE = np.array([20.0, 1.0, 0.05, 0.01, 0.5, 0.02])


def fan(rows: int, seed: int, warmer: float = 0.0) -> NDArray[np.float64]:
    """Rows of one fan under changing load."""
    rng = np.random.default_rng(seed)
    load, noise = rng.normal(size=(rows, 1)), rng.normal(size=(rows, len(SENSORS)))
    rows_seen: NDArray[np.float64] = AT_REST + load * PER_LOAD + noise * NOISE
    rows_seen[:, 1] += warmer
    return rows_seen


def main() -> None:
    """Writes the files into the current folder."""
    new = fan(200, seed=3)
    new[50, 3] += 0.5
    new[120, 1] -= 20.0
    for name, rows in (
        ("fan-1.csv", fan(2000, seed=1)),
        ("fan-2.csv", fan(1500, seed=2, warmer=12.0)),
        ("new.csv", new),
    ):
        np.savetxt(Path(name), rows, "%.4f", ",", header=",".join(SENSORS), comments="")


if __name__ == "__main__":
    main()
