"""CSV files of clients whose rows have something to predict, with a known answer."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

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
