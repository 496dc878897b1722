"""Reads a discovery message as Home Assistant does; run by its own Python, which has it installed.

Takes the message on standard input. Says which version it is, what it would leave out of each
component, and which options there are. What it refuses ends this with its own words.
"""

import asyncio
import json
import sys
import tempfile
from typing import Any

from homeassistant.components.mqtt import binary_sensor, button, discovery, schemas, sensor
from homeassistant.const import __version__
from homeassistant.core import HomeAssistant
from homeassistant.helpers import frame

PLATFORMS = {"sensor": sensor, "binary_sensor": binary_sensor, "button": button}


def mapping(schema: Any) -> dict[Any, Any] | None:
    """What a schema says of an object, wherever that is among its checks."""
    if isinstance(schema, dict):
        return schema
    inner = [*getattr(schema, "validators", ()), getattr(schema, "schema", None)]
    return next((found for one in inner if one and (found := mapping(one))), None)


def options(schema: Any) -> dict[str, list[str]]:
    """The keys that a schema knows, and those that it needs."""
    keys = {str(key): type(key).__name__ for key in mapping(schema) or {}}
    needed = sorted(key for key, kind in keys.items() if kind == "Required")
    return {"known": sorted(keys), "required": needed}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        frame.async_setup(HomeAssistant(folder))
        payload = json.load(sys.stdin)
        schemas.DEVICE_DISCOVERY_SCHEMA(payload)
        left_out = {}
        for name, part in payload["components"].items():
            given = {**part, **{key: payload[key] for key in ("device", "origin", "availability")}}
            platform = PLATFORMS[given.pop("platform")]
            left_out[name] = sorted(given.keys() - platform.DISCOVERY_SCHEMA(given).keys())
    known = {name: options(one.PLATFORM_SCHEMA_MODERN) for name, one in PLATFORMS.items()}
    known["message"] = options(schemas.DEVICE_DISCOVERY_SCHEMA)
    known["device"] = options(schemas.MQTT_ENTITY_DEVICE_INFO_SCHEMA)
    known["origin"] = options(schemas.MQTT_ORIGIN_INFO_SCHEMA)
    print(
        json.dumps(
            {
                "version": __version__,
                "left_out": left_out,
                "options": known,
                "topic": discovery.TOPIC_MATCHER.pattern,
            }
        )
    )


asyncio.run(main())
