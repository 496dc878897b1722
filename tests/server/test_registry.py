"""Federations and their devices over HTTP: made, shown, let in, revoked and deleted."""

import asyncio
import json
import math
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.server.secrets import Passwords
from support.serving import (
    ADMIN,
    Federation,
    Server,
    charter,
    contents,
    refused,
    seeded_contribution,
)


def test_a_federation_is_made_shown_listed_and_deleted(server: Server) -> None:
    made = server.found(charter(ridge=0.25, members=("fan-*",)))
    name = made.charter.name
    for secret in (ADMIN, made.token):
        shown = made.ask("GET", "", secret)
        assert Charter.from_fields(shown.json()) == made.charter
        assert "token" not in shown.json()
    listed = server.ask("GET", "/v1/federations", ADMIN).json()["federations"]
    assert name in listed
    assert listed == sorted(listed)
    assert made.ask("DELETE", "", ADMIN).status_code == 204
    assert name not in server.ask("GET", "/v1/federations", ADMIN).json()["federations"]
    refused(made.ask("GET", "", ADMIN), "not-found")


def test_a_taken_name_changes_nothing(server: Server, fans: Federation) -> None:
    before = contents(server.store)
    fields = replace(fans.charter, ridge=9.0).fields
    refused(server.ask("POST", "/v1/federations", ADMIN, json=fields), "taken")
    assert contents(server.store) == before
    assert fans.ask("GET", "", fans.token).status_code == 200


GOOD = charter("good").fields


def altered(path: tuple[str, ...], value: object) -> bytes:
    """The definition with another value at one place, as JSON."""
    fields: dict[str, Any] = json.loads(json.dumps(GOOD))
    if path != ("fingerprint",):
        del fields["fingerprint"]  # it may be left out, and would not fit
    place = fields
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json_with_nan(fields)


def json_with_nan(fields: Any) -> bytes:
    """httpx writes no NaN and no lone surrogates."""
    return json.dumps(fields).encode()


# What a refusal speaks of; a part that is no object at all has no field to be named.
SAID = {"features": "feature", "kind": "scaling", "shift": "scaling"}
SAID |= dict.fromkeys(("basis", "layer", "scaling"), "definition")


#: Half a character: JSON can write it, and nothing else can.
HALF = "\ud800"
#: What each place of a definition can't hold.
WRONG: dict[tuple[str, ...], list[object]] = {
    ("name",): ["", "two words", "../up", "x" * 65, 7, HALF],
    ("ridge",): [-1.0, math.nan, float("inf"), 10**400, "much"],
    ("alarm",): [HALF],
    (HALF,): [1],
    ("members",): [7, "fan-*", [7], [f"fan-{HALF}*"]],
    ("basis",): [[]],
    ("basis", "layer"): ["none"],
    ("basis", "layer", "units"): [0, 2.5, True, "3"],
    ("basis", "layer", "inputs"): [-6],
    ("basis", "layer", "seed"): [-1, math.nan],
    ("basis", "layer", "activation"): ["softmax", ["sigmoid"]],
    ("basis", "layer", "weights"): ["sparse"],
    ("basis", "outputs"): [5, None],
    ("basis", "features"): ["abcdef", ["a", "b"], *([*"abcde", x] for x in (math.nan, {}, HALF))],
    ("basis", "scaling"): [3],
    ("basis", "scaling", "kind"): ["log", "minmax"],
    ("basis", "scaling", "shift"): [[1.0]],
    ("fingerprint",): ["0" * 64, math.nan],
}


@pytest.mark.parametrize(
    ("path", "value"),
    [(path, value) for path, values in WRONG.items() for value in values],
    ids=lambda value: repr(value)[:30],
)
def test_a_bad_definition_is_refused_with_the_field_named(
    server: Server, path: tuple[str, ...], value: object
) -> None:
    before = contents(server.store)
    body = altered(path, value)
    problem = refused(server.ask("POST", "/v1/federations", ADMIN, content=body), "malformed")
    named = "can't be encoded" if b"\\ud800" in body else SAID.get(path[-1], path[-1])
    assert named in problem["detail"]
    assert contents(server.store) == before


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"x"', b"\xff", b"null", b"[" * 100_000, b'{"a":' * 100_000]
)
def test_a_body_that_is_no_json_object_is_refused(server: Server, body: bytes) -> None:
    problem = refused(server.ask("POST", "/v1/federations", ADMIN, content=body), "malformed")
    assert "JSON" in problem["detail"]


