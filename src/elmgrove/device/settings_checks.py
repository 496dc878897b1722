"""Checks of settings: of a few words, within limits, and who may come in where one listens."""

from collections.abc import Mapping, Sequence
from typing import Any

from elmgrove.device.topics import RowTopics
from elmgrove.errors import BadInput
from elmgrove.exchange import BrokerAddress, is_at_broker

_NOT_NEGATIVE = (
    *("sync_seconds", "sync_rows", "rotate_key_days"),
    *("units", "increment", "mqtt_seconds"),
)
_ABOVE_0 = ("save_rows", "start_rows", "save_seconds")


def require_choice(setting: str, value: str, known: Sequence[str]) -> None:
    """Raises ``BadInput`` unless a setting is one of those known."""
    if value not in known:
        raise BadInput(f"{setting}: {', '.join(known[:-1])} or {known[-1]}, not {value!r}")


def require_limits(settings: Mapping[str, Any]) -> None:
    """Raises ``BadInput`` if a number is below what it may be."""
    for name in _NOT_NEGATIVE:
        if not settings[name] >= 0:
            raise BadInput(f"{name} can't be negative")
    for name in _ABOVE_0:
        if not settings[name] > 0:
            raise BadInput(f"{name} must be above 0")


def require_patterns(patterns: str) -> None:
    """Raises ``BadInput`` unless this is a number of patterns, or ``auto``."""
    if patterns != "auto" and not (patterns.isdecimal() and int(patterns)):
        raise BadInput(f"patterns: auto or a number from 1 on, not {patterns!r}")


def require_guarded(address: str, control_token: str) -> None:
    """Raises ``BadInput`` unless it is clear where one listens, and who may ask and tell."""
    if not _is_address(address):
        raise BadInput(f"listen: host:port, like 127.0.0.1:8471, not {address!r}")
    if not control_token:
        raise BadInput("listen: nobody could ask anything there; set control_token as well")


def require_metrics_address(address: str) -> None:
    """Raises ``BadInput`` unless metrics can be shown there, or nowhere."""
    if address and not _is_address(address):
        raise BadInput(f"metrics: host:port, like 127.0.0.1:9190, not {address!r}")


def require_source(source: str, pattern: str) -> None:
    """Raises ``BadInput`` unless rows can come from there, if that is a broker."""
    if is_at_broker(source):
        RowTopics.of(source, pattern)


def require_sink(mqtt: str, home_assistant: str) -> None:
    """Raises ``BadInput`` unless one can publish under these topics."""
    for setting, topic in (
        ("mqtt", BrokerAddress.parsed(mqtt).topic),
        ("home_assistant", home_assistant),
    ):
        if {*topic} & {"+", "#"}:
            raise BadInput(f"{setting}: one publishes under a topic without + and #, not {topic!r}")


def _is_address(text: str) -> bool:
    port = text.rpartition(":")[2]
    return port.isdecimal() and int(port) < 2**16 and ":" in text
