"""Reading and writing disks: files that are written whole or not at all, and sealed bytes."""

from elmgrove.storage.disk import load, save, write
from elmgrove.storage.sealed import seal, unseal

__all__ = ["load", "save", "seal", "unseal", "write"]