@pytest.mark.parametrize("units", [5000, 10**18, 10**3000], ids=["many", "too many", "a number"])
def test_a_layer_too_large_for_the_server_is_refused(server: Server, units: int) -> None:
    body = altered(("basis", "layer", "units"), units)
    problem = refused(server.ask("POST", "/v1/federations", ADMIN, content=body), "too-large")
    assert "bytes that a server takes" in problem["detail"]


def test_patterns_tell_which_devices_may_join(server: Server) -> None:
    made = server.found(charter(members=("fan-?", "pump *")))
    made.enrol("fan-1", "pump of the garden")
    for name in ("fan-12", "Fan-1", "xfan-1", "pump"):
        refused(made.ask("POST", "/devices", made.token, json={"name": name}), "forbidden")
    # Nor can the administrator let in a device whose contributions would be refused.
    refused(made.ask("POST", "/devices", ADMIN, json={"name": "x"}), "forbidden")
    listed = made.ask("GET", "/devices", ADMIN).json()["devices"]
    assert [device["name"] for device in listed] == ["fan-1", "pump of the garden"]
    told = [one for one in server.audit(made.charter.name) if one.act == "refused"]
    assert {(one.actor, one.detail["kind"]) for one in told} == {
        ("join token", "forbidden"),
        ("administrator root", "forbidden"),
    }
    assert "names that may join: fan-?, pump *" in told[0].detail["reason"]


@pytest.mark.parametrize(
    "name", [None, 7, "", ".hidden", "two\nlines", "nul\0", "x" * 201, "ü" * 50, "\ud800"], ids=repr
)
def test_a_name_that_can_not_be_one_is_refused(fans: Federation, name: object) -> None:
    body = json_with_nan({"name": name})
    problem = refused(fans.ask("POST", "/devices", fans.token, content=body), "malformed")
    assert "name" in problem["detail"]


def test_no_secret_is_in_the_data_base(server: Server, fans: Federation) -> None:
    fans.put(seeded_contribution("fan-1", 1))
    anna = server.administrator(f"anna-of-{fans.charter.name}", "look")
    held = repr(contents(server.store))
    assert "fan-1" in held  # so one would be seen
    for secret in (ADMIN, anna, fans.token, *fans.keys.values()):
        assert secret not in held
        assert secret[-20:] not in held


def test_revoking_makes_the_key_worthless_and_takes_the_part_out(fans: Federation) -> None:
    for number, name in enumerate(fans.keys):
        fans.put(seeded_contribution(name, number))
    assert fans.merged("fan-1").devices == 2
    assert fans.ask("DELETE", "/devices/fan-2", ADMIN).status_code == 204
    merged = fans.merged("fan-1")
    assert merged.devices == 1
    assert merged.evidence.close_to(seeded_contribution("fan 3/ü", 2).evidence)
    refused(fans.put(seeded_contribution("fan-2", 1, 50)), "forbidden")
    revoked = {
        d["name"]: d["revoked"] for d in fans.ask("GET", "/devices", ADMIN).json()["devices"]
    }
    assert revoked == {"fan-1": False, "fan-2": True, "fan 3/ü": False}
    # The token does not let it in again; the administrator does.
    refused(fans.ask("POST", "/devices", fans.token, json={"name": "fan-2"}), "taken")
    fans.keys["fan-2"] = fans.ask("POST", "/devices", ADMIN, json={"name": "fan-2"}).json()["key"]
    assert fans.put(seeded_contribution("fan-2", 1, 50)).status_code == 200
    assert fans.merged("fan-1").devices == 2


def test_a_device_at_the_last_epoch_that_there_is_can_be_revoked(fans: Federation) -> None:
    fans.put(seeded_contribution("fan-2", 2, epoch=2**62 - 1))
    assert fans.ask("DELETE", "/devices/fan-2", ADMIN).status_code == 204
    assert fans.merged("fan-1").devices == 0


def test_more_rows_than_there_can_be_are_refused(fans: Federation) -> None:
    """Devices that differ by powers of two up to 1e200 would make a sum of hundreds of parts."""
    for weight, status in ((2.0**62, 422), (2.0**50, 200)):
        parts = (seeded_contribution("fan-1", 1).evidence.weighted(weight),)
        assert fans.put(Contribution("fan-1", 20, parts)).status_code == status


