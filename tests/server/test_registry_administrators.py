"""Administrators over HTTP: added with a role, listed, removed, refused at once."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.serving import ADMIN, Federation, Server, contents, refused

WHERE = "/v1/administrators"


def names(server: Server, secret: str) -> dict[str, Any]:
    answer = server.ask("GET", WHERE, secret)
    assert answer.status_code == 200, answer.text
    return {one["name"]: one for one in answer.json()["administrators"]}


@contextmanager
def dripping(
    server: Server, path: str, secret: str, asked: dict[str, str]
) -> Iterator[Callable[[], int]]:
    """A request whose secret was found to be valid, and what sends its last byte: the status."""
    host, port = server.base.removeprefix("http://").split(":")
    body = json.dumps(asked).encode()
    # The server asks for the body only after it has looked at the secret.
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {secret}\r\n"
        f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), 60) as wire:
        wire.sendall(head.encode())
        assert b" 100 " in wire.recv(1000)

        def end() -> int:
            wire.sendall(body)
            return int(wire.recv(1000).split()[1])

        yield end


def test_one_who_looks_reads_all_and_one_who_manages_adds_others(
    server: Server, fans: Federation
) -> None:
    anna = server.administrator("anna", "manage")
    added = server.ask("POST", WHERE, anna, json={"name": "bert", "role": "look", "days": 2})
    assert added.status_code == 201
    bert = added.json()["token"]
    assert names(server, bert)["bert"]["expires"] == added.json()["expires"]
    assert names(server, bert)["anna"]["role"] == "manage"
    for path in ("/devices", "/entries", "", "/contributions", "/merged", "/groups"):
        assert fans.ask("GET", path, bert).status_code == 200
    problem = refused(fans.ask("DELETE", "/devices/fan-1", bert), "forbidden")
    assert "'bert' may look and change nothing" in problem["detail"]
    assert fans.ask("DELETE", "/devices/fan-1", anna).status_code == 204
    assert fans.told("revoked", "refused") == [
        ("administrator bert", "refused"),
        ("administrator anna", "revoked"),
    ]


def test_removed_is_refused_at_once_and_so_is_expired(server: Server, fans: Federation) -> None:
    token = server.administrator("carl", "manage")
    assert fans.ask("GET", "/devices", token).status_code == 200
    assert server.ask("DELETE", f"{WHERE}/carl", ADMIN).status_code == 204
    refused(fans.ask("GET", "/devices", token), "unauthorized")
    refused(server.ask("GET", "/v1/federations", token), "unauthorized")
    refused(server.ask("DELETE", f"{WHERE}/carl", ADMIN), "not-found")
    late = server.administrator("dora", "manage", days=1e-9)
    for answer in (fans.ask("GET", "/devices", late), server.ask("GET", WHERE, late)):
        problem = refused(answer, "forbidden")
        assert "expired on" in problem["detail"]
        assert "elmgrove federation administrator add" in problem["detail"]


def test_what_is_under_way_when_a_token_ends_is_not_done(server: Server, fans: Federation) -> None:
    """A body that drips in would otherwise let one who was removed add another, minutes later."""
    token = server.administrator("emil", "manage")
    joining = f"{fans.path}/devices"
    with (
        dripping(server, WHERE, token, {"name": "emil-2", "role": "manage"}) as adding,
        dripping(server, joining, fans.token, {"name": "fan-9"}) as late,
        dripping(server, joining, token, {"name": "fan-1"}) as readmitting,
    ):
        assert server.ask("DELETE", f"{WHERE}/emil", ADMIN).status_code == 204
        assert fans.ask("POST", "/token", ADMIN).status_code == 200
        assert [one() for one in (adding, late, readmitting)] == [401, 401, 401]
    assert "emil-2" not in names(server, ADMIN)
    assert fans.told("joined", "readmitted", "token renewed")[-1][1] == "token renewed"


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({"name": "root", "role": "look"}, "taken"),
        ({"name": "two words", "role": "look"}, "malformed"),
        ({"role": "look"}, "malformed"),
        ({"name": "erna", "role": "device"}, "malformed"),
        ({"name": "erna", "role": ["look"]}, "malformed"),
        ({"name": "erna", "role": "look", "days": 0}, "malformed"),
        ({"name": "erna", "role": "look", "days": "1"}, "malformed"),
    ],
    ids=repr,
)
def test_what_can_be_no_administrator_is_refused(
    server: Server, asked: dict[str, Any], kind: str
) -> None:
    before = contents(server.store)
    refused(server.ask("POST", WHERE, ADMIN, json=asked), kind)
    assert contents(server.store) == before


def test_a_name_is_there_once_and_its_token_is_nowhere(server: Server) -> None:
    token = server.administrator("frida", "look")
    again = {"name": "frida", "role": "manage"}
    refused(server.ask("POST", WHERE, ADMIN, json=again), "taken")
    assert names(server, ADMIN)["frida"]["role"] == "look"
    held = repr(contents(server.store))
    assert "frida" in held
    assert token not in held
