"""Rows from files, lines and standard input: what is in them, which columns, when, and what not."""

from elmgrove.reading.cells import number
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import read_table

__all__ = ["Layout", "number", "read_table"]
