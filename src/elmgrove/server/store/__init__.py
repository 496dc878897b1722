"""What the server remembers, in SQLite or in PostgreSQL."""

from elmgrove.server.store.administrators import AdministratorRow
from elmgrove.server.store.backup import back_up, restore
from elmgrove.server.store.chain import (
    AT_ONCE,
    OWN_CHAIN,
    SERVER,
    NoSuchFederation,
    by_administrator,
    by_device,
)
from elmgrove.server.store.database import StoreUnavailable
from elmgrove.server.store.holdings import Holdings
from elmgrove.server.store.records import (
    Change,
    DeviceRow,
    FederationRow,
    Key,
    Snapshot,
    StoredEntry,
)
from elmgrove.server.store.store import Store, open_store

__all__ = [
    "AT_ONCE",
    "OWN_CHAIN",
    "SERVER",
    "AdministratorRow",
    "Change",
    "DeviceRow",
    "FederationRow",
    "Holdings",
    "Key",
    "NoSuchFederation",
    "Snapshot",
    "Store",
    "StoreUnavailable",
    "StoredEntry",
    "back_up",
    "by_administrator",
    "by_device",
    "open_store",
    "restore",
]
