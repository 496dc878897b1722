"""Reading and writing disks: files that are written whole or not at all."""

from elmgrove.storage.disk import InUse, load, locked, save, write

__all__ = [
    "InUse",
    "load",
    "locked",
    "save",
    "write",
]
