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

#: What speaks HTTP or MQTT, by module: loaded when asked for, since httpx takes a fifth of a second
#: and paho is an extra; a folder or one process's memory needs neither.
_OVER_A_LINE = {"HttpExchange": "http", "MqttExchange": "mqtt"}


def __getattr__(name: str) -> Any:
    if name not in _OVER_A_LINE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OVER_A_LINE[name]}"), name)
