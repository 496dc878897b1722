"""What is asked of a device through a broker: done by the agent between two rows, and answered."""

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from elmgrove.detector import json_when
from elmgrove.device.doors import Refusal
from elmgrove.device.topics import ACCEPT, REJECT, UNDO
from elmgrove.exchange import Message
from elmgrove.federation import ERRANDS

log = logging.getLogger("elmgrove.device")

#: What is asked at a time, at most, and the bytes that it may have.
MOST_ASKED, MOST_BYTES = 16, 4096
#: Letters of an ``id`` by which one who asks knows the answer.
LONGEST_ID = 100

#: Does an action with its words, in its turn, and gives what there is to say; raises ``Refusal``.
Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]


class Inbox:
    """Does what comes as a message, one after another, and answers each.

    Who may ask is for the broker to decide: who can write under the topic can do what is asked
    there. What a broker had retained is not done: nobody asks for that now.
    """

    def __init__(self, ask: Ask, device: str, answer: Callable[[bytes], None]) -> None:
        self._ask, self._device, self._answer = ask, device, answer
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST_ASKED)
        self._told = False
        threading.Thread(target=self._run, name="elmgrove-asked", daemon=True).start()

    def hear(self, message: Message) -> None:
        """Takes a message; returns at once."""
        if message.retained:
            if not self._told and message.payload:
                log.warning("%s: a message that was retained is not done", message.topic)
            self._told = True
        elif len(message.payload) > MOST_BYTES:
            self._say(None, None, [f"what is asked has at most {MOST_BYTES:,} bytes"])
        else:
            try:
                self._waiting.put_nowait(message.payload)
            except queue.Full:
                self._say(None, None, [f"{MOST_ASKED} others wait; ask again later"])

    def close(self) -> None:
        """Takes nothing more; what is under way is not waited for."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            log.debug("asked too much to end in order")

    def _run(self) -> None:
        while (payload := self._waiting.get()) is not None:
            try:
                self._do(payload)
            except Exception:  # whatever it was, the next one is done
                log.exception("what was asked through the broker failed")

    def _do(self, payload: bytes) -> None:
        action = own = None
        try:
            found = _object(payload)
            own = found.pop("id", None)
            if own is not None and not (isinstance(own, str) and len(own) <= LONGEST_ID):
                own = None
                raise Refusal("malformed", f"id is a text of at most {LONGEST_ID} letters")
            asked = found.pop("action", None)
            if asked not in (ACCEPT, REJECT, UNDO):
                known = f"{ACCEPT}, {REJECT} or {UNDO}"
                raise Refusal("malformed", f"action is {known}, not {asked!r:.40}")
            action = asked
            if more := sorted(found.keys() - set(ERRANDS[action])):
                known = ", ".join(sorted(ERRANDS[action])) or "nothing"
                raise Refusal("malformed", f"{action} takes {known}, not {more[0]!r:.40}")
            said = self._ask(action, found)["said"]
        except Refusal as refusal:
            self._say(action, own, [str(refusal)])
        else:
            self._say(action, own, said, refused=False)

    def _say(
        self, action: str | None, own: str | None, said: list[str], *, refused: bool = True
    ) -> None:
        answer = {
            "device": self._device,
            "time": json_when(float(round(time.time()))),
            "action": action,
            "id": own,
            "refused": refused,
            "said": said,
        }
        self._answer(json.dumps(answer, ensure_ascii=False).encode(errors="backslashreplace"))


def _object(payload: bytes) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Refusal("malformed", f"this is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Refusal("malformed", f'ask by an object: {{"action": "{ACCEPT}"}}')
    return found
