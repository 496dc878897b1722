"""Somebody else at a broker, who speaks paho's own words: says things, and hears what is said."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from paho.mqtt.client import CallbackAPIVersion, Client, MQTTMessage, MQTTv5
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from support.mosquitto import Mosquitto
from support.serving import wait_until

# Paho's has no types.
_Properties: Any = Properties


class Somebody:
    """A client that remembers all messages under the topics that it was told, in their order."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._lock = threading.Lock()
        self._heard: list[MQTTMessage] = []
        self._subscribed = 0

    def hear(self, _client: Any, _data: Any, message: MQTTMessage) -> None:
        with self._lock:
            self._heard.append(message)

    def listened(self, *_: Any) -> None:
        self._subscribed += 1

    def listen(self, *topics: str) -> None:
        """Subscribes, and returns when the broker knows it."""
        before = self._subscribed
        self.client.subscribe([(topic, 1) for topic in topics])
        wait_until(lambda: self._subscribed > before)

    def say(self, topic: str, payload: Any, *, retain: bool = False, qos: int = 1) -> None:
        """Publishes, and returns when the broker has it; all but text and bytes is JSON."""
        self.client.publish(topic, _plain(payload), qos, retain).wait_for_publish(60)

    def say_all(self, said: Sequence[tuple[str, Any]]) -> None:
        """Publishes many, and returns when the broker has them all."""
        sent = [self.client.publish(topic, _plain(payload), 1) for topic, payload in said]
        for one in sent:
            one.wait_for_publish(60)

    def all(self) -> list[MQTTMessage]:
        """All that came so far."""
        with self._lock:
            return list(self._heard)

    def under(self, topic: str) -> list[MQTTMessage]:
        """What came under a topic so far."""
        with self._lock:
            return [message for message in self._heard if message.topic == topic]

    def objects(self, topic: str) -> list[dict[str, Any]]:
        """What came under a topic so far, as JSON."""
        return [json.loads(message.payload) for message in self.under(topic)]


def _plain(payload: Any) -> str | bytes:
    return payload if isinstance(payload, str | bytes) else json.dumps(payload)


@contextmanager
def somebody_at(
    place: Mosquitto,
    *topics: str,
    user: str = "",
    password: str = "",
    ca: str = "",
    certificate: str | None = None,
    private_key: str | None = None,
    client_id: str = "",
) -> Iterator[Somebody]:
    """Connects somebody who listens to some topics; what was retained comes first.

    For one with a ``client_id`` the broker keeps what comes while the two are apart.
    """
    client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTv5)
    client.reconnect_delay_set(0.05, 0.5)
    client.max_inflight_messages_set(100)
    somebody = Somebody(client)
    client.on_message, client.on_subscribe = somebody.hear, somebody.listened
    if user:
        client.username_pw_set(user, password)
    if ca:
        client.tls_set(ca, certificate, private_key)
    lasting = _Properties(PacketTypes.CONNECT)
    lasting.SessionExpiryInterval = 3600 if client_id else 0
    clean = not client_id
    client.connect("127.0.0.1", place.port, clean_start=clean, properties=lasting)
    client.loop_start()
    try:
        wait_until(client.is_connected)
        if topics:
            somebody.listen(*topics)
        yield somebody
    finally:
        client.disconnect()
        client.loop_stop()


def messages(
    topic: str, names: Sequence[str], rows: np.ndarray, begin: float | None = None
) -> list[tuple[str, Any]]:
    """Rows as messages, each an object; with times one second apart where they ``begin``."""
    found = []
    for number, row in enumerate(rows.tolist()):
        time = {} if begin is None else {"time": begin + number}
        found.append((topic, {**time, **dict(zip(names, row, strict=True))}))
    return found
