"""Writes the files that the tutorials use: a pump's normal days, a day with faults, and a new job.

The numbers are made up (seeded, always the same), a row a minute: flow, pressure, current, the
motor's temperature and vibration follow one load. In new.csv the bearing runs warm and rough for 40
minutes, and later the filter clogs for half an hour; labels.csv says when. From the middle of
moved.csv on the pump does another job: more flow against less pressure, and nothing is wrong.
The folder sensors has the rows of both normal.csv and new.csv, a file for each sensor.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SENSORS = ("flow", "bar", "amp", "celsius", "vibration")
AT_REST = np.array([31.0, 4.2, 7.5, 52.0, 1.8])
PER_LOAD = np.array([3.0, -0.25, 0.6, 3.0, 0.15])
NOISE = np.array([0.4, 0.03, 0.08, 0.5, 0.06])
NEW_JOB = np.array([6.0, -0.9, 0.9, 3.5, 0.3])
#: Which rows of new.csv are how far off.
FAULTS = (
    (600, 640, np.array([0.0, 0.0, 0.0, 4.0, 0.25])),
    (1000, 1030, np.array([-2.4, 0.15, 0.0, 0.0, 0.0])),
)
FIRST = np.datetime64("2026-03-02T00:00")


def pump(rows: int, seed: int) -> NDArray[np.float64]:
    """Rows of the pump under a load that changes slowly."""
    rng = np.random.default_rng(seed)
    steps, load = rng.normal(size=rows), np.zeros(rows)
    for i in range(1, rows):
        load[i] = 0.95 * load[i - 1] + 0.3 * steps[i]
    noise = rng.normal(size=(rows, len(SENSORS)))
    made: NDArray[np.float64] = AT_REST + np.outer(load, PER_LOAD) + noise * NOISE
    return made


def write(path: Path, first: np.datetime64, rows: NDArray[np.float64], names: list[str]) -> None:
    """Writes rows with the minute of each."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as file:
        file.write(",".join(["timestamp", *names]) + "\n")
        for minute, row in enumerate(rows):
            file.write(",".join([f"{first + minute}", *(f"{value:.3f}" for value in row)]) + "\n")


def main() -> None:
    """Writes the files into the current folder."""
    normal, new, moved = pump(4320, seed=1), pump(1440, seed=2), pump(1440, seed=3)
    labels = list[str]()
    day = FIRST + len(normal)
    for begin, end, off in FAULTS:
        new[begin:end] += off
        labels.append(f"{day + begin},{day + end - 1}\n")
    moved[720:] += NEW_JOB
    names = list(SENSORS)
    write(Path("normal.csv"), FIRST, normal, names)
    write(Path("new.csv"), day, new, names)
    write(Path("moved.csv"), day, moved, names)
    Path("labels.csv").write_text("".join(labels))
    both = np.vstack([normal, new])
    for place, name in enumerate(names):
        write(Path("sensors", f"{name}.csv"), FIRST, both[:, [place]], ["value"])


if __name__ == "__main__":
    main()