@pytest.mark.parametrize("epoch", [2**62, 2**63 - 2, 2**63 - 1])
def test_an_epoch_that_no_rows_explain_is_refused(
    server: Server, fans: Federation, epoch: int
) -> None:
    before = contents(server.store)
    problem = refused(fans.put(seeded_contribution("fan-2", 2, epoch=epoch)), "malformed")
    assert "epoch" in problem["detail"]
    leaving = fans.ask("DELETE", f"/contributions/fan-2?epoch={epoch}", fans.keys["fan-2"])
    refused(leaving, "malformed")
    assert contents(server.store) == before


def test_a_name_that_a_stolen_key_burnt_is_cleared_and_goes_on(fans: Federation) -> None:
    for name, seed in (("fan-1", 1), ("fan 3/ü", 3)):
        fans.put(seeded_contribution(name, seed))
    assert fans.merged("fan-1", merge="fan 3/ü,fan-2").devices == 1
    assert fans.put(seeded_contribution("fan-2", 7, 50, epoch=2**62 - 1)).status_code == 200
    assert fans.merged("fan-1").devices == 2
    assert fans.merged("fan-1", merge="fan 3/ü,fan-2").devices == 2
    honest = seeded_contribution("fan-2", 2)
    refused(fans.put(honest), "outdated")
    assert fans.ask("DELETE", "/entries/fan-2", ADMIN).status_code == 204
    assert "fan-2" not in fans.entries()
    assert fans.merged("fan-1").evidence.close_to(seeded_contribution("fan 3/ü", 3).evidence)
    assert fans.merged("fan-1", merge="fan 3/ü,fan-2").devices == 1
    refused(fans.ask("DELETE", "/entries/fan-2", ADMIN), "not-found")
    assert fans.put(honest).status_code == 200
    assert fans.merged("fan-1").devices == 2
    # A departure at such an epoch would burn the name as well.
    leaving = fans.ask("DELETE", f"/contributions/fan-2?epoch={2**62 - 1}", fans.keys["fan-2"])
    assert leaving.status_code == 204
    refused(fans.put(seeded_contribution("fan-2", 2, 30)), "outdated")
    assert fans.ask("DELETE", "/entries/fan-2", ADMIN).status_code == 204
    assert fans.put(honest).status_code == 200


def test_a_device_may_make_its_key_itself_and_ask_twice(fans: Federation) -> None:
    key, other = f"elm-key-{'a' * 43}", f"elm-key-{'b' * 43}"
    asked = {"name": "fan-9", "key": key}
    for _ in range(2):
        answer = fans.ask("POST", "/devices", fans.token, json=asked)
        assert (answer.status_code, answer.json()["key"]) == (201, key)
        assert fans.ask("GET", "", key).status_code == 200
    for wrong in ("", "elm-key-short", key + "a", key[:-1] + "ä", 7, None, f"elm-join-{'a' * 43}"):
        refused(fans.ask("POST", "/devices", fans.token, json={**asked, "key": wrong}), "malformed")
    refused(fans.ask("POST", "/devices", fans.token, json={**asked, "key": other}), "taken")
    assert fans.ask("DELETE", "/devices/fan-9", ADMIN).status_code == 204
    refused(fans.ask("POST", "/devices", fans.token, json=asked), "taken")
    refused(fans.ask("GET", "", key), "forbidden")


def test_joining_takes_a_few_names_and_no_more(fans: Federation) -> None:
    """To read megabytes keeps everybody waiting, and to keep them as a reason fills the memory."""
    long = {"name": "fan-9", "more": "x" * 2**14}
    refused(fans.ask("POST", "/devices", fans.token, json=long), "too-large")
    named = {"name": "x" * 10_000}
    problem = refused(fans.ask("POST", "/devices", fans.token, json=named), "malformed")
    assert len(problem["detail"]) < 300


# Administrators over HTTP: added with a role, listed, removed, refused at once

WHERE = "/v1/administrators"


