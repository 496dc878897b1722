"""The rows of each fan: from its own file if it is deployed, made up in a simulation."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.reading import read_table

SENSORS = 8
ROWS = 400


def made_up(fan: int) -> NDArray[Any]:
    """Makes rows of a fan's sensors: two things vary, and each fan has a place of its own."""
    pattern = np.random.default_rng(7).normal(size=(2, SENSORS))
    rng = np.random.default_rng([7, fan])
    return rng.normal(size=(ROWS, 2)) @ pattern + rng.normal(size=SENSORS) / 2


def rows_of(node: dict[str, Any]) -> NDArray[Any]:
    """Gives the rows of a node: of the CSV file in its ``--node-config``, or made up."""
    if "data" in node:
        return read_table(Path(str(node["data"]))).array
    return made_up(int(node["partition-id"]))


def name_of(node: dict[str, Any]) -> str:
    """Gives the name of a fan."""
    return str(node.get("name", f"fan-{node.get('partition-id')}"))
