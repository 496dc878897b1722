"""Rows from files, lines and standard input: what is in them, which columns, when, and what not."""

from elmgrove.reading.columns import Categories, Record
from elmgrove.reading.formats import NOT_TEXT, STANDARD_INPUT, format_of
from elmgrove.reading.gaps import Gaps
from elmgrove.reading.layout import HOLD, REFUSE, Layout
from elmgrove.reading.line_reader import LineReader, WrongColumns
from elmgrove.reading.spool import SpooledRows, StoredRows, blocks_of
from elmgrove.reading.table import Table, read_table
from elmgrove.reading.times import Clock
from elmgrove.reading.times import told as time_told

__all__ = [
    "HOLD",
    "NOT_TEXT",
    "REFUSE",
    "STANDARD_INPUT",
    "Categories",
    "Clock",
    "Gaps",
    "Layout",
    "LineReader",
    "Record",
    "SpooledRows",
    "StoredRows",
    "Table",
    "WrongColumns",
    "blocks_of",
    "format_of",
    "read_table",
    "time_told",
]
