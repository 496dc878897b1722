"""A file as blocks of records, whatever its format."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from elmgrove.errors import BadInput
from elmgrove.reading.arrays import NpyArray, ParquetTable
from elmgrove.reading.columns import Columns, Header
from elmgrove.reading.formats import JSON_LINES, NPY, PARQUET, Opened
from elmgrove.reading.layout import Layout
from elmgrove.reading.line_protocol import Measurement
from elmgrove.reading.objects import ObjectText, json_object
from elmgrove.reading.text import Cells, CsvText, Numbers


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


def blocks_in(file: Opened, layout: Layout, wanted: Sequence[str] | None) -> Blocks:
    """Gives an open file as blocks of records, whatever it is; ``wanted`` are its known columns."""
    if file.format == NPY:
        return NpyArray(file.name, file.file)
    if file.format == PARQUET:
        return ParquetTable(file.name, file.file)
    if layout.is_influx(file.name):
        return _points_in(file, layout, wanted)
    if file.format == JSON_LINES:
        return ObjectText(file.name, file.file, layout, json_object)
    return CsvText(file.name, file.file, layout, wanted)


def _points_in(file: Opened, layout: Layout, wanted: Sequence[str] | None) -> ObjectText:
    measured = Measurement(layout.measurement, lambda: list(wanted or ()))
    text = ObjectText(file.name, file.file, layout, measured)
    if measured.point is None and measured.other is not None:
        raise BadInput(
            f"{file.name}: none of the first lines is a row, as {measured.other} is none; "
            "--measurement chooses"
        )
    text.notes = measured.notes
    return text