def names(server: Server) -> dict[str, Any]:
    answer = server.ask("GET", WHERE, ADMIN)
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
    assert names(server)["bert"]["expires"] == added.json()["expires"]
    assert names(server)["anna"]["role"] == "manage"
    assert fans.ask("GET", "/devices", bert).status_code == 200
    problem = refused(fans.ask("DELETE", "/devices/fan-1", bert), "forbidden")
    assert "'bert' may look and change nothing" in problem["detail"]
    assert fans.ask("DELETE", "/devices/fan-1", anna).status_code == 204
    assert fans.told("revoked", "refused") == [
        ("administrator bert", "refused"),
        ("administrator anna", "revoked"),
    ]


def test_one_who_was_removed_is_refused_at_once(server: Server, fans: Federation) -> None:
    token = server.administrator("carl", "manage")
    assert fans.ask("GET", "/devices", token).status_code == 200
    assert server.ask("DELETE", f"{WHERE}/carl", ADMIN).status_code == 204
    refused(fans.ask("GET", "/devices", token), "unauthorized")
    refused(put(server, "carl", token), "unauthorized")
    refused(server.ask("DELETE", f"{WHERE}/carl", ADMIN), "not-found")
    refused(put(server, "carl", ADMIN), "not-found")
    late = server.administrator("dora", "manage", days=1e-9)
    problem = refused(server.ask("GET", WHERE, late), "forbidden")
    assert "expired on" in problem["detail"]
    assert "elmgrove federation administrators" in problem["detail"]


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
    assert "emil-2" not in names(server)
    assert fans.told("joined", "readmitted", "token renewed")[-1][1] == "token renewed"


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({"name": "root", "role": "look"}, "taken"),
        ({"name": "frida", "role": "manage"}, "taken"),
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
    server.ask("POST", WHERE, ADMIN, json={"name": "frida", "role": "look"})
    before = contents(server.store)
    refused(server.ask("POST", WHERE, ADMIN, json=asked), kind)
    assert contents(server.store) == before


# Passwords over HTTP: who may set whose, what is kept of them, and what ends with them

LONG = "correct horse battery"


def put(server: Server, name: str, secret: str, password: Any = LONG) -> Any:
    return server.ask("PUT", f"{WHERE}/{name}/password", secret, json={"password": password})


def kept(server: Server, name: str) -> str | None:
    """What the data base has of a password."""
    hashed: str | None
    [hashed] = [row[-1] for row in contents(server.store)["administrator"] if row[0] == name]
    return hashed


def test_a_password_is_kept_as_a_hash_and_nowhere_else(server: Server) -> None:
    server.administrator("fred", "look")
    assert put(server, "fred", ADMIN).status_code == 204
    hashed = kept(server, "fred")
    assert hashed is not None
    assert hashed.startswith("$argon2id$")
    assert asyncio.run(Passwords().matches(LONG, hashed))
    assert not asyncio.run(Passwords().matches(LONG + "!", hashed))
    told = repr(names(server)) + repr(server.audit())
    assert "password set" in told
    for text in (LONG, hashed):
        assert text not in told
    assert names(server)["fred"]["password"]
    assert put(server, "fred", ADMIN).status_code == 204
    assert kept(server, "fred") != hashed, "each has a salt of its own"
    assert server.ask("DELETE", f"{WHERE}/fred/password", ADMIN).status_code == 204
    assert (kept(server, "fred"), names(server)["fred"]["password"]) == (None, False)


def test_one_who_looks_may_change_its_own_and_nobody_elses(server: Server) -> None:
    gina, hugo = server.administrator("gina", "look"), server.administrator("hugo", "manage")
    assert put(server, "gina", gina).status_code == 204
    assert put(server, "gina", hugo).status_code == 204
    mine = kept(server, "gina")
    refused(put(server, "hugo", gina), "forbidden")
    refused(server.ask("DELETE", f"{WHERE}/hugo/password", gina), "forbidden")
    assert (kept(server, "gina"), kept(server, "hugo")) == (mine, None)
    assert server.ask("DELETE", f"{WHERE}/gina/password", gina).status_code == 204
    problem = refused(put(server, "root", ADMIN), "not-found")
    assert "the token that the server was started with" in problem["detail"]


@pytest.mark.parametrize(
    "wrong", [None, "", "x" * 11, "x" * 257, 123456789012, [LONG], {"": LONG}, True], ids=repr
)
def test_what_is_no_password_is_refused(server: Server, wrong: Any) -> None:
    name = f"jo-{abs(hash(repr(wrong)))}"
    server.administrator(name, "look")
    refused(put(server, name, ADMIN, wrong), "malformed")
    assert kept(server, name) is None
