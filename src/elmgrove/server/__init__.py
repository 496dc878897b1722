"""The exchange service: it keeps what devices publish and hands out sums of it."""

from elmgrove.server.app import (
    MAX_BODY,
    listen,
    make_app,
    require_certificate_with_key,
    require_store,
)
from elmgrove.server.limits import Limits
from elmgrove.server.secrets import hashed, load_admin_token
from elmgrove.server.store import (
    DeviceRow,
    FederationRow,
    NoSuchFederation,
    Store,
    StoredEntry,
    StoreUnavailable,
    back_up,
    open_store,
)

__all__ = [
    "MAX_BODY",
    "DeviceRow",
    "FederationRow",
    "Limits",
    "NoSuchFederation",
    "Store",
    "StoreUnavailable",
    "StoredEntry",
    "back_up",
    "hashed",
    "listen",
    "load_admin_token",
    "make_app",
    "open_store",
    "require_certificate_with_key",
    "require_store",
]
