"""Reading and writing disks: files that are written whole or not at all."""

from elmgrove.storage.disk import load, locked, save, write

__all__ = [
    "load",
    "locked",
    "save",
    "write",
]
