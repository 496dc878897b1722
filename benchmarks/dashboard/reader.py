"""Somebody who has logged in and asks for pages, over HTTP on one connection."""

from http.client import HTTPConnection
from time import perf_counter
from typing import NamedTuple
from urllib.parse import urlencode

_PATIENCE = 300.0
_FORM = "application/x-www-form-urlencoded"


class Seen(NamedTuple):
    """What a request for a page brought: after how many ms, and how many bytes."""

    status: int
    milliseconds: float
    size: int


class PageReader:
    """A session of an administrator: the cookie, and a connection that stays open."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
        own = f"http://127.0.0.1:{port}"
        headers = {"Content-Type": _FORM, "Origin": own, "Sec-Fetch-Site": "same-origin"}
        self._connection.request("POST", "/ui/login", urlencode({"token": token}), headers)
        answer = self._connection.getresponse()
        answer.read()
        # What ends an older session comes first.
        cookie = (answer.headers.get_all("set-cookie") or [""])[-1].partition(";")[0]
        if answer.status != 303 or not cookie:
            raise RuntimeError(f"the login was answered with {answer.status}")
        self._headers = {"Cookie": cookie}

    def read(self, path: str) -> Seen:
        """Asks for a page and reads all of it."""
        begin = perf_counter()
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        size = len(answer.read())
        return Seen(answer.status, 1e3 * (perf_counter() - begin), size)

    def close(self) -> None:
        """Hangs up."""
        self._connection.close()
