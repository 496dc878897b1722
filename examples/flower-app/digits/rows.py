"""The rows of each client: from its own file if it is deployed, scikit-learn's in a simulation."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from elmgrove.rounds import Projection

Rows = NDArray[Any]


def parts() -> tuple[Rows, Rows, Rows]:
    """Divides pixels and digits, side by side: a test, the server's first batch, and the rest."""
    X, digit = load_digits(return_X_y=True)
    table = np.column_stack([X / 16.0, digit])
    place = np.arange(len(table)) % 5
    return table[place == 0], table[place == 1], table[place > 1]


def of_client(number: int) -> Rows:
    """Half of the rows of two digits, in an order of their own."""
    rest = parts()[2]
    first, second = rest[rest[:, -1] == number], rest[rest[:, -1] == (number + 1) % 10]
    return np.random.default_rng(number).permutation(np.vstack([first[::2], second[1::2]]))


def of_node(node: dict[str, Any]) -> Rows:
    """The rows of a node: of the CSV file in its ``--node-config``, or of scikit-learn."""
    if "data" in node:
        return np.loadtxt(str(node["data"]), delimiter=",")
    return of_client(int(node["partition-id"]))


def pairs(table: Rows) -> tuple[Rows, Rows]:
    """Principal components of the pixels, and a 1 in the column of the digit."""
    return projection()(table[:, :-1]), np.eye(10)[table[:, -1].astype(int)]


@cache
def projection() -> Projection:
    """The components that keep 90 % of the variance of the server's batch, as in Fed-ELMS."""
    batch = parts()[1][:, :-1]
    return Projection.fitted(batch, None, {}, scaling="none", variance=0.9)
