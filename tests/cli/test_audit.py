"""``elmgrove federation audit``: shown, exported, checked here and elsewhere, pruned."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import Elmgrove, Ran, one_clear_line
from support.serving import ADMIN, Federation, Server, said

Ask = Callable[..., Ran]


@pytest.fixture(name="ask")
def ask_fixture(elmgrove: Elmgrove, running_server: Server) -> Ask:
    where = ("--server", running_server.base, "--admin-token", ADMIN)
    return lambda *words: elmgrove("federation", *where, "audit", *words)


@pytest.fixture(name="name")
def name_fixture(federation: Federation) -> str:
    """A federation with four records: made, joined, joined, published."""
    federation.enrol("fan-1", "fan-2")
    assert federation.put(said("fan-1", 1)).status_code == 200
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
    assert [cells[4] for cells in lines(ask(name, "--limit", 2).out)] == ["joined", "published"]
    assert "fan-2" not in ask(name, "--device", "fan-1").out
    assert "published" not in ask(name, "--since", "2999-01-01").out
    assert "published" in ask(name, "--since", "2001-01-01T12:00:00").out


def test_an_export_is_checked_where_it_is(ask: Ask, name: str) -> None:
    text = ask(name, "--json").out
    Path("kept.jsonl").write_text(text)
    lines = text.splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 2, 3, 4]
    whole = ask(name, "--check")
    assert (whole.code, "All records up to 4" in whole.out) == (0, True)
    assert json.loads(lines[-1])["hash"] in whole.out
    assert ask("--check", "--file", "kept.jsonl").out == whole.out
    assert ask(name, "--check", "--file", "kept.jsonl").out == whole.out
    said = one_clear_line(ask("vans", "--check", "--file", "kept.jsonl"))
    assert f"kept.jsonl, line 1: a record of {name!r}" in said
    Path("kept.jsonl").write_text(ask(name, "--json", "--device", "fan-2").out)
    assert "without --since" in one_clear_line(ask(name, "--check", "--file", "kept.jsonl"))
    Path("kept.jsonl").write_text(text.replace("fan-2", "fan-3"))
    assert "record 3 of" in one_clear_line(ask("--check", "--file", "kept.jsonl"))
    Path("kept.jsonl").write_text("\n".join([lines[0], *lines[2:]]))
    assert "follows record 3" in one_clear_line(ask("--check", "--file", "kept.jsonl"))
    Path("kept.jsonl").write_text(lines[0] + "\n{")
    said = one_clear_line(ask("--check", "--file", "kept.jsonl"))
    assert "kept.jsonl, line 2: not a record" in said


def test_all_pages_are_exported(ask: Ask, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmgrove.cli.audit._PAGE", 3)
    assert len(ask(name, "--json").out.splitlines()) == 4
    assert "up to 4" in ask(name, "--check").out


def test_pruned_it_is_still_whole(ask: Ask, name: str) -> None:
    assert "Deleted 0 records." in ask(name, "--prune", 1).err
    assert "Deleted 4 records; one in their place says so." in ask(name, "--prune", 0).err
    assert "All records up to 5" in ask(name, "--check").out
    assert "pruned" in ask(name).out


def test_the_server_has_a_chain_of_its_own(ask: Ask, running_server: Server) -> None:
    running_server.administrator("emil", "look")
    assert "administrator added" in ask().out
    assert ask("--check").code == 0
    assert "There are no such records of no-such." in one_clear_line(ask("no-such", "--check"))
    assert ask("no-such").code == 0


def test_what_can_not_be_is_refused(ask: Ask, name: str) -> None:
    assert "needs all records" in one_clear_line(ask(name, "--check", "--limit", 5))
    Path("kept.jsonl").write_text("")
    assert "--json first" in one_clear_line(ask(name, "--prune", 5, "--json"))
    assert "by age alone" in one_clear_line(ask(name, "--prune", 5, "--limit", 2))
    assert ask("none").err == "There are no such records of none.\n"
    assert "--check as well" in one_clear_line(ask("--file", "kept.jsonl"))
