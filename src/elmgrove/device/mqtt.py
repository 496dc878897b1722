"""An agent at an MQTT broker: it publishes verdicts, events and status, and takes commands."""

import hashlib
import json
import logging
import math
import queue
import random
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from elmgrove import __version__
from elmgrove.detector.decision import CHANGING, LEARNING, WATCHING
from elmgrove.detector.verdict import Verdict
from elmgrove.device.input_health import Outage
from elmgrove.device.output import Observation, wants
from elmgrove.device.settings import Settings
from elmgrove.device.status import status_of
from elmgrove.errors import ElmgroveError, Problem, Unreachable
from elmgrove.exchange.base import Tls
from elmgrove.exchange.broker_address import BrokerAddress, Message
from elmgrove.federation.charter import address_of
from elmgrove.federation.commands import COMMANDS
from elmgrove.federation.member import Member
from elmgrove.reading.times import json_when

if TYPE_CHECKING:
    from elmgrove.exchange.broker import Broker, Sent

log = logging.getLogger("elmgrove.device")
#: Messages of a kind that wait for a broker: of more, the oldest are dropped.
MOST_WAITING = 1000
#: Messages that the broker is given at a time, as few as any that is known takes.
AT_ONCE = 10
#: Seconds over which devices spread what they tell a Home Assistant that has just begun.
SPREAD = 2.0


def open_broker(
    settings: Settings,
    url: str,
    client_id: str,
    topics: Sequence[str],
    hear: Callable[[Message], None],
    **more: Any,
) -> "Broker":
    """Connects to the broker at a URL with the password and files of the settings."""
    # Here, since it needs the extra, which most devices do without.
    from elmgrove.exchange.broker import Broker

    return Broker(
        BrokerAddress.parsed(url),
        topics,
        hear,
        client_id=client_id,
        password=settings.mqtt_password or None,
        tls=Tls(settings.ca, settings.certificate),
        **more,
    )


def client_id(what: str, *names: str) -> str:
    """Gives the name of a link to a broker, the same each time; no two devices' are equal.

    Letters that a broker takes for a part of its access rules are none of it.
    """
    readable = re.sub(r"[^a-zA-Z0-9_.-]+", "-", names[0])[:40]
    told_apart = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
    return f"elmgrove-{what}-{readable}-{told_apart}"


class Away:
    """Logs once that a broker can't be reached and what happens ``meanwhile``, and when it can."""

    def __init__(self, broker: "Broker", meanwhile: str) -> None:
        self._broker = broker
        self._outage = Outage(str(broker.address), "can't be used", meanwhile, "can be used again")

    def look(self) -> None:
        error = self._broker.failure
        if error is not None:
            self._outage.begin(error)
        elif self._broker.linked:
            self._outage.end()


class Letter(NamedTuple):
    """A message that waits."""

    topic: str
    payload: bytes
    retain: bool = False


