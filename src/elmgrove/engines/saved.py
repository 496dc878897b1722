"""Rows that lie in a folder, a file for each client."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class SavedRows(Mapping[str, Array]):
    """Each client's rows by its name, read when they are asked for."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder = folder
        self._names = {name: index for index, name in enumerate(names)}

    def __getitem__(self, name: str) -> Array:
        rows: Array = np.load(self._folder / f"{self._names[name]}.npy", allow_pickle=False)
        return rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @classmethod
    def write(cls, folder: Path, rows: Mapping[str, Array]) -> None:
        """A file for each, in the order of the names."""
        for index, name in enumerate(sorted(rows)):
            np.save(folder / f"{index}.npy", rows[name])
