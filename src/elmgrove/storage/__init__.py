"""Reading and writing disks: files that are written whole or not at all, and tables of rows."""

from elmgrove.storage.disk import InUse, load, locked, save, write
from elmgrove.storage.tables import NOT_TEXT, Columns, Head, Table, read_table

__all__ = [
    "NOT_TEXT",
    "Columns",
    "Head",
    "InUse",
    "Table",
    "load",
    "locked",
    "read_table",
    "save",
    "write",
]
