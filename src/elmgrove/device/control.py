"""The control of a running agent: actions asked of it from outside, done by its own thread."""

import json
import logging
import os
import queue
import socket
import stat
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, Self

import msgspec

from elmgrove.device.actions import ACTIONS, COMMAND_LINE, DRY_RUN, MQTT, perform
from elmgrove.device.settings import Settings
from elmgrove.errors import ElmgroveError, InconsistentState, Problem, Refused, Unreachable
from elmgrove.federation.member import Member
from elmgrove.reading.times import json_when

log = logging.getLogger("elmgrove.device")

#: Seconds that a request waits for its turn: an agent answers between two rows.
TURN = 30.0
#: The most bytes of a request at the local socket.
MOST_BYTES = 1 << 22


class Control:
    """Answers requests to an agent: its status at any time, all else between two rows.

    Requests wait in their threads until the agent's thread calls ``step``. A change is saved before
    it is answered.
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

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answers a request at the local socket, in its thread; raises ``Problem``."""
        name = asked.pop("action", None)
        if not isinstance(name, str) or name not in ACTIONS:
            raise Problem("malformed", f"action is {', '.join(ACTIONS)}, not {name!r:.40}")
        return self.ask(name, asked, COMMAND_LINE)

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

    A request is a line of JSON: ``{"action": "tune", "rate": 0.01}``; so is the answer, or
    ``{"problem": "refused", "detail": "..."}``. Where there can be no socket, the agent goes on
    without.
    """

    def __init__(self, state: Path, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._answer = answer
        self._listener: socket.socket | None = None
        try:
            self._listen(socket_beside(state))
        except (OSError, AttributeError) as error:  # a path that is too long, or no such sockets
            log.info("no local socket, so no commands while it runs: %s", error)

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as caller:
                # The thread that accepts sees that it is over.
                caller.connect(listener.getsockname())
            with suppress(OSError):
                Path(listener.getsockname()).unlink(missing_ok=True)
            listener.close()

    def _listen(self, place: Path) -> None:
        # The state is locked, so no agent is behind a socket that is there.
        place.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(str(place))
            # Nobody can connect before the next step: there is no moment for others.
            place.chmod(0o600)
            listener.listen(64)
        except BaseException:
            listener.close()
            raise
        self._listener = listener
        Thread(target=self._serve, args=[listener], name="elmgrove-control", daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        while self._listener is not None:
            try:
                caller, _ = listener.accept()
                Thread(target=self._talk, args=[caller], daemon=True).start()
            except (OSError, RuntimeError):
                # No more descriptors or threads: trying again at once would take all the time.
                time.sleep(0.1)

    def _talk(self, caller: socket.socket) -> None:
        with suppress(OSError), caller:  # it may hang up at any time
            caller.settimeout(10.0)
            with caller.makefile("rb") as file:
                answer = self._answered(file.readline(MOST_BYTES + 1))
            caller.sendall(json.dumps(answer, ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def _answered(self, line: bytes) -> dict[str, Any]:
        try:
            if len(line) > MOST_BYTES:
                raise Problem("malformed", f"a request has at most {MOST_BYTES:,} bytes")
            try:
                asked = msgspec.json.decode(line, type=dict[str, Any])
            except (msgspec.DecodeError, RecursionError) as error:
                raise Problem("malformed", f"ask by an object of JSON: {error}") from error
            return self._answer(asked)
        except Problem as problem:
            return {"problem": problem.kind, "detail": str(problem)}
        except Exception:  # whatever a request does, the agent goes on
            log.exception("what was asked at the local socket failed")
            return {"problem": "internal", "detail": "the agent failed; its log says more"}


def ask_agent(state: Path, action: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Asks the agent that has a state; None if there is none.

    Raises ``Refused`` with the agent's reason, and ``Unreachable`` if it went away or is busy.
    """
    place = socket_beside(state)
    if not _is_of(state, place):
        return None
    with socket.socket(socket.AF_UNIX) as agent:
        try:
            agent.connect(str(place))
        except OSError:
            return None  # one that was killed has left it there
        agent.settimeout(2.0 * TURN)
        try:
            agent.sendall(json.dumps({**asked, "action": action}).encode() + b"\n")
            with agent.makefile("rb") as file:
                line = file.readline()
            if not line.endswith(b"\n"):
                raise ConnectionError("its answer is not complete")
        except OSError as error:
            raise Unreachable(
                f"the agent went away before it answered ({error}); elmgrove status and "
                f"elmgrove quarantine tell whether {action} was done"
            ) from error
    answer: dict[str, Any] = json.loads(line)
    if "problem" in answer:
        busy = answer["problem"] == "busy"
        raise (Unreachable if busy else Refused)(f"the agent: {answer['detail']}")
    return answer


def _is_of(state: Path, place: Path) -> bool:
    """Whether a socket belongs to the owner of the state: anybody can put one into a folder.

    A link is none: it may lead to the socket of another device of the same owner.
    """
    try:
        found = place.lstat()
        owner = state.stat().st_uid if state.exists() else os.geteuid()
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == owner


def socket_beside(state: Path) -> Path:
    """Where the agent with this state listens: beside it, as the lock is."""
    real = Path(os.path.realpath(state))
    return real.with_name(f".{real.name}.sock")
