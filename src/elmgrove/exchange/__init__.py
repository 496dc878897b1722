"""Moving contributions between devices: through a server, a folder, or one process's memory."""

from elmgrove.exchange.base import Exchange, Listing, Unauthorized, Unreachable
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.session import Report, Session, connect

__all__ = [
    "Exchange",
    "FolderExchange",
    "Listing",
    "MemoryExchange",
    "Report",
    "Session",
    "Unauthorized",
    "Unreachable",
    "connect",
]
