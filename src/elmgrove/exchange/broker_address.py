"""Where a broker is, and what passes through it."""

from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from elmgrove.errors import BadInput

_PORTS = {"mqtt": 1883, "mqtts": 8883}
_LIKE = "mqtt://host/topic, or mqtts://user@host:8883/topic with TLS"


def is_at_broker(url: str) -> bool:
    """Says whether a URL leads to a broker."""
    scheme, found, _ = url.partition("://")
    return bool(found) and scheme in _PORTS


@dataclass(frozen=True)
class Message:
    """What is published under a topic; the broker gives one that is ``retained`` to latecomers.

    One that came has the number of the ``link`` that brought it. One for which the broker waits
    to hear that it was dealt with has a ``number`` there, and may be coming ``again``.
    """

    topic: str
    payload: bytes
    retained: bool = False
    link: int = field(default=0, compare=False)
    number: int = field(default=0, compare=False)
    again: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class BrokerAddress:
    """A broker, who one is there, and the topic under which everything is; ``''`` for the root.

    >>> BrokerAddress.parsed("mqtts://fan-1@broker.local/elmgrove/fans")
    BrokerAddress(host='broker.local', port=8883, secure=True, user='fan-1', topic='elmgrove/fans')
    """

    host: str
    port: int
    secure: bool
    user: str
    topic: str

    @classmethod
    def parsed(cls, url: str) -> "BrokerAddress":
        """Reads ``mqtt://host:port/topic``; what follows the first slash is the topic as it is.

        ``BadInput`` for anything else, and for a password: a URL is shown in logs and by ``ps``.
        """
        scheme, _, rest = url.partition("://")
        where, _, topic = rest.partition("/")
        shown = f"{scheme}://{where.rpartition('@')[2]}/{topic}"
        try:
            # Not the topic: '#' and '?' have a meaning of their own there.
            parts = urlsplit(f"{scheme}://{where}")
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise BadInput(f"{shown!r:.200}: {error}; a broker's URL is {_LIKE}") from error
        if scheme not in _PORTS or not host or port == 0:
            raise BadInput(f"{shown!r:.200} is no broker's URL, which is {_LIKE}")
        if parts.password is not None:
            raise BadInput(f"{shown!r:.200}: a password does not belong into a URL; set it apart")
        topic = topic.strip("/")
        _require_topic(topic or "/")
        user = unquote(parts.username or "")
        return cls(host, port or _PORTS[scheme], scheme == "mqtts", user, topic)

    def under(self, *levels: str) -> str:
        """Gives the topic of some levels under this address.

        >>> BrokerAddress.parsed("mqtt://host/elmgrove").under("fan-1", "status")
        'elmgrove/fan-1/status'
        """
        return "/".join(filter(None, (self.topic, *levels)))

    @property
    def place(self) -> str:
        """The host and port, as an error names them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        scheme = "mqtts" if self.secure else "mqtt"
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        return f"{scheme}://{user}{self.place}/{self.topic}"


def _require_topic(topic: str) -> None:
    if not topic.isprintable() or len(topic.encode()) > 65_535:
        raise BadInput(f"a topic has 1 to 65,535 printable bytes: {topic!r:.80}")
    levels = topic.split("/")
    if "#" in topic and (topic.count("#") > 1 or levels[-1] != "#"):
        raise BadInput(f"in a topic # stands alone, at the end: {topic!r:.80}")
    if any("+" in level and level != "+" for level in levels):
        raise BadInput(f"in a topic + stands alone between two slashes: {topic!r:.80}")
