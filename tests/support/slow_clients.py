"""Callers that mean no good: they send half a request, or do not read what they asked for."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from elmgrove import Basis, HiddenLayer
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from support.serving import Federation, Server, fan_evidence

HALF = b"GET /v1/federations HTTP/1.1\r\nHost: x\r\nX-Later: "
#: A contribution of so many units takes a megabyte.
LAYER = HiddenLayer(inputs=6, units=500, activation="sigmoid", seed=3)
SAID = fan_evidence(np.random.default_rng(1).normal(size=(5, LAYER.inputs)), LAYER)


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many open files as this process may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Wires(ExitStack):
    """Connections to a server as a socket has them, all closed at the end."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def dial(self, sent: bytes = b"", buffer: int | None = None) -> socket.socket:
        """Connects and sends something."""
        wire = self.enter_context(socket.socket())
        wire.settimeout(60)
        if buffer is not None:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        parts = urlsplit(self._server.base)
        wire.connect((parts.hostname, parts.port))
        wire.sendall(sent)
        return wire

    def ask(self, path: str, secret: str, buffer: int | None = None) -> socket.socket:
        """Sends a whole request, and reads nothing."""
        return self.dial(asking(path, secret), buffer)


def asking(path: str, secret: str) -> bytes:
    """A whole request."""
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n\r\n".encode()


def is_closed(wire: socket.socket) -> bool:
    """Whether the server closed it, whatever it sent before."""
    wire.setblocking(False)
    try:
        while wire.recv(2**20):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    finally:
        wire.settimeout(60)
    return True


class Large(Federation):
    """A federation whose contributions are large, and the tokens of some who may read them all."""

    readers: list[str]

    def publish(self, name: str, epoch: int) -> httpx.Response:
        return self.put(Contribution(name, epoch, (SAID,)))


def large_federation(server: Server, devices: int) -> Large:
    """One of which all contributions together are more than a connection holds."""
    made = server.found(Charter("large", Basis(LAYER, LAYER.inputs)))
    large = Large(server, made.charter, made.token)
    for number in range(devices):
        large.enrol(f"large-{number}")
        assert large.publish(f"large-{number}", 5).status_code == 200
    large.readers = [server.administrator(f"reader-{number}", "look") for number in range(5)]
    return large
