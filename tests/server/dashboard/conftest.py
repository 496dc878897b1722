"""Fixtures of the dashboard's tests."""

from collections.abc import Iterator

import pytest

from support.dashboard import Guest, guest
from support.serving import ADMIN, Server, serving


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests of a module."""
    with serving(f"sqlite:///{tmp_path_factory.mktemp('server')}/store.db") as running:
        yield running


@pytest.fixture(name="ada")
def ada_fixture(server: Server) -> Iterator[Guest]:
    """One who may manage."""
    with guest(server, ADMIN) as made:
        yield made
