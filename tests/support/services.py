"""Services that some tests need: used where they are, skipped or demanded where they are not."""

import os
from typing import NoReturn

import pytest


def unavailable(reason: str, what: str = "SERVICES") -> NoReturn:
    """Skips, or fails where ELMGROVE_TEST_REQUIRE_SERVICES=1 says that all services are there.

    Flower has an environment of its own, and so ELMGROVE_TEST_REQUIRE_FLOWER.
    """
    if os.environ.get(f"ELMGROVE_TEST_REQUIRE_{what}") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


async def execute(url: str, statement: str) -> None:
    """Runs one statement on a PostgreSQL server."""
    import asyncpg  # an extra: only who has the service needs it

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
