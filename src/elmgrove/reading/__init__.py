"""Rows from files, lines and standard input: what is in them, which columns, when, and what not."""

from elmgrove.reading.arrays import NpyArray, ParquetTable, opened_table
from elmgrove.reading.cells import boolean, is_missing, number
from elmgrove.reading.columns import (
    Header,
    Record,
    doubts_about,
    is_index,
    is_label,
    is_time,
    some_of,
)
from elmgrove.reading.formats import (
    NOT_TEXT,
    NPY,
    PARQUET,
    STANDARD_INPUT,
    SpooledRows,
    StoredRows,
    blocks_of,
    format_of,
)
from elmgrove.reading.joined import read_folder
from elmgrove.reading.labels import read_label_spans, within
from elmgrove.reading.layout import HOLD, INFLUX, LAYOUT, REFUSE, Layout
from elmgrove.reading.line_protocol import Point
from elmgrove.reading.lines import LineReader, WrongColumns
from elmgrove.reading.one_column import ColumnCells, has_column, read_column
from elmgrove.reading.table import Blocks, Table, found_words, read_table, words_in
from elmgrove.reading.times import Clock, Gaps, stated_time
from elmgrove.reading.times import told as time_told

__all__ = [
    "HOLD",
    "INFLUX",
    "LAYOUT",
    "NOT_TEXT",
    "NPY",
    "PARQUET",
    "REFUSE",
    "STANDARD_INPUT",
    "Blocks",
    "Clock",
    "ColumnCells",
    "Gaps",
    "Header",
    "Layout",
    "LineReader",
    "NpyArray",
    "ParquetTable",
    "Point",
    "Record",
    "SpooledRows",
    "StoredRows",
    "Table",
    "WrongColumns",
    "blocks_of",
    "boolean",
    "doubts_about",
    "format_of",
    "found_words",
    "has_column",
    "is_index",
    "is_label",
    "is_missing",
    "is_time",
    "number",
    "opened_table",
    "read_column",
    "read_folder",
    "read_label_spans",
    "read_table",
    "some_of",
    "stated_time",
    "time_told",
    "within",
    "words_in",
]
