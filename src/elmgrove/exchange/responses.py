"""Responses of an exchange or an agent: believed as far as they are what was asked for.

Somebody else may answer: the page of a network that wants a login, a proxy, the wrong
machine. What is not as it must be is ``Unreachable``: it may be better the next time.
"""

import ipaddress
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from elmgrove.errors import ElmgroveError, Outdated, Refused, Unauthorized, Unreachable

#: Seconds for which an exchange may ask to be left alone.
MOST_PATIENCE = 300.0


def plain(text: str, longest: int = 300) -> str:
    """Makes a line for logs and terminals of what somebody else may have said.

    >>> plain("no \\n such\\x1b[2J device")
    'no such?[2J device'
    """
    short = " ".join(text[: 2 * longest].split())
    safe = "".join(letter if letter.isprintable() else "?" for letter in short)
    return safe if len(safe) <= longest else safe[: longest - 1] + "…"


def is_loopback(host: str) -> bool:
    """Say whether what is sent to a host stays on this machine.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("10.0.0.7")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def no_response(host: str, why: str) -> Unreachable:
    """Makes the error for what no exchange and no agent says."""
    return Unreachable(f"{host} is no Elmgrove exchange or agent: {plain(why)}")


class Fields(dict[str, Any]):
    """An object of JSON that somebody said: a field that is missing or no such thing is an error.

    >>> Fields("host", {"size": "much"}).whole("size")
    Traceback (most recent call last):
    elmgrove.exchange.base.Unreachable: host is no Elmgrove exchange or agent: size is 'much'
    """

    def __init__(self, host: str, found: Mapping[str, Any]) -> None:
        super().__init__(found)
        self._host = host

    def __missing__(self, name: str) -> Any:
        raise no_response(self._host, f"its answer has no {name!r}")

    def text(self, name: str) -> str:
        """Gives a text of printable letters, and at least one."""
        found = self[name]
        if not isinstance(found, str) or not found or not found.isprintable():
            raise self._wrong(name)
        return found

    def whole(self, name: str, most: int = 2**63 - 1) -> int:
        """Gives a whole number from 0 to ``most``."""
        found = self[name]
        if type(found) is not int or not 0 <= found <= most:
            raise self._wrong(name)
        return found

    def number(self, name: str) -> float:
        """Gives a finite number from 0 on."""
        found = self[name]
        if type(found) not in (int, float) or not 0 <= found <= sys.float_info.max:
            raise self._wrong(name)
        return float(found)

    def number_or_none(self, name: str) -> float | None:
        """Gives a finite number from 0 on, or None where it is null."""
        return None if self[name] is None else self.number(name)

    def texts(self, name: str) -> list[str]:
        """Gives a list of texts."""
        return [Fields(self._host, {name: one}).text(name) for one in self._list(name)]

    def flag(self, name: str) -> bool:
        """Gives what is true or false."""
        found = self[name]
        if not isinstance(found, bool):
            raise self._wrong(name)
        return found

    def each(self, name: str) -> "Iterator[Fields]":
        """Gives the objects of a list, one by one: of millions, the first wrong one is the last."""
        for one in self._list(name):
            if not isinstance(one, dict):
                raise self._wrong(name)
            yield Fields(self._host, one)

    def _list(self, name: str) -> list[Any]:
        found = self[name]
        if not isinstance(found, list):
            raise self._wrong(name)
        return found

    def _wrong(self, name: str) -> Unreachable:
        # The beginning of it: a whole number may have more digits than can be written.
        found = self[name]
        shown = f"{found!r:.60}" if isinstance(found, str) else f"no such thing ({_sort(found)})"
        return no_response(self._host, f"{name} is {shown}")


def _sort(found: Any) -> str:
    return "null" if found is None else type(found).__name__


@dataclass(frozen=True)
class Response:
    """What came back: the status, the whole body, and for how long to leave the host alone."""

    host: str
    status: int
    content: bytes
    retry_after: float = 0.0

    def json(self) -> Fields:
        """Gives the object of JSON that the body is."""
        try:
            found = json.loads(self.content)
        except (ValueError, RecursionError) as error:
            raise self.unlike(f"it answered {self.status}, and no JSON") from error
        if not isinstance(found, dict):
            raise self.unlike(f"it answered {self.status}, and no object of JSON")
        return Fields(self.host, found)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turns what can't be made of this answer, inside ``with``, into ``Unreachable``."""
        try:
            yield
        except Unreachable:
            raise
        except ElmgroveError as error:
            raise self.unlike(str(error)) from error

    def unlike(self, why: str) -> Unreachable:
        """Makes the error for an answer that no exchange gives."""
        return no_response(self.host, why)

    def refusal(self) -> ElmgroveError:
        """Makes the error that an answer other than the expected one stands for."""
        problem = self._problem()
        said = f"it answered {self.status}" if problem is None else _told(problem)
        if self.status >= 500 or self.status == 429:
            return Unreachable(f"{self.host}: {said}", self.retry_after)
        if problem is None or self.status < 400:
            return self.unlike(f"it answered {self.status}")
        if self.status in (401, 403):
            return Unauthorized(said)
        if "held_epoch" in problem:
            return Outdated(said, problem.whole("held_epoch"), problem.flag("shrunk"))
        return Refused(said)

    def _problem(self) -> Fields | None:
        """The problem document (RFC 9457) that Elmgrove refuses with; None if this is another's."""
        try:
            found = self.json()
        except Unreachable:
            return None
        is_ours = isinstance(found.get("type"), str) and found["type"].startswith(
            "urn:elmgrove:problem:"
        )
        return found if is_ours else None


def _told(problem: Fields) -> str:
    said = (problem.get("title"), problem.get("detail"))
    return plain(": ".join(text for text in said if isinstance(text, str)))


def patience(stated: str | None) -> float:
    """Reads the seconds that a Retry-After asks for, within reason; 0 where it states none.

    >>> patience("20"), patience("Wed, 21 Oct 2026 07:28:00 GMT"), patience("9" * 40)
    (20.0, 0.0, 300.0)
    """
    if stated is None or not (stated.isascii() and stated.isdigit()):
        return 0.0
    return MOST_PATIENCE if len(stated) > 9 else min(float(stated), MOST_PATIENCE)
