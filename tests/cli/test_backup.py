"""``elmgrove backup``, and where it and ``serve`` get the store's URL from."""

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmgrove.cli.serve import shown_store
from support.commands import Elmgrove, one_clear_line
from support.serving import ADMIN, charter, serving


@pytest.fixture(autouse=True)
def no_store_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ELMGROVE_STORE", "CREDENTIALS_DIRECTORY"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Iterator[str]:
    """A store with a federation, and a server that uses it."""
    with serving(str(tmp_path / "fleet.db")) as server:
        server.found(charter("fans"))
        yield "fleet.db"


def test_a_copy_of_the_back_up_is_a_store(elmgrove: Elmgrove, store: str) -> None:
    ran = elmgrove("backup", "--store", store, "backup.db")
    assert (ran.code, ran.out, ran.err) == (0, "", "Wrote backup.db.\n")
    assert stat.S_IMODE(Path("backup.db").stat().st_mode) == 0o600
    ran = elmgrove("backup", "--store", store, "backup.db")
    assert "backup.db is there already" in one_clear_line(ran)
    shutil.copy("backup.db", "new.db")
    with serving("new.db") as server:
        assert server.ask("GET", "/v1/federations", ADMIN).json()["federations"] == ["fans"]


def test_the_url_comes_from_the_environment_or_from_a_file(
    elmgrove: Elmgrove, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("url").write_text(f"sqlite:///{store}\n")
    Path("url").chmod(0o640)
    assert "chmod 600 url" in one_clear_line(elmgrove("backup", "--store-file", "url", "a.db"))
    # What systemd hands over is for the service alone.
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(Path.cwd()))
    assert elmgrove("backup", "--store-file", "url", "a.db").code == 0
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    Path("url").chmod(0o600)
    monkeypatch.setenv("ELMGROVE_STORE", store)
    assert elmgrove("backup", "b.db").code == 0
    assert elmgrove("backup", "--store-file", "url", "c.db").code == 0
    both = elmgrove("backup", "--store", store, "--store-file", "url", "d.db")
    assert "not both" in one_clear_line(both)
    Path("url").write_text("\n")
    assert "empty" in one_clear_line(elmgrove("backup", "--store-file", "url", "d.db"))


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("postgresql://me:secret@127.0.0.1:1/fleet", True),
        ("postgresql://127.0.0.1:1/fleet?password=secret", True),
        ("postgresql://me@127.0.0.1:1/fleet", False),
    ],
)
def test_a_password_on_the_command_line_is_warned_of_and_never_shown(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch, url: str, warned: bool
) -> None:
    ran = elmgrove("backup", "--store", url, "a.dump")
    assert ran.code == 1
    assert "pg_dump: see docs/backup.md" in ran.err
    assert ("--store-file" in ran.err) == warned
    assert "secret" not in ran.err
    monkeypatch.setenv("ELMGROVE_STORE", url)
    assert "--store-file" not in elmgrove("backup", "a.dump").err
    assert not Path("a.dump").exists()


def test_what_is_shown_of_a_store_holds_no_secret() -> None:
    assert shown_store("postgresql://me:secret@host/fleet?password=x") == "host/fleet"
    assert shown_store("fleet.db") == "fleet.db"
    assert shown_store("sqlite:////var/fleet.db") == "sqlite:////var/fleet.db"
