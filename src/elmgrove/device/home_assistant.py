"""Home Assistant's discovery: one message, by which a device appears there by itself."""

import hashlib
import json
import re
from typing import Any

from elmgrove.detector.rate_test import CHANGING, LEARNING, WATCHING
from elmgrove.device.topics import ACCEPT, REJECT, UNDO, WAITING, DeviceTopics

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
