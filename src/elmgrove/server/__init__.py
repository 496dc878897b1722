"""The exchange service: it keeps what devices publish and hands out sums of it."""

from elmgrove.server.auth import hashed
from elmgrove.server.store import DeviceRow, FederationRow, Store, StoredEntry, open_store

__all__ = [
    "DeviceRow",
    "FederationRow",
    "Store",
    "StoredEntry",
    "hashed",
    "open_store",
]
