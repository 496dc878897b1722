"""What the server remembers, in SQLite or in PostgreSQL."""

from elmgrove.server.store.administrators import AdministratorRow
from elmgrove.server.store.chain import AT_ONCE, OWN_CHAIN, SERVER, by_administrator, by_device
from elmgrove.server.store.database import StoreUnavailable
from elmgrove.server.store.enrolment import NoSuchFederation
from elmgrove.server.store.records import Change, DeviceRow, FederationRow, Snapshot, StoredEntry
from elmgrove.server.store.store import Store, open_store

__all__ = [
    "AT_ONCE",
    "OWN_CHAIN",
    "SERVER",
    "AdministratorRow",
    "Change",
    "DeviceRow",
    "FederationRow",
    "NoSuchFederation",
    "Snapshot",
    "Store",
    "StoreUnavailable",
    "StoredEntry",
    "by_administrator",
    "by_device",
    "open_store",
]
