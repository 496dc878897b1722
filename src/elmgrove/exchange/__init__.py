"""Moving contributions between devices: a server, a broker, a folder, or one process's memory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmgrove.errors import Unauthorized, Unreachable
from elmgrove.exchange.base import Exchange
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.session import Session, connect, open_exchange

if TYPE_CHECKING:
    from elmgrove.exchange.http import HttpExchange
    from elmgrove.exchange.mqtt import MqttExchange

__all__ = [
    "Exchange",
    "FolderExchange",
    "HttpExchange",
    "MemoryExchange",
    "MqttExchange",
    "Session",
    "Unauthorized",
    "Unreachable",
    "connect",
    "open_exchange",
]


def __getattr__(name: str) -> Any:
    # What speaks HTTP or MQTT is loaded when it is asked for: httpx takes a fifth of a second and
    # paho is an extra; a folder or one process's memory needs neither.
    modules = {"HttpExchange": "http", "MqttExchange": "mqtt"}
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{modules[name]}"), name)
