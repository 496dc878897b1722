"""Reading and writing disks: files that are written whole or not at all, and sealed bytes."""

from elmgrove.storage.disk import FilePath, InUse, as_path, load, locked, save, write
from elmgrove.storage.sealed import (
    format_of,
    head_of,
    require_written_as,
    seal,
    unpacking,
    unseal,
)

__all__ = [
    "FilePath",
    "InUse",
    "as_path",
    "format_of",
    "head_of",
    "load",
    "locked",
    "require_written_as",
    "save",
    "seal",
    "unpacking",
    "unseal",
    "write",
]
