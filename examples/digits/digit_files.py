"""Writes scikit-learn's handwritten digits as files: ten clients with two digits each, and a test.

    python examples/digits/digit_files.py digits

makes digits/fleet/client-0.csv (0 and 1) to client-9.csv (9 and 0), each with half of the training
rows of its two digits, and digits/test.csv with every fifth row of all. No row is in two files.
Needs elmgrove[sklearn].
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

CLIENTS = 10


def main(folder: Path) -> None:
    """Writes all files into a folder."""
    X, digit = load_digits(return_X_y=True)
    table = np.column_stack([X, digit]).astype(int)
    tested = np.arange(len(table)) % 5 == 0
    train = table[~tested]
    (folder / "fleet").mkdir(parents=True)
    write(folder / "test.csv", table[tested])
    rng = np.random.default_rng(0)
    for client in range(CLIENTS):
        first, second = train[train[:, -1] == client], train[train[:, -1] == (client + 1) % CLIENTS]
        own = np.vstack([first[::2], second[1::2]])
        write(folder / "fleet" / f"client-{client}.csv", rng.permutation(own))


def write(path: Path, rows: NDArray[np.int64]) -> None:
    """Writes rows as CSV: 64 pixels, and which digit it is."""
    names = ",".join([*(f"pixel {i}" for i in range(64)), "digit"])
    np.savetxt(path, rows, "%d", ",", header=names, comments="")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
