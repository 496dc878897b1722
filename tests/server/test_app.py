"""The server: whether it works, and what it does not take."""

import asyncio
import re
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, HiddenLayer, Scaling
from elmgrove.federation.charter import Charter
from support.services import execute
from support.serving import (
    ADMIN,
    Federation,
    Server,
    charter,
    refused,
    seeded_contribution,
    serving,
    wait_until,
)


def test_a_server_says_that_it_is_alive_and_ready(server: Server) -> None:
    for path, status in (("/health", "ok"), ("/ready", "ready")):
        answer = server.ask("GET", path)
        assert (answer.status_code, answer.json()["status"]) == (200, status)


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_without_its_data_base_a_server_is_alive_but_not_ready(database: str) -> None:
    with serving(database) as server:
        fans = server.found(charter())
        fans.enrol("fan-1")
        schema = database.rpartition("=")[2]
        asyncio.run(execute(database, f"ALTER SCHEMA {schema} RENAME TO {schema}_away"))
        assert server.ask("GET", "/health").status_code == 200
        refused(server.ask("GET", "/ready"), "unavailable")
        refused(fans.put(seeded_contribution("fan-1", 1)), "unavailable")
        asyncio.run(execute(database, f"ALTER SCHEMA {schema}_away RENAME TO {schema}"))
        assert server.ask("GET", "/ready").status_code == 200
        assert fans.put(seeded_contribution("fan-1", 1)).status_code == 200


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_server_finds_its_data_base_again(database: str) -> None:
    name = database.rpartition("=")[2]
    with serving(f"{database}&application_name={name}") as server:
        fans = server.found(charter())
        fans.enrol("fan-1")
        ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ="
        asyncio.run(execute(database, f"{ending} '{name}'"))
        # Some requests may still meet a connection that was lost; each is replaced.
        wait_until(lambda: server.ask("GET", "/ready").status_code == 200)
        wait_until(lambda: fans.put(seeded_contribution("fan-1", 1)).status_code == 200)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_longer_than_any_contribution_is_refused(fans: Federation, chunked: bool) -> None:
    body: Any = b"x" * 1_000_000
    problem = refused(
        fans.ask(
            "PUT",
            "/contributions/fan-1",
            fans.keys["fan-1"],
            content=iter([body[:500_000], body[500_000:]]) if chunked else body,
        ),
        "too-large",
    )
    # The bound follows from the layer: far less than what the server takes at most.
    assert int(re.findall(r"\d+", problem["detail"])[0]) < 20_000


def test_the_longest_honest_contribution_is_not_too_long(database: str) -> None:
    names = tuple(f'"\\ü{n}' * 10 for n in range(200))
    scaling = Scaling.standard([1 / 3] * 200, [2 / 3] * 200)
    made = Charter("long", Basis(HiddenLayer(inputs=200, units=2), 200, names, scaling))
    with serving(database) as server:
        fans = server.found(made)
        name = "ü" * 33
        fans.enrol(name)
        member = made.start(name)
        member.detector.learn_many(np.random.default_rng(0).normal(size=(5, 200)))
        assert fans.put(member.contribution()).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "%00"),
        ("DELETE", "/devices/a%00"),
        ("GET", "/merged?without=%00"),
        ("GET", "/contributions/%00"),
        ("GET", "/contributions?origin=a%00"),
    ],
)
def test_a_nul_character_is_no_part_of_a_name(fans: Federation, method: str, path: str) -> None:
    refused(fans.ask(method, path, ADMIN), "malformed")
