"""What the server remembers, in SQLite or in PostgreSQL."""

from elmgrove.server.store.administrators import AdministratorRow, administrator_with
from elmgrove.server.store.backup import back_up
from elmgrove.server.store.chain import (
    OWN_CHAIN,
    SERVER,
    NoSuchFederation,
    by_administrator,
    by_device,
)
from elmgrove.server.store.database import Database, Operation, Statement, StoreUnavailable
from elmgrove.server.store.enrolment import device_with, federation_of
from elmgrove.server.store.glance import (
    FLEET_STATES,
    REVOKED,
    SILENT,
    SORTS,
    STRANGE,
    UNTOLD,
    FleetPage,
    FleetRow,
    require_known,
)
from elmgrove.server.store.records import (
    Change,
    CommandRow,
    DeviceRow,
    FederationRow,
    Occurrence,
    Snapshot,
    StoredEntry,
    ToldRow,
)
from elmgrove.server.store.store import Store, open_store
from elmgrove.server.store.summaries import FORGOTTEN_AT_ONCE
from elmgrove.server.store.tally import Tally
from elmgrove.server.store.visits import VisitRow

__all__ = [
    "FLEET_STATES",
    "FORGOTTEN_AT_ONCE",
    "OWN_CHAIN",
    "REVOKED",
    "SERVER",
    "SILENT",
    "SORTS",
    "STRANGE",
    "UNTOLD",
    "AdministratorRow",
    "Change",
    "CommandRow",
    "Database",
    "DeviceRow",
    "FederationRow",
    "FleetPage",
    "FleetRow",
    "NoSuchFederation",
    "Occurrence",
    "Operation",
    "Snapshot",
    "Statement",
    "Store",
    "StoreUnavailable",
    "StoredEntry",
    "Tally",
    "ToldRow",
    "VisitRow",
    "administrator_with",
    "back_up",
    "by_administrator",
    "by_device",
    "device_with",
    "federation_of",
    "open_store",
    "require_known",
]
