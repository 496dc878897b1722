"""``elmgrove federation audit``: shown, exported, checked."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from support.commands import Elmgrove, Ran, one_clear_line
from support.serving import ADMIN, Federation, Server, seeded_contribution

Ask = Callable[..., Ran]


@pytest.fixture(name="ask")
def ask_fixture(elmgrove: Elmgrove, running_server: Server, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("ELMGROVE_ADMIN_TOKEN", ADMIN)
    where = ("--server", running_server.base)
    return lambda *words: elmgrove("federation", *where, "audit", *words)


@pytest.fixture(name="name")
def name_fixture(federation: Federation) -> str:
    """A federation with four records: made, joined, joined, published."""
    federation.enrol("fan-1", "fan-2")
    assert federation.put(seeded_contribution("fan-1", 1)).status_code == 200
    return federation.charter.name


def lines(shown: str) -> list[list[str]]:
    """The cells of the lines with which a record begins."""
    found = [[cell.strip() for cell in line.split("│")] for line in shown.splitlines()]
    return [cells for cells in found if len(cells) > 1 and cells[1].isdigit()]


def test_the_newest_are_shown_last(ask: Ask, name: str) -> None:
    shown = lines(ask(name).out)
    assert [cells[4] for cells in shown] == ["made", "joined", "joined", "published"]
    assert shown[-1][3] == "device fan-1"
    assert "rows 20," in shown[-1][5]
    assert "fan-2" not in ask(name, "--device", "fan-1").out


def test_all_is_exported_and_checked(ask: Ask, name: str) -> None:
    lines = [json.loads(line) for line in ask(name, "--json").out.splitlines()]
    assert [line["number"] for line in lines] == [1, 2, 3, 4]
    whole = ask(name, "--check")
    assert (whole.code, "All records up to 4" in whole.out) == (0, True)
    assert lines[-1]["hash"] in whole.out


@pytest.mark.parametrize(
    ("change", "printed"),
    [
        ("UPDATE audit SET actor = 'nobody' WHERE number = 3", "record 3 of"),
        ("DELETE FROM audit WHERE number = 3", "follows record 4"),
    ],
)
def test_the_first_record_that_is_wrong_or_missing_is_named(
    ask: Ask, name: str, running_server: Server, change: str, printed: str
) -> None:
    path = running_server.store.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"{change} AND federation = '{name}'")
    assert printed in one_clear_line(ask(name, "--check"))


def test_all_pages_are_exported(ask: Ask, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmgrove.cli.audit._PAGE", 3)
    assert len(ask(name, "--json").out.splitlines()) == 4
    assert "up to 4" in ask(name, "--check").out


def test_the_server_has_a_chain_of_its_own(ask: Ask, running_server: Server) -> None:
    running_server.administrator("emil", "look")
    assert "administrator added" in ask().out
    assert ask("--check").code == 0
    assert "There are no such records of no-such." in one_clear_line(ask("no-such", "--check"))
    assert ask("no-such").code == 0


def test_what_can_not_be_is_refused(ask: Ask, name: str) -> None:
    assert "needs all records" in one_clear_line(ask(name, "--check", "--device", "fan-1"))
    assert ask("none").err == "There are no such records of none.\n"
