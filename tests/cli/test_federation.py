"""``elmgrove federation``: what an administrator does."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from elmgrove.cli import federation
from elmgrove.cli.options import moment
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.errors import Unauthorized
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.http import HttpExchange
from elmgrove.federation.policy import Terms
from elmgrove.storage.disk import save
from support.agents import NAMES
from support.commands import Elmgrove, Ran, one_clear_line
from support.exchanges import Reply, saying
from support.factories import member_in, normal_rows, write_rows
from support.ports import reserved_port
from support.reports import report, status
from support.serving import ADMIN, Federation, Server, alter, charter, flipped, seeded_contribution

Ask = Callable[..., Ran]
_numbers = iter(range(1000))


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("ELMGROVE_SERVER", "ELMGROVE_ADMIN_TOKEN"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def ask(elmgrove: Elmgrove, running_server: Server) -> Ask:
    """``elmgrove federation`` with the token of this server, from its file."""
    Path("elmgrove.admin").write_text(ADMIN + "\n")
    return lambda *words: elmgrove("federation", "--server", running_server.base, *words)


@pytest.fixture
def name(ask: Ask) -> str:
    """A federation whose devices are called fan-a or fan-b."""
    save(Path("like.evidence"), seeded_contribution("x", 99))
    made = f"made-{next(_numbers)}"
    ran = ask("create", made, "--like", "like.evidence", "--member", "fan-[ab]", "--merged")
    assert ran.code == 0
    Path("token").write_text(ran.out.strip())
    return made


def run_device(server: Server, federation: str, device: str = "fan-a", seed: int = 1) -> None:
    write_rows(Path(f"{device}.csv"), normal_rows(seed, 20))
    Agent(
        Settings(
            name=device,
            state=f"{device}.elm",
            source=f"{device}.csv",
            verdicts="",
            exchange=f"{server.base}/{federation}",
            token=Path("token").read_text(),
        )
    ).run()


def test_create_prints_the_token_and_nothing_else(ask: Ask, running_server: Server) -> None:
    write_rows(Path("sample.csv"), normal_rows(1, 50) * 5 + 1, NAMES)
    ran = ask("create", "sampled", "--data", "sample.csv")
    assert ran.code == 0
    token = ran.out.removesuffix("\n")
    assert "\n" not in token
    assert f"{running_server.base}/sampled" in ran.err
    with HttpExchange(f"{running_server.base}/sampled", "fan", token=token) as exchange:
        made = exchange.charter
    assert (made.ridge, made.basis.scaling.kind, made.members) == (1e-3, "standard", None)
    assert made.basis.features == tuple(NAMES)


def test_a_state_that_has_learned_decides_layer_and_columns(
    ask: Ask, elmgrove: Elmgrove, running_server: Server
) -> None:
    write_rows(Path("sample.csv"), normal_rows(1, 50) * 5 + 1, NAMES)
    given = {"--units": 4, "--activation": "tanh", "--scaling": "minmax"}
    options = [word for pair in given.items() for word in pair]
    learned = elmgrove("learn", "sample.csv", "-s", "s.elm", "--drop", NAMES[0], *options)
    assert learned.code == 0
    token = ask("create", "alike", "--like", "s.elm").out.strip()
    with HttpExchange(f"{running_server.base}/alike", "fan", token=token) as exchange:
        made = exchange.charter
    layer = made.basis.layer
    assert (layer.inputs, layer.units, layer.activation) == (5, 4, "tanh")
    assert made.basis.scaling.kind == "minmax"
    assert made.basis.features == tuple(NAMES[1:])


def test_keys_expire_if_asked(ask: Ask, running_server: Server) -> None:
    save(Path("like.evidence"), seeded_contribution("x", 99))
    made = ask("create", "ending", "--like", "like.evidence", "--key-days", 30)
    Federation(running_server, charter("ending"), made.out.strip()).enrol("fan-a")
    assert "valid until 2" in ask("show", "ending").out
    wrong = ask("create", "wrong", "--like", "like.evidence", "--key-days", -1)
    assert "key_days is a number above 0" in one_clear_line(wrong)


def test_terms_are_stated_and_shown(ask: Ask, name: str, running_server: Server) -> None:
    usual = "a key reads sums of 1 device or more"
    assert usual in " ".join(ask("show", name).out.split())
    words = ("--like", "like.evidence", "--least", 3)
    token = ask("create", "open", *words).out.strip()
    with HttpExchange(f"{running_server.base}/open", "fan", token=token) as exchange:
        assert exchange.charter.terms == Terms(least=3)
    assert "a key reads sums of 3 devices or more" in ask("show", "open").out


def test_a_device_that_counts_with_less_than_it_states_is_named(
    ask: Ask, name: str, running_server: Server
) -> None:
    words = ("--like", "like.evidence", "--most-rows", 50)
    token = ask("create", "bounded", *words).out.strip()
    fans = Federation(running_server, charter("bounded"), token)
    fans.enrol("small", "large")
    with HttpExchange(f"{running_server.base}/bounded", "fan", token=token) as exchange:
        assert exchange.charter.terms == Terms(most_rows=50)
    for origin, times in (("small", 1.0), ("large", 50_000.0)):
        made = seeded_contribution(origin, 1)
        fans.put(replace(made, parts=(made.evidence.weighted(times),)))
    shown = " ".join(ask("show", "bounded").out.split())
    assert "a device counts with at most 50 rows" in shown
    assert "large counts as 50 of 1,000,000 rows: at most 50 rows of a device count." in shown
    assert "small counts" not in shown
    usual = "a device counts with at most 1,000,000 rows"
    assert usual in " ".join(ask("show", name).out.split())
    assert ask("create", "wrong", "--like", "like.evidence", "--most-rows", "many").code == 2


def test_a_folder_promises_nothing_that_it_can_not_keep(ask: Ask, name: str) -> None:
    create = ("create", "fans", "--like", "like.evidence", "--exchange", "shared")
    assert "only a server can" in one_clear_line(ask(*create, "--least", 2))
    assert not Path("shared").exists()
    assert "--key-days: devices need no key" in one_clear_line(ask(*create, "--key-days", 3))
    assert not Path("shared").exists()
    assert "each sees what every other contributed" in ask(*create).err


def test_a_layer_as_another_has_it(name: str, running_server: Server) -> None:
    token = Path("token").read_text()
    with HttpExchange(f"{running_server.base}/{name}", "fan-a", token=token) as exchange:
        assert exchange.charter.basis == charter("x").basis
        assert exchange.charter.members == ("fan-[ab]",)
    with pytest.raises(Unauthorized):
        _ = HttpExchange(f"{running_server.base}/{name}", "fan-c", token=token).charter


def test_list_and_delete(ask: Ask, name: str) -> None:
    assert name in ask("show").out.splitlines()
    ran = ask("delete", name, "--yes")
    assert (ran.code, f"Deleted {name}." in ran.err) == (0, True)
    assert name not in ask("show").out.splitlines()
    assert "Error: " in one_clear_line(ask("show", name))


def test_delete_asks_first(ask: Ask, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = ask("delete", name)  # nobody there to say yes
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert name in ask("show").out.splitlines()


def test_show_tells_of_layer_and_devices(ask: Ask, name: str, running_server: Server) -> None:
    run_device(running_server, name)
    Federation(running_server, charter(name), Path("token").read_text()).enrol("fan-b")
    shown = ask("show", name).out
    assert "6 columns, 3 hidden units, sigmoid" in shown
    assert "members fan-[ab]" in shown, "brackets are no markup"
    lines = {line.split()[1]: line for line in shown.splitlines() if "fan-" in line and "│" in line}
    assert "valid" in lines["fan-a"]
    assert " 20 " in lines["fan-a"]
    assert "never" in lines["fan-b"]


def test_show_tells_how_devices_are_doing(ask: Ask, running_server: Server) -> None:
    fans = running_server.found(charter())
    fans.enrol("fan-1", "fan-2", "fan-3", "fan-4")
    drifts = status(state="changing", drift={"text": "flow fell"}, event={"number": 1})
    for told in (report(), report("fan-2", status=drifts), report("fan-4")):
        name, key = told.device, fans.keys[told.device]
        answer = fans.ask("PUT", f"/reports/{name}", key, json=told.fields)
        assert answer.status_code == 200, answer.text
    fans.ask("DELETE", "/devices/fan-4", ADMIN)
    shown = ask("show", fans.charter.name).out
    lines = {line.split()[1]: line for line in shown.splitlines() if "fan-" in line and "│" in line}
    cells = {name: [cell.strip() for cell in line.split("│")[2:5]] for name, line in lines.items()}
    assert cells["fan-1"][:2] == ["valid", "watching"]
    assert cells["fan-2"][:2] == ["valid", "changing, an event is open, drift"]
    assert cells["fan-3"] == ["valid", "has reported nothing", ""]
    assert cells["fan-4"][:2] == ["revoked", ""]
    for name in ("fan-1", "fan-2", "fan-4"):
        assert abs(moment(cells[name][2]) - time.time()) < 600


def test_show_asks_for_all_devices_of_a_large_fleet(
    ask: Ask, running_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(federation, "_reports", partial(federation._reports, page=2))
    fans = running_server.found(charter())
    fans.enrol(*(f"fan-{n}" for n in range(5)))
    assert ask("show", fans.charter.name).out.count("has reported nothing") == 5


def test_show_prints_names_as_they_are(ask: Ask, running_server: Server) -> None:
    federation = running_server.found(charter())
    federation.enrol("[/red]:fire:")
    ran = ask("show", federation.charter.name)
    assert (ran.code, "[/red]:fire:" in ran.out) == (0, True)


def test_a_new_token_replaces_the_old_one(ask: Ask, name: str, running_server: Server) -> None:
    old, new = Path("token").read_text(), ask("token", name).out.strip()
    where = f"{running_server.base}/{name}"
    with pytest.raises(Unauthorized):
        _ = HttpExchange(where, "fan-a", token=old).charter
    with HttpExchange(where, "fan-a", token=new) as exchange:
        assert exchange.charter.name == name


def test_a_name_that_a_stolen_key_burnt_is_cleared(
    ask: Ask, name: str, running_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def shown() -> str:
        return next(line for line in ask("show", name).out.splitlines() if "fan-a" in line)

    run_device(running_server, name)
    keys = {"fan-a": Path("fan-a.key").read_text()}
    thief = Federation(running_server, charter(name), "", keys)
    assert thief.put(seeded_contribution("fan-a", 9, 50, epoch=2**62 - 1)).status_code == 200
    run_device(running_server, name)
    assert " 50 " in shown()
    assert "elmgrove federation revoke --keep-key" in caplog.text
    ran = ask("revoke", name, "fan-a", "--keep-key")
    assert (ran.code, f"Nothing is held of fan-a in {name}" in ran.err) == (0, True)
    assert "never" in shown()
    run_device(running_server, name)
    assert " 20 " in shown()
    alter(running_server.store, name, "fan-a", flipped)
    assert thief.ask("GET", "/contributions/fan-a", ADMIN).status_code == 404
    assert "corrupt" in ask("show", name).out
    run_device(running_server, name)
    assert " 20 " in shown()
    assert "nothing is held of 'fan-b'" in one_clear_line(
        ask("revoke", name, "fan-b", "--keep-key")
    )


def test_revoked_and_readmitted(ask: Ask, name: str, running_server: Server) -> None:
    run_device(running_server, name, "fan-a", 1)
    run_device(running_server, name, "fan-b", 2)
    ran = ask("revoke", name, "fan-a")
    assert (ran.code, f"fan-a is out of {name}" in ran.err) == (0, True)
    assert "revoked" in next(line for line in ask("show", name).out.splitlines() if "fan-a" in line)
    write_rows(Path("fan-b.csv"), normal_rows(2, 30))
    run_device(running_server, name, "fan-b", 2)
    merged = member_in("fan-b.elm").merged
    assert merged is not None
    assert merged.devices == 0, "its part is gone"

    ran = ask("token", name, "fan-a")
    assert ran.code == 0
    Path("fan-a.key").write_text(ran.out)
    write_rows(Path("fan-a.csv"), normal_rows(1, 40))
    Agent(
        Settings(
            state="fan-a.elm",
            source="fan-a.csv",
            verdicts="",
            exchange=f"{running_server.base}/{name}",
        )
    ).run()
    run_device(running_server, name, "fan-b", 2)
    merged = member_in("fan-b.elm").merged
    assert merged is not None
    assert (merged.devices, merged.evidence.count) == (1, 40)


def test_a_folder_needs_no_server(elmgrove: Elmgrove) -> None:
    save(Path("like.evidence"), seeded_contribution("x", 99))
    create = ("federation", "create", "fans", "--like", "like.evidence", "--exchange", "shared")
    ran = elmgrove(*create)
    assert (ran.code, ran.out) == (0, "")
    assert "--exchange shared" in ran.err
    assert FolderExchange(Path("shared")).charter == charter("fans", merged=False)
    assert elmgrove(*create).code == 0, "the same again"
    other = elmgrove(*create[:2], "pumps", *create[3:])
    assert "defines another federation" in one_clear_line(other)


@pytest.mark.parametrize("merged", [False, True])
def test_whether_devices_merge_is_the_charters(
    ask: Ask, elmgrove: Elmgrove, running_server: Server, merged: bool
) -> None:
    save(Path("like.evidence"), seeded_contribution("x", 99))
    how = ("--like", "like.evidence", *["--merged"] * merged)
    made = f"merged-{next(_numbers)}"
    Path("token").write_text(ask("create", made, *how).out.strip())
    assert ("merged," in ask("show", made).out.replace("\n", " ")) == merged
    run_device(running_server, made)
    assert member_in("fan-a.elm").merges == merged
    assert elmgrove("federation", "create", "fans", *how, "--exchange", "shared").code == 0
    assert FolderExchange(Path("shared")).charter.merged == merged


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("create fans", "give one of them"),
        ("create fans --like like.evidence --data sample.csv", "give one of them"),
        ("create fans --like like.evidence --exchange http://x", "--exchange: a folder, or a"),
        ("create fans/x --like like.evidence", "a federation's name has 1 to 64 letters"),
        ("create fans --data header.csv", "header.csv"),
        ("show nothing", "there is no federation of this name"),
        ("token nothing", "there is no federation of this name"),
        ("revoke nothing fan-1", "there is no federation of this name"),
        ("token nothing fan-1", "there is no federation of this name"),
        ("delete nothing --yes", "there is no federation of this name"),
    ],
)
def test_an_error_is_one_clear_line(ask: Ask, words: str, complaint: str) -> None:
    save(Path("like.evidence"), seeded_contribution("x", 99))
    write_rows(Path("sample.csv"), normal_rows(1, 20))
    write_rows(Path("header.csv"), np.empty((0, 6)), NAMES)
    assert complaint in one_clear_line(ask(*words.split()))


COMMANDS = [
    ("show",),
    ("show", "x"),
    ("token", "x"),
    ("revoke", "x", "y"),
    ("token", "x", "y"),
    ("delete", "x", "--yes"),
]


@pytest.mark.parametrize("words", COMMANDS)
def test_without_a_token_it_says_where_one_is(elmgrove: Elmgrove, words: tuple[str, ...]) -> None:
    text = one_clear_line(elmgrove("federation", *words))
    assert "elmgrove.admin is not there" in text
    assert "--admin-token-file" in text


@pytest.mark.parametrize("words", COMMANDS)
def test_without_a_server_it_says_so(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    with reserved_port() as port:
        monkeypatch.setenv("ELMGROVE_ADMIN_TOKEN", "x")
        options = ("--server", f"http://127.0.0.1:{port}")
        assert "127.0.0.1" in one_clear_line(elmgrove("federation", *options, *words))


def test_a_wrong_token_is_told(elmgrove: Elmgrove, running_server: Server) -> None:
    Path("wrong").write_text("guessed")
    options = ("--server", running_server.base, "--admin-token-file", "wrong")
    assert "administrator" in one_clear_line(elmgrove("federation", *options, "show"))


@pytest.mark.parametrize(
    "words",
    [
        ("create", "fans", "--like", "like.evidence"),
        ("show",),
        ("show", "fans"),
        ("token", "fans"),
        ("revoke", "fans", "fan-a"),
        ("token", "fans", "fan-a"),
        ("delete", "fans", "--yes"),
    ],
)
def test_a_page_is_no_exchange(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Nor is what a server says that happens to speak JSON."""
    monkeypatch.setenv("ELMGROVE_ADMIN_TOKEN", "x")
    save(Path("like.evidence"), seeded_contribution("x", 99))
    replies = [
        Reply(200, b"<html>Please log in.</html>"),
        Reply.json({"token": ["x"], "key": None, "federations": [7], "devices": {}, "name": 1}),
        Reply(302, b"", {"Location": "/login"}),
    ]
    left = iter(replies)
    with saying(lambda asked: next(left)) as url:
        for _ in replies:
            ran = elmgrove("federation", "--server", url, *words)
            assert "is no Elmgrove exchange" in one_clear_line(ran)
