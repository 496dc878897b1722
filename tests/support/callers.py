"""Requests to a running agent through its local socket."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from elmgrove.device.control import socket_places
from support.serving import wait_until


def socket_of(state: Path) -> Path | None:
    """Where the agent that has this state listens; None if there is no socket."""
    return next((place for place in socket_places(state) if place.is_socket()), None)


@contextmanager
def calling(state: Path) -> Iterator[httpx.Client]:
    """A connection to the agent that has this state, once it listens."""
    wait_until(lambda: socket_of(state) is not None)
    through = httpx.HTTPTransport(uds=str(socket_of(state)))
    with httpx.Client(transport=through, base_url="http://agent", timeout=120) as client:
        yield client


def asked(state: Path, action: str) -> dict[str, Any]:
    """What the agent says of itself."""
    with calling(state) as client:
        answer = client.get(f"/v1/{action}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def posted(state: Path, action: str, **words: Any) -> httpx.Response:
    """What the agent answers to something that changes it."""
    with calling(state) as client:
        return client.post(f"/v1/{action}", json=words)
