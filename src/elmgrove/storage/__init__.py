"""Reading and writing disks: files that are whole or not there, their bytes, tables of rows."""

from elmgrove.storage.disk import FilePath, as_path, load, locked, save, write
from elmgrove.storage.sealed import (
    format_of,
    head_of,
    require_written_as,
    seal,
    unpacking,
    unseal,
)
from elmgrove.storage.tables import NOT_TEXT, Columns, Head, Table, read_table

__all__ = [
    "NOT_TEXT",
    "Columns",
    "FilePath",
    "Head",
    "Table",
    "as_path",
    "format_of",
    "head_of",
    "load",
    "locked",
    "read_table",
    "require_written_as",
    "save",
    "seal",
    "unpacking",
    "unseal",
    "write",
]
