"""The control of a running agent: what is asked of it from outside, done by its own thread."""

import hashlib
import logging
import os
import queue
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

from elmgrove.device.actions import ACTIONS, DRY_RUN, perform
from elmgrove.device.doors import Call, Door, Refusal, Said
from elmgrove.errors import ElmgroveError
from elmgrove.federation import Member

log = logging.getLogger("elmgrove.device")

#: What the path of each action begins with.
ROOT = "/v1/"
#: Seconds that a caller waits for its turn: an agent answers between two rows.
TURN = 30.0


def socket_places(state: Path) -> list[Path]:
    """Names where the socket of the agent that has this state may be, the best place first.

    Beside the state, as the lock is; in the system's folder for temporary files where that path is
    too long for a socket, or the disk has none.
    """
    folder = Path(os.path.realpath(state.parent))
    beside = folder / f".{state.name}.sock"
    digest = hashlib.sha256(os.fsencode(beside)).hexdigest()[:16]
    return [beside, Path(tempfile.gettempdir()) / f"elmgrove-{digest}.sock"]


class Control:
    """Answers what is asked of an agent: its status at any time, all else between two rows.

    Callers come through doors, each in a thread of its own, and wait here for the agent's thread
    to ``step``. What changes the state is saved before it is answered: what was acknowledged
    survives whatever happens next.
    """

    def __init__(self, state: Path, source: str) -> None:
        self._asked: queue.SimpleQueue[tuple[Future[Any], str, Mapping[str, Any]]]
        self._asked = queue.SimpleQueue()
        self._agent = {"pid": os.getpid(), "since": time.time(), "source": source}
        #: What the agent waits for before it can begin; None once it has begun.
        self.waits_for: str | None = "its first rows"
        self._ended = False
        self._door = self._opened(state)

    def answer(self, call: Call) -> Said:
        """Answers a caller, in the caller's thread; raises ``Refusal``."""
        name = call.path.removeprefix(ROOT)
        if not call.path.startswith(ROOT) or name not in ACTIONS:
            raise Refusal("not-found", f"there are {', '.join(ROOT + one for one in ACTIONS)}")
        method = "POST" if ACTIONS[name].changes else "GET"
        if call.method != method:
            raise Refusal("method-not-allowed", f"{method} it")
        asked = call.json() if ACTIONS[name].changes else {}
        if self.waits_for is None:
            return Said.fields(self._answered(name, asked))
        if name != "status":
            raise Refusal("busy", f"the agent has not begun: it waits for {self.waits_for}")
        return Said.fields({"agent": {**self._agent, "waits_for": self.waits_for}})

    def step(
        self, member: Member, save: Callable[[Member], None], live: Callable[[], dict[str, Any]]
    ) -> None:
        """Does what callers wait for, in the agent's thread; quick if there is nothing.

        ``live`` gives what an agent knows beyond its state, for the status.
        """
        while not self._asked.empty():
            future, name, asked = self._asked.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                said = perform(member, name, asked)
                if ACTIONS[name].changes and not said[DRY_RUN]:
                    save(member)
                    log.info("%s: %s", name, " ".join(said["said"]))
                if name == "status":
                    said["agent"] = {**self._agent, **live()}
            except ElmgroveError as error:
                future.set_exception(Refusal("refused", str(error)))
            except BaseException as error:
                # Not known how far it came: the agent ends, and the state is what it was before.
                future.set_exception(error)
                raise
            else:
                future.set_result(said)

    def close(self) -> None:
        """Closes the socket; those who still wait are told that the agent ends."""
        if self._door is not None:
            Path(self._door.address).unlink(missing_ok=True)
            self._door.close()
        self._ended = True
        while not self._asked.empty():
            self._asked.get()[0].cancel()

    def _answered(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        future: Future[dict[str, Any]] = Future()
        self._asked.put((future, name, asked))
        if self._ended:
            future.cancel()
        try:
            return future.result(TURN)
        except CancelledError:
            raise Refusal("busy", "the agent ends") from None
        except TimeoutError:
            if future.cancel():
                raise Refusal("busy", f"its turn did not come within {TURN:g} s") from None
            # It is under way: hanging up now would leave the caller in the dark.
            return future.result()

    def _opened(self, state: Path) -> Door | None:
        """Opens the socket; None where there can't be one."""
        troubles = list[str]()
        places = socket_places(state) if hasattr(socket, "AF_UNIX") else []
        for place in places:
            try:
                # The state is locked, so no agent is behind a socket that is there.
                place.unlink(missing_ok=True)
                return Door(place, self.answer)
            except OSError as error:
                troubles.append(str(error))
        log.info("no local socket, so no commands while it runs. %s", "; ".join(troubles))
        return None
