"""The control of a running agent: actions asked of it from outside, done by its own thread."""

import hashlib
import logging
import os
import queue
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Self

from elmgrove.detector.events import json_when
from elmgrove.device.actions import ACTIONS, COMMAND_LINE, DRY_RUN, MQTT, perform
from elmgrove.device.http_server import HttpServer, Request, Response
from elmgrove.device.settings import Settings
from elmgrove.errors import ElmgroveError, InconsistentState, Problem
from elmgrove.federation.member import Member

log = logging.getLogger("elmgrove.device")

#: What the path of each action begins with.
CONTROL_ROOT = "/v1/"
#: Seconds that a request waits for its turn: an agent answers between two rows.
TURN = 30.0
#: The header by which a command says which state it means: a hash of the state's path.
STATE_HEADER = "Elmgrove-State"


class Control:
    """Answers requests to an agent: its status at any time, all else between two rows.

    Requests come in threads of their own, and wait here until the agent's thread calls ``step``. A
    change is saved before it is answered: what was acknowledged survives whatever happens next, and
    what can't be saved is not done.
    """

    def __init__(self, settings: Settings) -> None:
        self._asked: queue.SimpleQueue[tuple[Future[Any], str, Mapping[str, Any], str]]
        self._asked = queue.SimpleQueue()
        since = json_when(float(round(time.time())))
        self._agent = {"pid": os.getpid(), "since": since, "source": settings.source}
        #: What the agent waits for before it can begin; None once it has begun.
        self.waits_for: str | None = "its first rows"
        self._ended = False
        self._socket = LocalSocket(settings.path, self.answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._socket.close()

    def answer(self, request: Request) -> Response:
        """Answers a request at the local socket, in its thread; raises ``Problem``."""
        name = request.path.removeprefix(CONTROL_ROOT)
        if not request.path.startswith(CONTROL_ROOT) or name not in ACTIONS:
            raise Problem("not-found", f"{CONTROL_ROOT} has {', '.join(ACTIONS)}")
        method = "POST" if ACTIONS[name].changes else "GET"
        if request.method != method:
            raise Problem("method-not-allowed", f"{method} it")
        asked = request.json() if ACTIONS[name].changes else {}
        return Response.of(self.ask(name, asked, COMMAND_LINE))

    def ask(self, name: str, asked: Mapping[str, Any], by: str = MQTT) -> dict[str, Any]:
        """Asks for an action and waits for its turn; raises ``Problem``."""
        if self.waits_for is None:
            return self._answered(name, asked, by)
        if name != "status":
            raise Problem("busy", f"the agent has not begun: it waits for {self.waits_for}")
        return {"agent": {**self._agent, "waits_for": self.waits_for}}

    def step(
        self,
        member: Member,
        saved: Callable[[Member], AbstractContextManager[None]],
        live: Callable[[], dict[str, Any]],
    ) -> None:
        """Does what was asked, in the agent's thread; quick if there is nothing.

        Inside ``saved`` a member is on disk, and becomes the state if all goes well. ``live``
        notes in the member what its status shows, and returns what only an agent knows.
        """
        while not self._asked.empty():
            future, name, asked, by = self._asked.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                known = live()
                said = perform(member, name, asked, saved, by=by)
                if ACTIONS[name].changes and not said[DRY_RUN]:
                    log.info("%s, asked by %s: %s", name, by, " ".join(said["said"]))
                if name == "status":
                    said["agent"] = {**self._agent, **known}
            except ElmgroveError as error:
                future.set_exception(Problem("refused", str(error)))
            except OSError as error:
                reason = f"{error.filename}: {error.strerror}; make room for it, and ask again"
                future.set_exception(Problem("not-saved", reason))
            except InconsistentState as error:
                # The agent ends, and its state is what it was before.
                future.set_exception(error)
                raise
            except Exception as error:  # it failed on a copy: the agent goes on
                future.set_exception(error)
            else:
                future.set_result(said)

    def end(self) -> None:
        """Refuses what waits, and all that comes from now on: the agent ends."""
        self._ended = True
        while not self._asked.empty():
            self._asked.get()[0].cancel()

    def _answered(self, name: str, asked: Mapping[str, Any], by: str) -> dict[str, Any]:
        future: Future[dict[str, Any]] = Future()
        self._asked.put((future, name, asked, by))
        if self._ended:
            future.cancel()
        try:
            return future.result(TURN)
        except CancelledError:
            raise Problem("busy", "the agent ends") from None
        except TimeoutError:
            if future.cancel():
                raise Problem("busy", f"its turn did not come within {TURN:g} s") from None
            # It is under way: hanging up now would leave the caller in the dark.
            return future.result()


class LocalSocket:
    """The socket for commands on this machine, which only the owner of the state may use.

    A request for another state is refused: a name in a folder of everybody can lead to the socket
    of another agent. Where there can be no socket, the agent goes on without.
    """

    def __init__(self, state: Path, answer: Callable[[Request], Response]) -> None:
        self._server: HttpServer | None = None
        self._state, self._answer = state, answer
        reasons = list[str]()
        for place in socket_places(state) if hasattr(socket, "AF_UNIX") else ():
            try:
                # The state is locked, so no agent is behind a socket that is there.
                place.unlink(missing_ok=True)
                self._server = HttpServer(place, self._answer_for_state)
                return
            except OSError as error:
                reasons.append(str(error))
        log.info("no local socket, so no commands while it runs. %s", "; ".join(reasons))

    def close(self) -> None:
        """Stops listening, and removes the socket."""
        if self._server is not None:
            with suppress(OSError):
                Path(self._server.address).unlink(missing_ok=True)
            self._server.close()

    def _answer_for_state(self, request: Request) -> Response:
        own = hash_of(self._state)
        if request.headers.get(STATE_HEADER, own) != own:
            raise Problem("refused", f"this agent has another state, {self._state.name}")
        return self._answer(request)


def hash_of(state: Path) -> str:
    """A short hash of where a state is."""
    return hashlib.sha256(os.fsencode(_beside(state))).hexdigest()[:16]


def socket_places(state: Path) -> list[Path]:
    """The paths where the socket of the agent with this state may be, the best one first.

    Beside the state, as the lock is; in the system's folder for temporary files where that path is
    too long for a socket, or the disk has none.
    """
    places = [_beside(state)]
    # Where no disk takes anything there is no such folder.
    with suppress(FileNotFoundError):
        places.append(Path(tempfile.gettempdir()) / f"elmgrove-{hash_of(state)}.sock")
    return places


def _beside(state: Path) -> Path:
    real = Path(os.path.realpath(state))
    return real.with_name(f".{real.name}.sock")
