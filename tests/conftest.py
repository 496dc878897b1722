"""Services that some tests need: used where they are, skipped or demanded where they are not."""

import asyncio
import os
import secrets
from collections.abc import Iterator
from importlib.util import find_spec
from urllib.parse import urlsplit

import pytest

from support.services import execute, unavailable


@pytest.fixture(scope="session")
def flower() -> None:
    """Flower is there."""
    if find_spec("flwr") is None:
        unavailable("needs Flower: run .ci/flower", "FLOWER")


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
