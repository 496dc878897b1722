"""A fork server: starts the command as real processes, without loading all modules each time.

Loading them takes a second of a core, which most tests of a process would spend on nothing else.
One process loads them once, and each command is a fork of it, with files, folder, environment and
session of its own. It ends with the tests.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from elmgrove.algebra.linalg import one_thread

COMMAND = "from elmgrove.cli import main; main()"
_STATUS = 4  # bytes of what ``wait`` says of a child
_LONGEST = 2**20


class Command:
    """A command that runs as a process of its own; used like ``subprocess.Popen``."""

    def __init__(self, pid: int, status: int, stdin: IO[bytes] | None) -> None:
        self.pid = pid
        self.stdin = stdin
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Gives the exit code, or None as long as it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the exit code."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as waiting:
                waiting.register(self._status, selectors.EVENT_READ)
                if waiting.select(timeout):
                    said = os.read(self._status, _STATUS)
                    self.returncode = os.waitstatus_to_exitcode(int.from_bytes(said))
                    os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills it."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """Starts commands; it is a process itself, and ``the_fork_server`` is one for all tests."""

    def __init__(self) -> None:
        self._asking, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # An environment is one message.
        self._asking.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
        code = f"import sys; sys.path[:0] = {sys.path!r}; from support import fork_server;"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"{code} fork_server.run({theirs.fileno()})"],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "COLUMNS": "200"},
            )

    def begin(
        self,
        words: list[str],
        folder: Path,
        environment: dict[str, str],
        stdin: int,
        out: IO[bytes],
        err: IO[bytes],
        code: str = COMMAND,
    ) -> Command:
        """Starts ``elmgrove`` with these words; ``stdin`` is ``PIPE`` or ``DEVNULL``.

        Other code runs as ``python -c`` would run it.
        """
        read, write = os.open(os.devnull, os.O_RDONLY), -1
        if stdin == subprocess.PIPE:
            os.close(read)
            read, write = os.pipe()
        status, told = os.pipe()
        asked = json.dumps([code, words, str(folder), environment]).encode()
        socket.send_fds(self._asking, [asked], [read, out.fileno(), err.fileno(), told])
        pid = int.from_bytes(self._asking.recv(_STATUS))
        for theirs in (read, told):
            os.close(theirs)
        return Command(pid, status, None if write < 0 else os.fdopen(write, "wb"))

    def fileno(self) -> int:
        """Gives the socket by which programs that inherit it may ask as well (``fork_client``)."""
        return self._asking.fileno()

    @contextmanager
    def piped(self, words: list[str]) -> Iterator[tuple[Command, IO[bytes]]]:
        """Starts a command in this folder, of which what it prints is read as it comes."""
        read, write = os.pipe()
        with os.fdopen(read, "rb") as said, Path("piped.log").open("ab") as log:
            with os.fdopen(write, "wb") as out:
                here, environment = Path.cwd(), dict(os.environ)
                started = self.begin(words, here, environment, subprocess.DEVNULL, out, log)
            yield started, said

    def close(self) -> None:
        """Ends it."""
        self._asking.close()
        self._process.wait()


@cache
def the_fork_server() -> ForkServer:
    """Gives the one of this process, which ends with it."""
    made = ForkServer()
    atexit.register(made.close)
    return made


def run(handle: int) -> None:
    """Forks a command for each that is asked for, until nobody can ask any more."""
    _load()
    asked = socket.socket(fileno=handle)
    running: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as waiting:
        waiting.register(asked, selectors.EVENT_READ)
        while True:
            for found, _ in waiting.select():
                if found.fd in running:
                    pid, told = running.pop(found.fd)
                    waiting.unregister(found.fd)
                    os.write(told, os.waitpid(pid, 0)[1].to_bytes(_STATUS))
                    os.close(told)
                    os.close(found.fd)
                    continue
                message, handles, *_ = socket.recv_fds(asked, _LONGEST, 4)
                if not message:
                    return
                pid = os.fork()
                if pid == 0:
                    # Else they would close what is another's by then, when this fork ends.
                    waiting.close()
                    asked.close()
                    _become(handles, *json.loads(message))
                    return
                asked.send(pid.to_bytes(_STATUS))
                for given in handles[:3]:
                    os.close(given)
                ended = os.pidfd_open(pid)
                running[ended] = (pid, handles[3])
                waiting.register(ended, selectors.EVENT_READ)


def _load() -> None:
    """What the commands and the servers that tests start as processes need."""
    chapters = ("cli", "detector", "device", "exchange", "reading", "server")
    for name in (f"elmgrove.{chapter}" for chapter in chapters):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            if not module.name.endswith(("demo", "federate", "flower")):
                importlib.import_module(module.name)
    importlib.import_module("httpx")
    with one_thread:  # which looks for the libraries at first
        pass
    # A fork neither looks through all this for garbage nor takes it apart when it ends.
    gc.freeze()


def _become(handles: list[int], code: str, words: list[str], folder: str, environment: Any) -> None:
    """Makes this fork the command, and runs it to its end: ``SystemExit`` ends the process."""
    os.setsid()
    for place, given in enumerate(handles[:3]):
        os.dup2(given, place)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    sys.argv = ["elmgrove", *words]
    exec(code, {"__name__": "__main__"})
