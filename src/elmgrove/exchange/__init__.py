"""Moving contributions between devices: a server, a broker, a folder, or one process's memory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmgrove.exchange.backoff import Backoff
from elmgrove.exchange.base import (
    Exchange,
    Listing,
    SyncReport,
    Tls,
    Unauthorized,
    Unreachable,
)
from elmgrove.exchange.broker_address import BrokerAddress, Message, is_at_broker
from elmgrove.exchange.connection import connect, keyfile, open_exchange
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.responses import Fields, is_loopback, plain
from elmgrove.exchange.session import Incoming, Outgoing, Session

if TYPE_CHECKING:
    from elmgrove.exchange.broker import Broker
    from elmgrove.exchange.http import HttpExchange
    from elmgrove.exchange.http_client import client, post, request
    from elmgrove.exchange.mqtt import MqttExchange

__all__ = [
    "Backoff",
    "Broker",
    "BrokerAddress",
    "Exchange",
    "Fields",
    "FolderExchange",
    "HttpExchange",
    "Incoming",
    "Listing",
    "MemoryExchange",
    "Message",
    "MqttExchange",
    "Outgoing",
    "Session",
    "SyncReport",
    "Tls",
    "Unauthorized",
    "Unreachable",
    "client",
    "connect",
    "is_at_broker",
    "is_loopback",
    "keyfile",
    "open_exchange",
    "plain",
    "post",
    "request",
]

#: What speaks HTTP or MQTT, by module: loaded when asked for, since httpx takes a fifth of a second
#: and paho is an extra; a folder or one process's memory needs neither.
_OVER_A_LINE = {
    "Broker": "broker",
    "HttpExchange": "http",
    "MqttExchange": "mqtt",
    "client": "http_client",
    "post": "http_client",
    "request": "http_client",
}


def __getattr__(name: str) -> Any:
    if name not in _OVER_A_LINE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OVER_A_LINE[name]}"), name)
