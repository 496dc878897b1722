"""The control of a running agent: what is asked of it from outside, done by its own thread."""

import logging
import os
import queue
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Self

from elmgrove.detector.events import json_when
from elmgrove.device.actions import ACTIONS, COMMAND_LINE, CONTROL, DRY_RUN, MQTT, perform
from elmgrove.device.control_server import Call, Listener, LocalSocket, Said
from elmgrove.device.settings import Settings
from elmgrove.errors import ElmgroveError, InconsistentState, Problem
from elmgrove.federation.member import Member

log = logging.getLogger("elmgrove.device")

#: What the path of each action begins with.
CONTROL_ROOT = "/v1/"
#: Seconds that a caller waits for its turn: an agent answers between two rows.
TURN = 30.0


class Control:
    """Answers what is asked of an agent: its status at any time, all else between two rows.

    Callers come through doors, each in a thread of its own, and wait here for the agent's thread
    to ``step``. What changes the state is saved before it is answered: what was acknowledged
    survives whatever happens next, and what can't be saved is not done.
    """

    def __init__(self, settings: Settings) -> None:
        self._asked: queue.SimpleQueue[tuple[Future[Any], str, Mapping[str, Any], str]]
        self._asked = queue.SimpleQueue()
        since = json_when(float(round(time.time())))
        self._agent = {"pid": os.getpid(), "since": since, "source": settings.source}
        #: What the agent waits for before it can begin; None once it has begun.
        self.waits_for: str | None = "its first rows"
        self._ended = False
        self._listener = (
            Listener(settings.listen, settings.control_token, self.answer)
            if settings.listen
            else None
        )
        self._local = LocalSocket(settings.path, partial(self.answer, by=COMMAND_LINE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        if self._listener is not None:
            self._listener.close()
        self._local.close()

    def answer(self, call: Call, by: str = CONTROL) -> Said:
        """Answers a caller, in the caller's thread; raises ``Problem``."""
        name = call.path.removeprefix(CONTROL_ROOT)
        if not call.path.startswith(CONTROL_ROOT) or name not in ACTIONS:
            raise Problem("not-found", f"{CONTROL_ROOT} has {', '.join(ACTIONS)}")
        method = "POST" if ACTIONS[name].changes else "GET"
        if call.method != method:
            raise Problem("method-not-allowed", f"{method} it")
        return Said.fields(self.ask(name, call.json() if ACTIONS[name].changes else {}, by))

    def ask(self, name: str, asked: Mapping[str, Any], by: str = MQTT) -> dict[str, Any]:
        """Asks for an action in its turn, in the caller's thread; raises ``Problem``."""
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
        """Does what callers wait for, in the agent's thread; quick if there is nothing.

        Inside ``saved`` a member is on disk, and becomes the state if all goes well. ``live``
        notes in the member what its status shows, and gives what only an agent knows.
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
            except Exception as error:  # it failed on a copy: the caller is told, the agent goes on
                future.set_exception(error)
            else:
                future.set_result(said)

    def end(self) -> None:
        """Tells callers from now on that the agent ends, and those who wait as well."""
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
