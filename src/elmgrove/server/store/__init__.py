"""What the server remembers, in SQLite or in PostgreSQL."""

from elmgrove.server.store.records import Change, DeviceRow, FederationRow, StoredEntry
from elmgrove.server.store.statements import StoreUnavailable
from elmgrove.server.store.store import Store, open_store

__all__ = [
    "Change",
    "DeviceRow",
    "FederationRow",
    "Store",
    "StoreUnavailable",
    "StoredEntry",
    "open_store",
]
