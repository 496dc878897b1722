"""A file as blocks of records, whatever its format."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from elmgrove.reading.arrays import NpyArray, ParquetTable
from elmgrove.reading.columns import Columns, Header
from elmgrove.reading.formats import JSON_LINES, NPY, PARQUET, Opened
from elmgrove.reading.layout import Layout
from elmgrove.reading.text import Cells, CsvText, JsonText, Numbers


class RecordBlock(Protocol):
    """Some records of a file."""

    def numbers(self, columns: Columns, decimal: str) -> Numbers | None:
        """Reads all at once; None where that is not sure to be right."""
        ...

    def records(self) -> Iterator[tuple[int, Cells]]:
        """Gives the cells of each record, or why it has none, with its line."""
        ...


class Blocks(Protocol):
    """A file of records: its header, and the records in blocks, as often as they are asked for."""

    unit: str
    header: Header
    notes: list[str]

    def blocks(self) -> Iterator[RecordBlock]:
        """Gives all records, from the first."""
        ...


def blocks_in(file: Opened, layout: Layout, features: Sequence[str] | None) -> Blocks:
    """Gives an open file as blocks of records, whatever it is."""
    if file.format == NPY:
        return NpyArray(file.name, file.file)
    if file.format == PARQUET:
        return ParquetTable(file.name, file.file)
    if file.format == JSON_LINES:
        return JsonText(file.name, file.file, layout)
    return CsvText(file.name, file.file, layout, features)
