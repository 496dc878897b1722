"""A pump with faults whose rows are labelled: for what is evaluated and drawn."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

NAMES = ["rpm", "temp", "volt", "amp"]
#: The first of its minutes.
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


class Fault(NamedTuple):
    """A sensor that is off by so much from one row to before another."""

    first: int
    end: int
    sensor: str
    off: float


#: One among the rows that are learned, and three later: short, weak and long.
FAULTS = (
    Fault(300, 320, "temp", -6.0),
    Fault(900, 905, "volt", 14.0),
    Fault(1100, 1150, "amp", 0.8),
    Fault(1400, 1440, "temp", -6.0),
)


def labelled_pump_rows(count: int, seed: int = 7) -> np.ndarray:
    """Rows of a pump: one load behind all but the voltage."""
    rng = np.random.default_rng(seed)
    load = np.zeros(count)
    for place in range(1, count):
        load[place] = 0.9 * load[place - 1] + 0.44 * rng.normal()
    noise = rng.normal(size=(count, 4)) * [4.0, 0.5, 1.5, 0.08]
    shared = np.outer(load, [40.0, 4.0, 0.0, 0.9])
    return np.array([1450.0, 55.0, 230.0, 8.0]) + shared + noise


def labelled(count: int = 1600) -> tuple[np.ndarray, np.ndarray]:
    """Its rows with the faults, and which rows have one."""
    rows, labels = labelled_pump_rows(count), np.zeros(count, bool)
    for fault in FAULTS:
        rows[fault.first : fault.end, NAMES.index(fault.sensor)] += fault.off
        labels[fault.first : fault.end] = True
    return rows[:count], labels[:count]


def times(count: int) -> np.ndarray:
    """A minute for each row, as seconds since 1970."""
    return BEGIN.timestamp() + 60.0 * np.arange(count)


def write_labelled(path: str, rows: np.ndarray, labels: np.ndarray | None = None) -> Path:
    """Writes a CSV file with a time for each row, and its label if there are any."""
    names = ["time", *NAMES, *([] if labels is None else ["anomaly"])]
    lines = [",".join(names)]
    for place, row in enumerate(rows.tolist()):
        cells = [(BEGIN + timedelta(minutes=place)).isoformat(), *map(repr, row)]
        lines.append(",".join(cells if labels is None else [*cells, str(int(labels[place]))]))
    Path(path).write_text("\n".join(lines) + "\n")
    return Path(path)
