"""What the server remembers, in SQLite or in PostgreSQL."""

from elmgrove.server.store.database import StoreUnavailable
from elmgrove.server.store.enrolment import NoSuchFederation
from elmgrove.server.store.records import Change, DeviceRow, FederationRow, Snapshot, StoredEntry
from elmgrove.server.store.store import Store, open_store

__all__ = [
    "Change",
    "DeviceRow",
    "FederationRow",
    "NoSuchFederation",
    "Snapshot",
    "Store",
    "StoreUnavailable",
    "StoredEntry",
    "open_store",
]
