"""Ports that nobody else takes between the moment a test picks one and the moment it is used."""

import fcntl
import os
import socket
import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import IO

#: Below those that the system gives to connections and to whoever asks for any port.
FIRST, LAST = 20_000, 32_000
#: Held until this process ends, so that no other test process picks the same.
_held: list[IO[bytes]] = []
_next = count(os.getpid() * 97)


def free_port() -> int:
    """A port of this machine that this process alone may use."""
    folder = Path(tempfile.gettempdir()) / f"elmgrove-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for number in _next:
        port = FIRST + number % (LAST - FIRST)
        if _locked(folder / str(port)) and _unused(port):
            return port
    raise AssertionError("unreachable")


def _locked(path: Path) -> bool:
    lock = path.open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return False
    _held.append(lock)
    return True


def _unused(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
