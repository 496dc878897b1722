"""A device's topics on a broker, and the message by which Home Assistant finds it."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, zip_longest
from typing import Any

from elmgrove.detector.false_alarms import CHANGING, LEARNING, WATCHING
from elmgrove.errors import BadInput
from elmgrove.exchange.broker_address import BrokerAddress
from elmgrove.federation.charter import address_of

#: What can be asked of a device through a broker.
ACCEPT, REJECT, UNDO = "accept", "reject", "undo"
#: Whether the agent is there, in its status.
ONLINE, OFFLINE = "online", "offline"
#: The state of an agent that does not know yet what its rows are like.
WAITING = "waiting"


@dataclass(frozen=True)
class RowTopics:
    """Which topics hold rows: some ``filters``, and what is before a column's name in them all.

    No message is under two of them: a broker would give it out for each, and it would be two rows.

    >>> RowTopics.of("mqtt://host/plant/pump1/#").name_of("plant/pump1/motor/temp")
    'motor/temp'
    >>> RowTopics.of("mqtt://host/plant", "pump1/+ hall/temp").filters
    ('plant/pump1/+', 'plant/hall/temp')
    """

    filters: tuple[str, ...]
    base: str

    @classmethod
    def of(cls, source: str, pattern: str = "") -> "RowTopics":
        """Reads a broker's URL whose topic holds the rows, or has those of the pattern below it.

        What another topic of the pattern covers is left out; ``BadInput`` for two that overlap.
        """
        topic = BrokerAddress.parsed(source).topic
        if pattern:
            below = [f"{source.rstrip('/')}/{one}" for one in pattern.split()]
            return cls(_apart(BrokerAddress.parsed(one).topic for one in below), topic)
        if not topic:
            raise BadInput("source: name the topics of the rows, as mqtt://host/plant/pump1/#")
        levels = topic.split("/")
        wild = [place for place, level in enumerate(levels) if level in ("+", "#")]
        return cls((topic,), "/".join(levels[: wild[0] if wild else -1]))

    def name_of(self, topic: str) -> str:
        """Gives the name of the column that numbers under a topic are of."""
        return topic.removeprefix(f"{self.base}/") if self.base else topic


@dataclass(frozen=True)
class DeviceTopics:
    """Where a device tells of its rows, events and status, and where it is asked and answers."""

    device: str
    verdict: str
    event: str
    status: str
    do: str
    done: str

    @property
    def all_below(self) -> str:
        """What each of these topics begins with, and no other device's."""
        return self.status.removesuffix("status")

    @classmethod
    def under(cls, address: BrokerAddress, device: str) -> "DeviceTopics":
        """Gives the topics of a device of this name, which is written there as in a URL."""
        own = address_of(device)
        names = ("verdict", "event", "status", "do", "done")
        return cls(device, *(address.under(own, name) for name in names))


def _apart(filters: Iterable[str]) -> tuple[str, ...]:
    """Leaves out what another one covers; ``BadInput`` for two that overlap otherwise."""
    levels = {one: one.split("/") for one in filters}
    covered = {
        one for one in levels for two in levels if one != two and _covers(levels[two], levels[one])
    }
    left = [one for one in levels if one not in covered]
    for one, two in combinations(left, 2):
        if _overlap(levels[one], levels[two]):
            raise BadInput(
                f"pattern: a message may be under {one} and under {two}, and would be two rows; "
                "name topics that do not overlap, or one that covers both"
            )
    return tuple(left)


def _covers(one: list[str], two: list[str]) -> bool:
    """Says whether all topics of the second are also topics of the first."""
    if _is_special(one) != _is_special(two):
        return False
    for here, there in zip_longest(one, two):
        if here == "#":
            return True
        if there in (None, "#") or here not in ("+", there):
            return False
    return True


def _overlap(one: list[str], two: list[str]) -> bool:
    """Says whether a topic of the first may be one of the second."""
    if _is_special(one) != _is_special(two):
        return False
    for here, there in zip_longest(one, two):
        if "#" in (here, there):
            return True
        if here != there and (None in (here, there) or "+" not in (here, there)):
            return False
    return True


def _is_special(levels: list[str]) -> bool:
    """Says whether these are the broker's own topics, which + and # do not stand for."""
    return levels[0].startswith("$")


#: What Home Assistant says under its ``status`` when it has begun.
BORN = b"online"
_STATES = [WAITING, LEARNING, WATCHING, CHANGING]
# What can't be in the id of a device: Home Assistant takes no other letters in a topic.
_NO_ID = re.compile(r"[^a-zA-Z0-9_-]+")


def birth_topic(prefix: str) -> str:
    """Gives the topic under which Home Assistant says that it has begun."""
    return f"{prefix}/status"


def discovery_topic(prefix: str, topics: DeviceTopics) -> str:
    """Gives the topic of a device's discovery message.

    The device's name is a level of its own, so that a broker's access list can keep others out.
    """
    return f"{prefix}/device/{_readable(topics) or 'elmgrove'}/{_id(topics)}/config"


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
            "options": _STATES,
            "value_template": _value("state"),
        },
        "anomalous": _problem("Anomalous", "event"),
        "drift": _problem("Drift", "drift"),
        ACCEPT: _button("Accept", ACCEPT, "mdi:check", topics),
        REJECT: _button("Reject", REJECT, "mdi:close", topics),
        UNDO: _button("Undo", UNDO, "mdi:undo", topics),
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
    return _NO_ID.sub("-", topics.device).strip("-")[:40]
