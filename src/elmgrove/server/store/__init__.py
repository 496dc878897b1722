"""What the server remembers, in SQLite or in PostgreSQL."""

from elmgrove.server.store.backup import back_up, restore
from elmgrove.server.store.database import StoreUnavailable
from elmgrove.server.store.enrolment import NoSuchFederation
from elmgrove.server.store.holdings import Holdings
from elmgrove.server.store.records import Change, DeviceRow, FederationRow, Snapshot, StoredEntry
from elmgrove.server.store.store import Store, open_store

__all__ = [
    "Change",
    "DeviceRow",
    "FederationRow",
    "Holdings",
    "NoSuchFederation",
    "Snapshot",
    "Store",
    "StoreUnavailable",
    "StoredEntry",
    "back_up",
    "open_store",
    "restore",
]
