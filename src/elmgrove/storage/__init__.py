"""Reading and writing disks: files that are written whole or not at all, and sealed bytes."""

from elmgrove.storage.disk import (
    FilePath,
    InUse,
    Lock,
    as_path,
    load,
    locked,
    remove_leftovers,
    save,
    takes_nothing,
    write,
    written,
)
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
    "Lock",
    "as_path",
    "format_of",
    "head_of",
    "load",
    "locked",
    "remove_leftovers",
    "require_written_as",
    "save",
    "seal",
    "takes_nothing",
    "unpacking",
    "unseal",
    "write",
    "written",
]
