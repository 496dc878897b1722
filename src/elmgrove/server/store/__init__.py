"""What the server remembers, in SQLite or in PostgreSQL."""

from elmgrove.server.store.administrators import AdministratorRow, administrator_with
from elmgrove.server.store.backup import back_up, restore
from elmgrove.server.store.chain import (
    AT_ONCE,
    OWN_CHAIN,
    SERVER,
    NoSuchFederation,
    by_administrator,
    by_device,
)
from elmgrove.server.store.database import Database, Operation, Statement, StoreUnavailable
from elmgrove.server.store.enrolment import device_with, federation_of
from elmgrove.server.store.holdings import Holdings
from elmgrove.server.store.records import (
    Change,
    DeviceRow,
    FederationRow,
    HeldRounds,
    RoundsRow,
    Snapshot,
    StoredEntry,
    StoredReply,
)
from elmgrove.server.store.store import Store, open_store
from elmgrove.server.store.tally import Tally

__all__ = [
    "AT_ONCE",
    "OWN_CHAIN",
    "SERVER",
    "AdministratorRow",
    "Change",
    "Database",
    "DeviceRow",
    "FederationRow",
    "HeldRounds",
    "Holdings",
    "NoSuchFederation",
    "Operation",
    "RoundsRow",
    "Snapshot",
    "Statement",
    "Store",
    "StoreUnavailable",
    "StoredEntry",
    "StoredReply",
    "Tally",
    "administrator_with",
    "back_up",
    "by_administrator",
    "by_device",
    "device_with",
    "federation_of",
    "open_store",
    "restore",
]
