"""Guests of the dashboard: who has a cookie and reads forms, as a browser does without scripts."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

import httpx

from elmgrove.federation.charter import address_of
from elmgrove.federation.commands import Command
from elmgrove.federation.report import Report
from support.serving import ADMIN, Federation, Server, client

PASSWORD = "correct horse battery"


@dataclass
class Guest:
    """Somebody who looks at a server's pages; redirections to other pages are not followed."""

    http: httpx.Client

    def get(self, path: str, **headers: str) -> httpx.Response:
        answer = self.http.get(path, headers=headers)
        # An address without a range of time leads to the same with one.
        where = answer.headers.get("location", "")
        if where.partition("?")[0] != path.partition("?")[0]:
            return answer
        return self.http.get(where, headers=headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        stated = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return self.http.post(path, content=urlencode(fields), headers=stated)

    def login(self, token: str = ADMIN, **fields: str) -> httpx.Response:
        """By a token, or where a name is given by a password."""
        return self.post("/ui/login", fields if "name" in fields else {"token": token, **fields})

    @property
    def is_in(self) -> bool:
        answer = self.get("/ui/")
        assert answer.status_code in (200, 303)
        return answer.status_code == 200

    @property
    def csrf(self) -> str:
        """What the forms of this session hold."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.get("/ui/").text)
        assert found is not None
        return found[1]

    def logout(self) -> httpx.Response:
        return self.post("/ui/logout", {"csrf": self.csrf})


@contextmanager
def guest(server: Server, token: str | None = None) -> Iterator[Guest]:
    """A guest, who has logged in where a token is given."""
    with client(server.base) as http:
        made = Guest(http)
        if token is not None:
            answer = made.login(token)
            assert (answer.status_code, answer.headers["location"]) == (303, "/ui/"), answer.text
        yield made


def tell(federation: Federation, told: Report) -> list[Command]:
    """Lets a device tell a server how it is doing, as its agent does; gives what it is asked."""
    answer = try_to_tell(federation, told)
    assert answer.status_code == 200, answer.text
    return [Command.from_fields(one) for one in answer.json()["commands"]]


def try_to_tell(federation: Federation, told: Report) -> httpx.Response:
    where, key = f"/reports/{address_of(told.device)}", federation.keys[told.device]
    return federation.ask("PUT", where, key, json=told.fields)
