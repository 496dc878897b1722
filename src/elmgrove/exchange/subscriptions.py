"""Subscriptions: which topics are asked of a broker, and who hears their messages."""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from elmgrove.errors import require_extra
from elmgrove.exchange.broker_address import Message, require_topic

matcher: Any = require_extra("paho.mqtt.matcher", "mqtt")

#: Hears a message. MUST be quick, and wait for nothing of the broker: it has the broker's thread.
Hears = Callable[[Message], None]


@dataclass(frozen=True)
class Subscribed:
    """Some topics, who hears them, and whether that lasts when a link is lost."""

    topics: tuple[str, ...]
    hears: Hears
    lasts: bool


class Subscriptions:
    """Keeps who hears which topic: the last one who asked for it. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all = list[Subscribed]()
        # Those of their topics that the broker has acknowledged: the others are still asked for.
        self._acknowledged = set[str]()
        self._hearing = matcher.MQTTMatcher()

    def add(self, topics: Sequence[str], hears: Hears, *, lasts: bool) -> Subscribed:
        """Lets who asks now hear these topics, and nobody else."""
        made = Subscribed(tuple(map(require_topic, topics)), hears, lasts)
        self._change(topics, made)
        return made

    def remove(self, topics: Collection[str]) -> None:
        """Lets nobody hear these topics."""
        self._change(topics)

    def acknowledge(self, topics: Collection[str]) -> None:
        """Takes note that the broker knows who wants these topics."""
        with self._lock:
            self._acknowledged.update(topics)

    def again(self) -> list[str]:
        """Gives the topics that a new link has to ask for again."""
        with self._lock:
            lasting = [topic for one in self._all if one.lasts for topic in one.topics]
            return [topic for topic in lasting if topic in self._acknowledged]

    def hearing(self, topic: str) -> list[Hears]:
        """Gives those who hear a message under this topic, each once though several match."""
        return [*dict.fromkeys(self._hearing.iter_match(topic))]

    def _change(self, topics: Collection[str], *added: Subscribed) -> None:
        hearing = matcher.MQTTMatcher()
        with self._lock:
            left = [
                replace(one, topics=tuple(topic for topic in one.topics if topic not in topics))
                for one in self._all
            ]
            self._all = [one for one in (*left, *added) if one.topics]
            self._acknowledged.difference_update(topics)
            for one in self._all:
                for topic in one.topics:
                    hearing[topic] = one.hears
            self._hearing = hearing
