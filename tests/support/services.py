"""Services that some tests need: used where they are, skipped or demanded where they are not."""

import asyncio
import os
import secrets
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NoReturn
from urllib.parse import urlsplit

import pytest


def unavailable(reason: str, what: str = "SERVICES") -> NoReturn:
    """Skips, or fails where ELMGROVE_TEST_REQUIRE_SERVICES=1 says that all services are there.

    Flower has an environment of its own, and so ELMGROVE_TEST_REQUIRE_FLOWER.
    """
    if os.environ.get(f"ELMGROVE_TEST_REQUIRE_{what}") == "1":
        pytest.fail(reason)
    pytest.skip(reason)  # a user's machine need not have it


async def execute(url: str, statement: str) -> None:
    """Runs one statement on a PostgreSQL server."""
    import asyncpg  # an extra: only a machine with the service needs it

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def flower() -> None:
    """Flower is there."""
    if find_spec("flwr") is None:
        unavailable("needs Flower: run .ci/flower", "FLOWER")


@pytest.fixture(scope="session")
def prometheus() -> None:
    """Prometheus and promtool are there."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        unavailable("needs Prometheus: run .ci/prometheus make test, or install it")


@pytest.fixture(scope="session")
def mosquitto() -> None:
    """The broker mosquitto is there, and what speaks with it."""
    if shutil.which("mosquitto") is None or shutil.which("mosquitto_passwd") is None:
        unavailable("needs mosquitto: run .ci/mosquitto make test, or install it")


@pytest.fixture(scope="session")
def nginx() -> None:
    """The proxy nginx is there."""
    if shutil.which("nginx") is None:
        unavailable("needs nginx: run .ci/nginx make test, or install it")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of an empty PostgreSQL data base, dropped at the end."""
    server = os.environ.get("ELMGROVE_TEST_POSTGRES")
    if not server:
        unavailable("needs PostgreSQL: run .ci/postgres make test, or set ELMGROVE_TEST_POSTGRES")
    name = f"elmgrove_test_{secrets.token_hex(4)}"
    asyncio.run(execute(server, f"CREATE DATABASE {name}"))
    yield urlsplit(server)._replace(path=f"/{name}").geturl()
    asyncio.run(execute(server, f"DROP DATABASE {name} WITH (FORCE)"))
