"""``elmgrove device``: what its commands say, beside what the agent does."""

from pathlib import Path

import pytest

from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.exchange.folder import FolderExchange
from elmgrove.federation.contribution import Departure
from elmgrove.storage.disk import save
from support.agents import address
from support.commands import Elmgrove, one_clear_line
from support.exchanges import Reply, saying
from support.factories import detector_in, normal_rows, write_rows
from support.ports import reserved_port
from support.serving import Federation, charter, seeded_contribution


@pytest.fixture(autouse=True)
def in_its_folder(elmgrove: Elmgrove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A federation's device with some rows, and a file of them."""
    write_rows(Path("fan.csv"), normal_rows(1, 20))
    save(Path("like.evidence"), seeded_contribution("x", 99))


def run(elmgrove: Elmgrove, name: str, *words: object) -> None:
    """``device run`` until the end of the file."""
    made = ("--name", name, "--state", f"{name}.elm", "--source", f"{name}.csv")
    assert elmgrove("device", "run", *made, "--verdicts", "", *words).code == 0


def test_who_leaves_is_no_longer_counted_and_may_join_again(
    elmgrove: Elmgrove, federation: Federation
) -> None:
    joined = ("--exchange", address(federation), "--token", federation.token)
    run(elmgrove, "fan", *joined)
    ran = elmgrove("device", "leave", address(federation), "--state", "fan.elm")
    assert (ran.code, ran.out) == (0, "")
    assert "fan left" in ran.err
    assert federation.entries()["fan"]["left"]
    run(elmgrove, "fan", *joined)
    entry = federation.entries()["fan"]
    assert (entry["left"], entry["count"]) == (False, 20)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"<html>Please log in.</html>"),
        Reply.json({"origin": "fan", "epoch": 21, "revision": 1}),
        Reply(302, b"", {"Location": "/login"}),
    ],
)
def test_nobody_has_left_a_network_that_wants_a_login(elmgrove: Elmgrove, reply: Reply) -> None:
    run(elmgrove, "fan", "--like", "like.evidence")
    Path("fan.key").write_text("key")
    with saying(lambda asked: reply) as url:
        ran = elmgrove("device", "leave", f"{url}/fans", "--state", "fan.elm")
    assert "is no Elmgrove exchange" in one_clear_line(ran)


def test_leaving_a_folder(elmgrove: Elmgrove) -> None:
    FolderExchange.create(Path("shared"), charter("fans"))
    run(elmgrove, "fan", "--exchange", "shared")
    assert elmgrove("device", "leave", "shared", "--state", "fan.elm").code == 0
    (entry,) = FolderExchange(Path("shared")).entries()
    assert isinstance(entry, Departure)


def test_leaving_needs_the_exchange_and_a_key(elmgrove: Elmgrove, federation: Federation) -> None:
    run(elmgrove, "fan", "--like", "like.evidence")
    assert "needs the federation's token" in one_clear_line(
        elmgrove("device", "leave", address(federation), "--state", "fan.elm")
    )
    Path("fan.key").write_text("guessed")
    with reserved_port() as port:
        for where in (f"http://127.0.0.1:{port}/fans", address(federation), "nowhere"):
            one_clear_line(elmgrove("device", "leave", where, "--state", "fan.elm"))
    assert detector_in("fan.elm").learned == 20


def test_errors_are_one_clear_line(elmgrove: Elmgrove, tmp_path: Path) -> None:
    run(elmgrove, "fan", "--like", "like.evidence")
    Path("half.elm").write_bytes(Path("fan.elm").read_bytes()[:99])
    state = ("--state", "fan.elm")
    for words, complaint in (
        (("--source", "nothing.csv"), "nothing.csv"),
        (("--source", "fan.csv", "--state", "half.elm"), "half.elm"),
        (("--source", "fan.csv", "--state", "nowhere/fan.elm"), "nowhere/fan.elm"),
        (("--source", "fan.csv", "--like", "fan.csv", "--state", "new.elm"), "fan.csv"),
        (("--source", "fan.csv", "--verdicts", "nowhere/x"), "nowhere/x"),
        (("--source", "fan.csv", "--command", "no-such-program"), "no-such-program"),
        (("--source", "fan.csv", "--webhook", "mail:me"), "webhook"),
        (("--source", "fan.csv", "--rate", 2, "--state", "new.elm"), "rate"),
        (("--source", "fan.csv", "--name", "a\nb", "--state", "new.elm"), "origin"),
        (("--source", "fan.csv", "--name", "pump"), "the state of 'fan'"),
    ):
        text = one_clear_line(elmgrove("device", "run", *state, "--verdicts", "", *words))
        assert complaint in text


def test_the_help_of_run_has_what_most_need(elmgrove: Elmgrove) -> None:
    shown = elmgrove("device", "run", "--help").out
    assert all(f"--{name} " in shown for name in ("source", "exchange", "webhook", "help-all"))
    assert "--alarm" not in shown
    assert shown.count("\n") < 60


def test_the_help_of_run_with_all_options_is_in_groups(elmgrove: Elmgrove) -> None:
    ran = elmgrove("device", "run", "--help-all")
    headings = [line.split("─ ")[1].split(" ─")[0] for line in ran.out.splitlines() if "╭─" in line]
    assert headings[0] == "Options"
    assert sorted(headings[1:]) == ["Alarms", "Device", "Fleet", "New device", "Source"]
    below = ran.out.split("─ Alarms ─")[1].split("╰")[0]
    for option in ("--rate", "--alarm", "--on-change"):
        assert option in below
    assert "New device:" not in below


def test_a_secret_in_the_list_of_processes_is_told(
    elmgrove: Elmgrove,
    federation: Federation,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path("fans.token").write_text(f"{federation.token}\n")
    joining = ("device", "run", "--source", "fan.csv", "--verdicts", "", "--exchange")
    asked = (*joining, address(federation), "--token")
    told = "--token can be read in the list of processes"
    assert elmgrove(*asked, federation.token, "--name", "a", "--state", "a.elm").code == 0
    assert f"{told}: use ELMGROVE_DEVICE_TOKEN or --token @FILE instead" in caplog.text
    caplog.clear()
    assert elmgrove(*asked, "@fans.token", "--name", "b", "--state", "b.elm").code == 0
    monkeypatch.setenv("ELMGROVE_DEVICE_TOKEN", federation.token)
    assert elmgrove(*asked[:-1], "--name", "c", "--state", "c.elm").code == 0
    assert told not in caplog.text
    assert federation.entries().keys() == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("url", "warns"),
    [
        ("http://192.0.2.7:8470/fans", True),
        ("http://server:8470/fans", True),
        ("https://192.0.2.7:8470/fans", False),
        ("http://localhost:8470/fans", False),
        ("http://[::1]:8470/fans", False),
        ("a-folder", False),
    ],
)
def test_a_key_that_would_leave_without_tls_is_told(
    url: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent(Settings(exchange=url, state="fan.elm"))
    exchange = agent._opened_exchange("fan")
    assert exchange is not None
    exchange.close()
    assert ("without TLS whoever sees the traffic" in caplog.text) == warns
