"""What an agent tells a broker: verdicts, events and its status; and what is asked of it there."""

import json
import math
import random
import time
from collections.abc import Callable
from typing import Any, Self

from elmgrove import __version__
from elmgrove.detector import Verdict, json_when
from elmgrove.device.access import Access, client_id
from elmgrove.device.home_assistant import BORN, birth_topic, discovery, discovery_topic
from elmgrove.device.inbox import Ask, Inbox
from elmgrove.device.outbox import Outbox
from elmgrove.device.settings import Settings
from elmgrove.device.status import status_of
from elmgrove.device.topics import OFFLINE, ONLINE, WAITING, DeviceTopics
from elmgrove.exchange import BrokerAddress, Message
from elmgrove.federation import Member

#: Seconds between two looks at how the device is doing, and between two times that this is told
#: though nothing but numbers has changed.
LOOK, TELL = 1.0, 10.0
#: Seconds over which devices spread what they tell a Home Assistant that has just begun.
SPREAD = 2.0
#: Seconds in which a broker that is there takes what is left at the end.
PATIENCE = 5.0


class Sink:
    """Tells a broker how a device is doing, as it happens, and lets it be asked there.

    Nothing here waits for the broker: what it does not take at once is in the ``Outbox``. The
    status is retained, and the broker says that the agent is offline if it ends without a word.
    """

    def __init__(self, settings: Settings, name: str, ask: Ask) -> None:
        address = BrokerAddress.parsed(settings.mqtt)
        self.topics = DeviceTopics.under(address, name)
        gone = {"agent": OFFLINE, "device": name}
        self._gone = Message(self.topics.status, _json(gone), retained=True)
        own = client_id("agent", name, self.topics.status)
        self._broker = Access.of(settings).broker(settings.mqtt, own, will=self._gone)
        self._outbox = Outbox(self._broker)
        self._inbox = Inbox(ask, name, lambda said: self._outbox.answer(self.topics.done, said))
        self._looked = self._told = -TELL
        self._important: Any = None
        self._last: Verdict | None = None
        self._rows = self._rows_told = 0
        self._state({"state": WAITING})
        self._broker.follow([self.topics.do], self._inbox.hear)
        if settings.home_assistant:
            self._appear(settings.home_assistant)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(PATIENCE)

    def verdict(self, message: dict[str, Any]) -> None:
        """Takes what there is to say of a row."""
        self._outbox.verdict(self.topics.verdict, _json(message))

    def event(self, message: dict[str, Any]) -> None:
        """Takes what there is to say of an event or a drift."""
        self._outbox.event(self.topics.event, _json(message))

    def follow(self, verdict: Verdict) -> None:
        """Takes note of a row, for the status."""
        self._last = verdict
        self._rows += 1

    def look(self, member: Member, note: Callable[[], None]) -> None:
        """Tells how the device is doing, if it is time again and there is something new.

        ``note`` puts into the member what its status shows and only its agent knows.
        """
        now = time.monotonic()
        if now - self._looked < LOOK:
            return
        self._looked = now
        important = _important(member)
        more = self._rows != self._rows_told and now - self._told >= TELL
        if important != self._important or more:
            self._important, self._told, self._rows_told = important, now, self._rows
            note()
            self._state({**status_of(member), **self._newest()})

    def close(self, patience: float) -> None:
        """Says goodbye, and gives the broker what waits, as much as it takes in some seconds."""
        self._inbox.close()
        self._outbox.state(self._gone.topic, self._gone.payload)
        self._outbox.close(patience)
        self._broker.close()

    def _newest(self) -> dict[str, Any]:
        if self._last is None:
            return {"score": None, "anomalous": None}
        score = self._last.score if math.isfinite(self._last.score) else None
        return {"score": score, "anomalous": self._last.anomalous}

    def _state(self, status: dict[str, Any]) -> None:
        now = json_when(float(round(time.time())))
        known = {"agent": ONLINE, "device": self.topics.device, "time": now}
        self._outbox.state(self.topics.status, _json({**known, **status}))

    def _appear(self, prefix: str) -> None:
        """Appears in Home Assistant, and again whenever that begins."""
        said = _json(discovery(self.topics, __version__))
        self._outbox.state(discovery_topic(prefix, self.topics), said)

        def hear(message: Message) -> None:
            if message.payload.strip() == BORN:
                self._outbox.state_again(random.uniform(0.0, SPREAD))

        self._broker.follow([birth_topic(prefix)], hear)


def _important(member: Member) -> Any:
    """What is told at once when it is another than before."""
    detector = member.detector
    event, drift = detector.events.open, detector.drift
    report = None if drift is None else drift.report
    return (
        detector.state,
        None if event is None else event.number,
        None if report is None else str(report),
        len(detector.answers.given) and detector.answers.given[-1],
        detector.rows_missing == 0,
    )


def _json(fields: dict[str, Any]) -> bytes:
    # A name may hold what is no text: of a file, say.
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False)
    return text.encode(errors="backslashreplace")
