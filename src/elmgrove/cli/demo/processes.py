"""The demo's processes: a real server and real agents, all of which end with the demo."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Self

from elmgrove.errors import ElmgroveError

COMMAND = (sys.executable, "-m", "elmgrove")
#: Seconds after which something that should have happened is taken to have failed.
PATIENCE = 120.0


class DemoProcesses:
    """Starts ``elmgrove`` commands in a folder, each with a log, and stops all at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._starting = False
        self._signal = 0

    def start(self, name: str, *arguments: str, **environment: str) -> None:
        """Starts ``elmgrove`` with these arguments; its output goes to NAME.log."""
        with (self._folder / f"{name}.log").open("wb") as log, self._undisturbed():
            self._running[name] = subprocess.Popen(
                [*COMMAND, *arguments],
                cwd=self._folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def stop(self, name: str) -> None:
        """Asks a process to end (SIGTERM) and waits until it has."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        if code not in (0, -signal.SIGTERM):
            raise ElmgroveError(f"{name} ended with {code}: {self._log(name)}")

    def wait(self, what: str, done: Callable[[], bool]) -> None:
        """Waits until ``done`` says so; raises ``ElmgroveError`` if that takes too long."""
        until = time.monotonic() + PATIENCE
        while not done():
            self.require_running()
            if time.monotonic() > until:
                raise ElmgroveError(f"gave up after {PATIENCE:g} s of waiting until {what}")
            time.sleep(0.05)

    def require_running(self) -> None:
        """Raises ``ElmgroveError`` with the end of its log if a process has ended by itself."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise ElmgroveError(f"{name} ended early: {self._log(name)}")

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Delays a signal: a process that is not on the list yet would outlive the demo."""
        self._starting = True
        yield
        self._starting = False
        if self._signal:
            sys.exit(128 + self._signal)

    def _ended_by(self, number: int, _: object) -> None:
        self._signal = number
        if not self._starting:
            sys.exit(128 + number)

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ended_by)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class DemoServer:
    """``elmgrove serve`` on a free port of this machine; ``wait`` says when it can be asked."""

    def __init__(self, processes: DemoProcesses) -> None:
        self._processes = processes
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._host = f"127.0.0.1:{port}"
        self.url = f"http://{self._host}"
        #: Where the fleet can be looked at.
        self.dashboard = f"{self.url}/ui/"
        self.admin_token = secrets.token_urlsafe(32)
        processes.start(
            "server",
            *("serve", "--store", "fleet.db", "--port", str(port), "--log-level", "warning"),
            ELMGROVE_ADMIN_TOKEN=self.admin_token,
        )

    def wait(self) -> Self:
        """Waits until the server answers."""
        self._processes.wait("the server answers", self._ready)
        return self

    def _ready(self) -> bool:
        connection = HTTPConnection(self._host, timeout=5.0)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()
