"""The server of a soak: killed, started again and asked; and its store, read past it."""

import socket
import sqlite3
import time
from contextlib import closing
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from benchmarks.soak.process import fork, run_server
from elmgrove.federation.charter import Charter

ADMIN = "elm-admin-of-the-soak"
_PATIENCE = 120.0


class Stored(NamedTuple):
    """The newest entry of a device: its epoch, and its bytes; none where it left."""

    epoch: int
    blob: bytes | None


class Server:
    """A server on a port of this machine, with its store in a file."""

    def __init__(self, store: Path, log: Path) -> None:
        self.store = store
        self.kills = self.ended = 0
        self._wanted = self._excused = False
        self._log = log
        self._process: BaseProcess | None = None
        # Bound as long as the soak lasts: nobody else gets the port while the server is down.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self.port}"
        headers = {"Authorization": f"Bearer {ADMIN}"}
        self._http = httpx.Client(base_url=self.base, headers=headers, timeout=60.0)

    @property
    def port(self) -> int:
        """The port, the same after each restart."""
        return int(self._reserved.getsockname()[1])

    @property
    def pid(self) -> int | None:
        """The process; None while there is none."""
        alive = self._process is not None and self._process.is_alive()
        return self._process.pid if alive and self._process is not None else None

    def start(self) -> None:
        """Starts it, if it does not run; it may not listen yet."""
        self._wanted = True
        if self.pid is None:
            self._process = fork(run_server, self._log, str(self.store), ADMIN, self.port)

    def tend(self, *, excused: bool) -> None:
        """Starts it again if it ended by itself, which counts unless it is or was ``excused``."""
        if self._wanted and self.pid is None:
            self.ended += not (excused or self._excused)
            self.start()
        self._excused = excused

    def kill(self) -> None:
        """Kills it in the midst of whatever it does."""
        if self._process is not None:
            self.kills += 1
            self._wanted = False
            self._process.kill()
            self._process.join()
            self._process = None

    def stop(self) -> None:
        """Ends it as a service is ended."""
        self._wanted = False
        if self._process is not None:
            self._process.terminate()
            self._process.join(_PATIENCE)
        self._http.close()
        self._reserved.close()

    def is_ready(self) -> bool:
        """Whether it answers, and its store as well."""
        try:
            return self._http.get("/ready").status_code == 200
        except httpx.TransportError:
            return False

    def wait(self) -> None:
        """Waits until it answers, and starts it where it does not run."""
        self.start()
        end = time.monotonic() + _PATIENCE
        while not self.is_ready():
            if time.monotonic() > end:
                raise TimeoutError(f"the server was not ready in time; {self._log} says more")
            self.tend(excused=False)
            time.sleep(0.1)

    def found(self, charter: Charter) -> str:
        """Makes the federation, and gives its token."""
        answer = self._http.post("/v1/federations", json=charter.fields)
        answer.raise_for_status()
        return str(answer.json()["token"])

    def ask(self, path: str, **asked: Any) -> bytes:
        """Asks as the administrator, again as long as it is not ready."""
        for _ in range(100):
            try:
                answer = self._http.get(path, params=asked)
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            if answer.status_code in (429, 503):
                time.sleep(0.1)
                continue
            answer.raise_for_status()
            return answer.content
        raise TimeoutError(f"{path} was not answered; {self._log} says more")

    def stored(self) -> dict[str, Stored]:
        """Reads the newest entry of each device out of the store itself, past the server."""
        newest = (
            "SELECT origin, epoch, blob FROM entry LEFT JOIN content USING (federation, revision) "
            "WHERE superseded IS NULL"
        )
        with closing(sqlite3.connect(self.store, timeout=60.0)) as store:
            return {origin: Stored(epoch, blob) for origin, epoch, blob in store.execute(newest)}

    def revision(self) -> int:
        """Reads how often anything was stored."""
        with closing(sqlite3.connect(self.store, timeout=60.0)) as store:
            return int(store.execute("SELECT coalesce(max(revision), 0) FROM entry").fetchone()[0])
