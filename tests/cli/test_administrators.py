"""``elmgrove federation administrators``: who may look at a server, and who may manage it."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing

import pytest

from support.commands import Elmgrove, Ran, one_clear_line
from support.serving import ADMIN, Federation, Server

Ask = Callable[..., Ran]


@pytest.fixture(name="ask")
def ask_fixture(elmgrove: Elmgrove, running_server: Server, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """``elmgrove federation`` with this token, or the server's."""

    def ask(*words: object, token: str = ADMIN) -> Ran:
        monkeypatch.setenv("ELMGROVE_ADMIN_TOKEN", token)
        return elmgrove("federation", "--server", running_server.base, *words)

    return ask


def test_added_with_a_role_listed_and_removed(ask: Ask, federation: Federation) -> None:
    name = federation.charter.name
    added = ask("administrators", "anna", "--add", "look", "--days", "90")
    assert added.code == 0
    assert "anna may look, with this token (valid until" in added.err
    anna = added.out.strip()
    bert = ask("administrators", "bert", "--add", "manage").out.strip()
    assert ask("show", name, token=anna).code == 0
    assert "'anna' may look" in one_clear_line(ask("token", name, token=anna))
    assert ask("token", name, token=bert).code == 0
    listed = ask("administrators", token=anna).out
    lines = {line.split()[1]: line for line in listed.splitlines() if "│" in line}
    assert ("look" in lines["anna"], "valid until" in lines["anna"]) == (True, True)
    assert "manage" in lines["bert"]
    assert "bert is no administrator any more." in ask("administrators", "bert", "--remove").err
    assert "A valid token" in one_clear_line(ask("token", name, token=bert))
    assert "no administrator 'bert'" in one_clear_line(ask("administrators", "bert", "--remove"))


# Passwords

LONG = "correct horse battery"


@pytest.fixture(name="stored")
def stored_fixture(running_server: Server) -> Callable[[str], bool]:
    """Says whether an administrator has a password, as the server knows it."""

    def stored(name: str) -> bool:
        found = running_server.ask("GET", "/v1/administrators", ADMIN).json()["administrators"]
        return next(bool(one["password"]) for one in found if one["name"] == name)

    return stored


def test_a_password_is_read_listed_and_taken_away(
    ask: Ask, stored: Callable[[str], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    carla = ask("administrators", "carla", "--add", "look").out.strip()
    assert not stored("carla")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f" {LONG} \nmore\n"))
    ran = ask("administrators", "carla", "--password", token=carla)
    assert (ran.code, ran.out) == (0, "")
    assert "carla can log in with this password" in ran.err
    assert stored("carla")
    listed = ask("administrators").out
    assert [line.split()[-2] for line in listed.splitlines() if "carla" in line] == ["yes"]
    assert LONG not in ran.err + listed
    assert "no password any more" in ask("administrators", "carla", "--no-password").err
    assert not stored("carla")


def test_what_is_no_password_is_refused(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    ask("administrators", "dora", "--add", "look")
    for text, why in (
        ("short\n", "12 to 256 characters"),
        ("x" * 257, "12 to 256 characters"),
        ("", "no password on standard input"),
        ("\n", "no password on standard input"),
    ):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        assert why in one_clear_line(ask("administrators", "dora", "--password"))
    for words in (("dora",), ("dora", "--password", "--remove"), ("--remove",)):
        assert "a name with one of --add" in one_clear_line(ask("administrators", *words))
    monkeypatch.setattr(sys, "stdin", io.StringIO(LONG))
    nobody = one_clear_line(ask("administrators", "nobody", "--password"))
    assert "no administrator 'nobody'" in nobody
    monkeypatch.setattr(sys, "stdin", io.StringIO(LONG))
    root = one_clear_line(ask("administrators", "root", "--password"))
    assert "the token that the server was started with" in root


@pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX")
def test_a_password_is_asked_for_twice_and_not_shown(
    ask: Ask, stored: Callable[[str], bool], running_server: Server
) -> None:
    ask("administrators", "erik", "--add", "look")
    master, terminal = os.openpty()
    words = ("federation", "--server", running_server.base)
    running = subprocess.Popen(
        [sys.executable, "-m", "elmgrove", *words, "administrators", "erik", "--password"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    seen = b""
    with closing(os.fdopen(master, "r+b", buffering=0)) as screen:
        for prompt in (b"Password of erik: ", b"for confirmation: "):
            while prompt not in seen:
                seen += screen.read(1000)
            screen.write(f"{LONG}\n".encode())
        while b"can log in" not in seen:
            seen += screen.read(1000)
        assert running.wait(60) == 0
    assert LONG.encode() not in seen
    assert stored("erik")
