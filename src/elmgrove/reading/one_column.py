"""One column of a file as its cells: what is to be predicted, words or numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput
from elmgrove.reading.cells import MISSING, is_missing
from elmgrove.reading.formats import opened
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import blocks_in


@dataclass(frozen=True)
class ColumnCells:
    """The cells of one column as they stand, the line of each, and what to call them in errors."""

    file: str
    column: str
    unit: str
    cells: NDArray[Any]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.cells)

    def at(self, places: Any) -> "ColumnCells":
        """Gives some of the cells, by their places or a mask."""
        return replace(self, cells=self.cells[places], lines=self.lines[places])

    def where(self, place: int) -> str:
        """Names the place of a cell for a message: file, line and column."""
        return f"{self.file}, {self.unit} {self.lines[place]}, {self.column}"


def read_column(
    where: Path | str, name: str, layout: Layout | None = None, *, skip_bad: bool = False
) -> ColumnCells:
    """Reads one column of a file; ``BadInput`` where a value is missing, unless ``skip_bad``.

    A missing value is never held: nobody can tell what it would have been.
    """
    layout = layout or Layout()
    cells, lines = list[Any](), list[int]()
    with opened(where, layout.encoding) as file:
        source = blocks_in(file, layout, None)
        (place,) = source.header.places([name])
        told = source.header.told(place)
        for block in source.blocks():
            for line, record in block.records():
                try:
                    cells.append(_cell(f"{file.name}, {source.unit} {line}", told, record, place))
                    lines.append(line)
                except BadInput as error:
                    if not skip_bad:
                        raise BadInput(f"{error}; --skip-bad leaves the row out") from error
    held = np.empty(len(cells), object)
    held[:] = cells
    return ColumnCells(file.name, told, source.unit, held, np.array(lines, np.int64))


def _cell(where: str, told: str, record: Sequence[Any] | BadInput, place: int) -> Any:
    if isinstance(record, BadInput):
        raise record
    cell = record[place] if place < len(record) else None
    if is_missing(cell):
        raise BadInput(f"{where}, {told}: {MISSING}")
    return cell


def has_column(where: Path | str, name: str, layout: Layout | None = None) -> bool:
    """Says whether a file has a column of this name."""
    layout = layout or Layout()
    with opened(where, layout.encoding) as file:
        return name in blocks_in(file, layout, None).header.cells
