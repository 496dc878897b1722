"""Rows of a large file: in memory up to a size, beyond it in a file without a name."""

import tempfile
import weakref
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Bytes of numbers that are kept in memory.
IN_MEMORY = 1 << 26
# Rows that are handed on at once.
_BLOCK = 1 << 16


def unnamed_file() -> BinaryIO:
    """Makes a file without a name, which is gone when it is closed."""
    return cast(BinaryIO, tempfile.TemporaryFile())


class SpooledRows:
    """Rows × columns of numbers on disk, which give slices as arrays.

    Whatever is done with them block by block needs little memory, however many they are.
    """

    def __init__(self, file: BinaryIO, shape: tuple[int, int]) -> None:
        self._file = file
        weakref.finalize(self, file.close)
        self.shape = shape
        self.dtype = np.dtype(np.float64)
        self.ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        start, end, step = rows.indices(len(self))
        found = np.empty((max(end - start, 0), self.shape[1]))
        if found.size and step == 1:
            self._file.seek(start * self.shape[1] * found.itemsize)
            cast(Any, self._file).readinto(found.data.cast("B"))
        elif found.size:
            raise ValueError("rows on disk are read in slices without a step")
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)


#: The rows of a table.
StoredRows = Array | SpooledRows


def blocks_of(rows: StoredRows, size: int = _BLOCK) -> Iterator[Array]:
    """Gives rows block by block."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


class Spool:
    """Takes rows block by block, and gives all of them."""

    def __init__(self, columns: int) -> None:
        self.count = 0
        self._columns = columns
        self._blocks: list[Array] = []
        self._bytes = 0
        self._file: BinaryIO | None = None

    def add(self, rows: Array) -> None:
        """Takes in rows."""
        if not len(rows):
            return
        self.count += len(rows)
        self._blocks.append(np.ascontiguousarray(rows))
        self._bytes += rows.nbytes
        if self._file is None and self._bytes > IN_MEMORY:
            self._file = unnamed_file()
        if self._file is not None:
            self._write()

    def rows(self) -> StoredRows:
        """Gives all rows that were taken in."""
        if self._file is not None:
            self._file.flush()
            return SpooledRows(self._file, (self.count, self._columns))
        return np.concatenate([np.empty((0, self._columns)), *self._blocks])

    def _write(self) -> None:
        assert self._file is not None
        for block in self._blocks:
            self._file.write(block.data.cast("B"))
        self._blocks = []
