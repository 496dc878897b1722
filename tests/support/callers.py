"""Requests to a running agent through its local socket."""

import json
import socket
from pathlib import Path
from typing import Any

from elmgrove.device.control import socket_places
from support.serving import wait_until


def socket_of(state: Path) -> Path | None:
    """Where the agent that has this state listens; None if there is no socket."""
    return next((place for place in socket_places(state) if place.is_socket()), None)


def said(state: Path, line: bytes) -> dict[str, Any]:
    """What the agent that has this state answers to a line, once it listens."""
    wait_until(lambda: socket_of(state) is not None)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(str(socket_of(state)))
        agent.settimeout(120)
        agent.sendall(line)
        agent.shutdown(socket.SHUT_WR)
        with agent.makefile("rb") as file:
            found: dict[str, Any] = json.loads(file.readline())
    return found


def asked(state: Path, action: str, **words: Any) -> dict[str, Any]:
    """What the agent answers to an action."""
    return said(state, json.dumps({"action": action, **words}).encode() + b"\n")
