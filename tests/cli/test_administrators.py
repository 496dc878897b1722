"""``elmgrove federation administrator``: who may look at a server, and who may manage it."""

from collections.abc import Callable

import pytest

from support.commands import Elmgrove, Ran, one_clear_line
from support.serving import ADMIN, Federation, Server

Ask = Callable[..., Ran]


@pytest.fixture(name="ask")
def ask_fixture(elmgrove: Elmgrove, running_server: Server) -> Ask:
    """``elmgrove federation`` with this token, or the server's."""

    def ask(*words: object, token: str = ADMIN) -> Ran:
        where = ("--server", running_server.base, "--admin-token", token)
        return elmgrove("federation", *where, *words)

    return ask


def test_added_with_a_role_listed_and_removed(ask: Ask, federation: Federation) -> None:
    name = federation.charter.name
    added = ask("administrator", "add", "anna", "--days", "90")
    assert added.code == 0
    assert "anna may look, with this token (valid until" in added.err
    anna = added.out.strip()
    bert = ask("administrator", "add", "bert", "--role", "manage").out.strip()
    assert ask("show", name, token=anna).code == 0
    assert "'anna' may look" in one_clear_line(ask("token", name, token=anna))
    assert ask("token", name, token=bert).code == 0
    listed = ask("administrator", "list", token=anna).out
    lines = {line.split()[1]: line for line in listed.splitlines() if "│" in line}
    assert ("look" in lines["anna"], "valid until" in lines["anna"]) == (True, True)
    assert "manage" in lines["bert"]
    assert "bert is no administrator any more." in ask("administrator", "remove", "bert").err
    assert "A valid token" in one_clear_line(ask("token", name, token=bert))
    assert "no administrator 'bert'" in one_clear_line(ask("administrator", "remove", "bert"))