class Outbox:
    """Gives a broker messages in the background, and never keeps its caller waiting.

    While the broker is away messages wait: the newest events, answers and verdicts, none of which
    takes the place of another kind, and of what is retained (``state``) the last of each topic.
    That is given to the broker again with every new link, since the will may have taken its place,
    or the broker may have forgotten it. What is refused, or ends each link, is told once for each
    topic, and dropped.
    """

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._changed = broker.changed
        # In the order in which they are published; first those of which one ended each link.
        kinds = ("suspected", "event", "answer", "state", "verdict")
        self._waiting = {kind: deque[Letter]() for kind in kinds}
        self._stated = dict[str, Letter]()
        self._under_way: list[tuple[Letter, Sent]] = []
        # When all that is retained is to be said again.
        self._again = math.inf
        self._dropped = self._dropped_told = self._links = 0
        self._reported_at = -math.inf
        self._away = Away(broker, "what there is to say waits in memory")
        self._refused = set[str]()
        self._closing = self._ended = False
        self._thread = threading.Thread(target=self._run, name="elmgrove-outbox", daemon=True)
        self._thread.start()

    def put(self, kind: str, topic: str, payload: bytes) -> None:
        """Takes an ``event``, an ``answer``, a ``verdict``, or a ``state``, which is retained."""
        letter, waiting = Letter(topic, payload, kind == "state"), self._waiting[kind]
        with self._changed:
            if letter.retain:
                self._stated[topic] = letter
                for former in [one for one in waiting if one.topic == topic]:
                    waiting.remove(former)
            elif len(waiting) >= MOST_WAITING:
                waiting.popleft()
                self._dropped += 1
            waiting.append(letter)
            self._changed.notify_all()

    def state_again(self, seconds: float) -> None:
        """Gives the broker all that is retained once more, in so many seconds.

        Asked again before that, it is still done once.
        """
        with self._changed:
            self._again = min(self._again, time.monotonic() + seconds)

    def close(self, patience: float) -> None:
        """Gives the broker what waits, as much as it takes in so many seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(patience)
        with self._changed:
            self._ended = True
            if left := self._left():
                log.warning("%s: %d messages were not delivered", self._broker.address.place, left)
            self._tell_dropped()

    def _left(self) -> int:
        return sum(map(len, self._waiting.values())) + len(self._under_way)

    def _run(self) -> None:
        while not self._ended and not (self._closing and not self._left()):
            with self._changed:
                self._look()
                self._settle()
                letter = self._next()
                if letter is None:
                    self._changed.wait(0.5)
            if letter is not None:
                self._publish(letter)

    def _look(self) -> None:
        """Looks whether there is a new link, or none, and what there is to say because of it."""
        self._away.look()
        now, links = time.monotonic(), self._broker.links
        if (links != self._links and self._links) or now >= self._again:
            # What is under way is said by the new link anyway.
            said = [*(letter for letter, _ in self._under_way), *self._waiting["state"]]
            self._waiting["state"] += [one for one in self._stated.values() if one not in said]
            self._again = math.inf
        self._links = links
        if now - self._reported_at >= 60.0:
            self._tell_dropped()

    def _next(self) -> Letter | None:
        # What the broker takes is known with a link.
        most = 1 if self._waiting["suspected"] else AT_ONCE
        if not self._broker.linked or len(self._under_way) >= most:
            return None
        return next((some.popleft() for some in self._waiting.values() if some), None)

    def _publish(self, letter: Letter) -> None:
        try:
            sent = self._broker.publish(letter.topic, letter.payload, retain=letter.retain)
        except ElmgroveError as error:
            self._tell(letter, error)
        else:
            self._under_way.append((letter, sent))

    def _settle(self) -> None:
        """Deals with what came of messages; of those that end each link, each is tried alone."""
        alone = len(self._under_way) == 1
        for letter, sent in self._under_way:
            if not alone and isinstance(sent.error, Unreachable):
                self._waiting["suspected"].append(letter)
            elif sent.settled:
                self._tell(letter, sent.error)
        self._under_way = [one for one in self._under_way if not one[1].settled]

    def _tell(self, letter: Letter, error: ElmgroveError | None) -> None:
        if error is None:
            self._refused.discard(letter.topic)
            return
        if letter.topic not in self._refused:
            self._refused.add(letter.topic)
            log.warning("not published: %s", error)
        if isinstance(error, Unreachable) and self._stated.get(letter.topic) == letter:
            # It ends each link, and the next one would be no better for it.
            del self._stated[letter.topic]

    def _tell_dropped(self) -> None:
        if self._dropped == self._dropped_told:
            return
        self._reported_at, self._dropped_told = time.monotonic(), self._dropped
        log.warning(
            "%s is away or too slow: the oldest messages for it were dropped, %d so far",
            self._broker.address.place,
            self._dropped,
        )


#: Does an action with its words, in its turn, and gives what there is to say; raises ``Problem``.
Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]


class Inbox:
    """Does what comes as a message, one after another, and answers each.

    Who may ask is for the broker to decide: who can write under the topic can do what is asked
    there. What a broker had retained is not done: nobody asks for that now.
    """

    def __init__(self, ask: Ask, device: str, answer: Callable[[bytes], None]) -> None:
        self._ask, self._device, self._answer = ask, device, answer
        self._waiting = queue.Queue[bytes | None](16)
        self._reported = False
        threading.Thread(target=self._run, name="elmgrove-asked", daemon=True).start()

    def hear(self, message: Message) -> None:
        """Takes a message; returns at once."""
        if message.retained:
            if not self._reported and message.payload:
                log.warning("%s: a message that was retained is not done", message.topic)
            self._reported = True
        elif len(message.payload) > 4096:
            self._say(None, None, ["what is asked has at most 4,096 bytes"])
        else:
            try:
                self._waiting.put_nowait(message.payload)
            except queue.Full:
                self._say(None, None, [f"{self._waiting.maxsize} others wait; ask again later"])

    def close(self) -> None:
        """Takes nothing more; what is under way is not waited for."""
        with suppress(queue.Full):
            self._waiting.put_nowait(None)

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
            if own is not None and not (isinstance(own, str) and len(own) <= 100):
                own = None
                raise Problem("malformed", "id is a text of at most 100 letters")
            asked = found.pop("action", None)
            if not isinstance(asked, str) or asked not in COMMANDS:
                known = " or ".join(", ".join(COMMANDS).rsplit(", ", 1))
                raise Problem("malformed", f"action is {known}, not {asked!r:.40}")
            action = asked
            if more := sorted(found.keys() - set(COMMANDS[action])):
                known = ", ".join(sorted(COMMANDS[action])) or "nothing"
                raise Problem("malformed", f"{action} takes {known}, not {more[0]!r:.40}")
            said = self._ask(action, found)["said"]
        except Problem as refusal:
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
        self._answer(_json(answer))


def _object(payload: bytes) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Problem("malformed", f"this is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Problem("malformed", 'ask by an object: {"action": "accept"}')
    return found


@dataclass(frozen=True)
class DeviceTopics:
    """Where a device tells of its rows, events and status, and where it is asked and answers.

    The device's name is written there as in a URL.
    """

    device: str
    #: What each of these topics begins with, and no other device's.
    all_below: str

    @classmethod
    def under(cls, address: BrokerAddress, device: str) -> "DeviceTopics":
        return cls(device, f"{address.under(address_of(device))}/")

    @property
    def status(self) -> str:
        return f"{self.all_below}status"

    @property
    def do(self) -> str:
        return f"{self.all_below}do"


class Sink:
    """Tells a broker how a device is doing, as it happens, and lets it be asked there.

    Nothing here waits for the broker: what it does not take at once is in the ``Outbox``. The
    status is retained, and the broker says that the agent is offline if it ends without a word.
    """

    def __init__(self, settings: Settings, name: str, ask: Ask) -> None:
        self.topics = DeviceTopics.under(BrokerAddress.parsed(settings.mqtt), name)
        gone = {"agent": "offline", "device": name}
        self._gone = Message(self.topics.status, _json(gone), retained=True)
        own = client_id("agent", name, self.topics.status)
        self._only = settings.only
        topics = [self.topics.do, BIRTH]
        self._broker = open_broker(
            settings, settings.mqtt, own, topics, self._hear, will=self._gone
        )
        self._outbox = Outbox(self._broker)
        self._inbox = Inbox(ask, name, lambda said: self._put("answer", "done", said))
        self._looked = self._reported = -math.inf
        self._important: Any = None
        self._last: Verdict | None = None
        self._rows = self._rows_reported = 0
        self._state({"state": "waiting"})
        said = _json(discovery(self.topics, __version__))
        self._outbox.put("state", discovery_topic(self.topics), said)
        self._broker.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(5.0)

    def observe(self, seen: Observation) -> None:
        """Publishes the verdict if it is wanted, events and drift."""
        for one in seen.news:
            self._put("event", "event", _json(one))
        if seen.verdict is not None:
            self._last = seen.verdict
            self._rows += 1
            if wants(self._only, seen.verdict):
                self._put("verdict", "verdict", _json(seen.message))

    def look(self, member: Member, note: Callable[[], None]) -> None:
        """Tells how the device is doing, if it is time again and there is something new.

        ``note`` puts into the member what its status shows and only its agent knows.
        """
        now = time.monotonic()
        if now - self._looked < 1.0:
            return
        self._looked = now
        important = _important(member)
        more = self._rows != self._rows_reported and now - self._reported >= 10.0
        if important != self._important or more:
            self._important, self._reported, self._rows_reported = important, now, self._rows
            note()
            self._state({**status_of(member), **self._newest()})

    def close(self, patience: float) -> None:
        """Says goodbye, and gives the broker what waits, as much as it takes in some seconds."""
        self._inbox.close()
        self._outbox.put("state", self._gone.topic, self._gone.payload)
        self._outbox.close(patience)
        self._broker.close()

    def _newest(self) -> dict[str, Any]:
        if self._last is None:
            return {"score": None, "anomalous": None}
        score = self._last.score if math.isfinite(self._last.score) else None
        return {"score": score, "anomalous": self._last.anomalous}

    def _state(self, status: dict[str, Any]) -> None:
        now = json_when(float(round(time.time())))
        known = {"agent": "online", "device": self.topics.device, "time": now}
        self._put("state", "status", _json({**known, **status}))

    def _put(self, kind: str, topic: str, payload: bytes) -> None:
        self._outbox.put(kind, f"{self.topics.all_below}{topic}", payload)

    def _hear(self, message: Message) -> None:
        if message.topic == self.topics.do:
            self._inbox.hear(message)
        elif message.payload.strip() == b"online":
            # Home Assistant has begun, and gets what there is to know of this device.
            self._outbox.state_again(random.uniform(0.0, SPREAD))


def _important(member: Member) -> Any:
    """What is told at once when it is another than before."""
    detector = member.detector
    event, report = detector.events.open, detector.drift.report
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


# Home Assistant

#: The topic under which Home Assistant says that it has begun.
BIRTH = "homeassistant/status"


def discovery_topic(topics: DeviceTopics) -> str:
    """Gives the topic of a device's discovery message.

    The device's name is a level of its own, so that a broker's access list can keep others out.
    """
    return f"homeassistant/device/{_readable(topics) or 'elmgrove'}/{_id(topics)}/config"


def discovery(topics: DeviceTopics, version: str) -> dict[str, Any]:
    """Describes a device for Home Assistant: what it measures, and what can be asked of it.

    All values come from its status, which is retained: Home Assistant has them at once.
    ``anomalous`` is on while an event is open, since single anomalous rows are to be expected.
    """
    own = _id(topics)
    parts = {
        "score": _sensor("Score", "score", "mdi:chart-bell-curve", suggested_display_precision=2),
        "threshold": _sensor(
            "Threshold", "threshold", "mdi:arrow-collapse-up", suggested_display_precision=2
        ),
        "learned": _sensor("Rows learned", "learned", "mdi:school", unit_of_measurement="rows"),
        "state": {
            "platform": "sensor",
            "name": "State",
            "icon": "mdi:eye-outline",
            "device_class": "enum",
            "options": ["waiting", LEARNING, WATCHING, CHANGING],
            "value_template": _value("state"),
        },
        "anomalous": _problem("Anomalous", "event"),
        "drift": _problem("Drift", "drift"),
        "accept": _button("Accept", "accept", "mdi:check", topics),
        "reject": _button("Reject", "reject", "mdi:close", topics),
        "undo": _button("Undo", "undo", "mdi:undo", topics),
    }
    for name, part in parts.items():
        part["unique_id"] = f"{own}_{name}"
        part["qos"] = 1
        if part["platform"] != "button":
            part["state_topic"] = topics.status
        if part["platform"] == "binary_sensor":
            part["json_attributes_topic"] = topics.status
    return {
        "device": {
            "identifiers": [own],
            "name": topics.device,
            "manufacturer": "Elmgrove",
            "model": "Anomaly detector",
            "sw_version": version,
        },
        "origin": {"name": "Elmgrove", "sw_version": version},
        "availability": [{"topic": topics.status, "value_template": _value("agent")}],
        "components": parts,
    }


def _sensor(name: str, field: str, icon: str, **more: Any) -> dict[str, Any]:
    return {
        "platform": "sensor",
        "name": name,
        "icon": icon,
        "state_class": "measurement",
        "value_template": _value(field),
        **more,
    }


def _problem(name: str, field: str) -> dict[str, Any]:
    """What is on while the status says something there, with all that it says."""
    found = f"value_json.{field} | default(none)"
    return {
        "platform": "binary_sensor",
        "name": name,
        "device_class": "problem",
        "value_template": f"{{{{ 'ON' if {found} else 'OFF' }}}}",
        "json_attributes_template": f"{{{{ value_json.{field} | default({{}}, true) | tojson }}}}",
    }


def _button(name: str, action: str, icon: str, topics: DeviceTopics) -> dict[str, Any]:
    return {
        "platform": "button",
        "name": name,
        "icon": icon,
        "command_topic": topics.do,
        "payload_press": json.dumps({"action": action}),
    }


def _value(field: str) -> str:
    # What is not there is None, which Home Assistant takes for unknown; its log stays empty.
    return f"{{{{ value_json.{field} | default(none) }}}}"


def _id(topics: DeviceTopics) -> str:
    """Tells devices apart, also those whose names differ in letters that can't be in an id."""
    readable = _readable(topics)
    told_apart = hashlib.sha256(topics.status.encode()).hexdigest()[:8]
    return f"elmgrove-{readable}-{told_apart}" if readable else f"elmgrove-{told_apart}"


def _readable(topics: DeviceTopics) -> str:
    # Home Assistant takes no other letters in a topic.
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", topics.device).strip("-")[:40]
