"""A pump with faults whose rows are labelled: for what is evaluated and drawn."""

from collections.abc import Sequence
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


# CSV files of clients whose rows have something to predict, with a known answer.


COLUMNS = ("a", "b", "c")
#: Where the rows of each class lie: far apart, so that any sensible model tells them.
CENTRES = {"calm": (0.0, 0.0, 0.0), "rough": (9.0, 0.0, 0.0), "storm": (0.0, 9.0, 0.0)}


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Writes a file with names in the first line."""
    lines = [columns, *rows]
    path.write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")


def sea(kind: str, count: int, seed: int = 0) -> list[list[object]]:
    """Rows of one class, with the class in the last column."""
    rng = np.random.default_rng([seed, sorted(CENTRES).index(kind)])
    rows = np.round(rng.normal(CENTRES[kind], 1.0, (count, 3)), 4)
    return [[*row, kind] for row in rows.tolist()]


def seas(folder: Path, each: int = 40) -> Path:
    """A folder with three clients that know one class each, and a test file of all beside it."""
    (folder / "fleet").mkdir()
    for kind in CENTRES:
        write_csv(folder / "fleet" / f"{kind}.csv", (*COLUMNS, "sea"), sea(kind, each))
    tested = [row for kind in CENTRES for row in sea(kind, 20, seed=1)]
    write_csv(folder / "test.csv", (*COLUMNS, "sea"), tested)
    return folder / "fleet"


def prices(path: Path, count: int = 300, slope: float = 1.0, seed: int = 0) -> None:
    """A file whose price is 1000 + slope · (30a - 20b), exactly."""
    X = np.round(np.random.default_rng(seed).normal(size=(count, 2)), 3)
    y = 1000.0 + slope * (30.0 * X[:, 0] - 20.0 * X[:, 1])
    write_csv(path, ("a", "b", "price"), np.column_stack([X, np.round(y, 6)]).tolist())
