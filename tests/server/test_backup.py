"""Back-ups: made while devices publish, restored as a whole, and never over anything by mistake."""

import re
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest

from elmgrove import BadFile, BadInput
from elmgrove.exchange import Session
from elmgrove.exchange.http import HttpExchange
from elmgrove.federation import Charter
from elmgrove.server import Holdings, back_up, restore
from elmgrove.server.store import backup_postgres, backup_sqlite
from elmgrove.storage import InUse
from support.contributions import DISTANT, cloud
from support.ports import free_port
from support.serving import (
    ADMIN,
    Server,
    answers,
    charter,
    contents,
    lose,
    process,
    said,
    serving,
    wait_until,
)
from support.summaries import event, minute, summary

CHARTER = Charter("fans", DISTANT)
NAMES = ("fan-1", "fan-2", "fan-3")


def quiet(share: float | None) -> None:
    assert share is None or 0.0 <= share <= 1.0


def written(store: str, path: Path, **more: bool) -> Holdings:
    return back_up(store, path, tell=quiet, **more)


def put_back(path: Path, store: str, **more: bool) -> Holdings:
    return restore(path, store, tell=quiet, **more)


# Under load


class Publishing:
    """A device that learns and syncs in a thread of its own, until it is told to stop."""

    def __init__(self, base: str, token: str, name: str) -> None:
        self.session = Session(
            CHARTER.start(name), HttpExchange(f"{base}/fans", name, token=token), guarded=False
        )
        self.acknowledged = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for noise in count():
            if self._ends.is_set():
                return
            self.session.detector.learn_many(cloud(1, noise, 10))
            assert self.session.sync().refusal is None
            self.acknowledged = self.session.member.contribution().epoch

    def more(self, syncs: int) -> None:
        """Waits for so many further syncs, of ten rows each."""
        target = self.acknowledged + 10 * syncs
        wait_until(lambda: self.acknowledged >= target or not self._thread.is_alive())

    def end(self) -> None:
        self._ends.set()
        self._thread.join()


@contextmanager
def server_at(store: str, port: int) -> Iterator[Server]:
    with process(store, port=port):
        wait_until(lambda: answers(port))
        made = Server(f"http://127.0.0.1:{port}", store)
        with made.http:
            wait_until(lambda: made.ask("GET", "/ready").status_code == 200)
            yield made


def test_what_was_acknowledged_is_in_it_and_devices_bring_what_is_newer(
    database: str, tmp_path: Path
) -> None:
    port, path = free_port(), tmp_path / "backup"
    with server_at(database, port) as server:
        fans = server.found(CHARTER)
        devices = {name: Publishing(server.base, fans.token, name) for name in NAMES}
        try:
            for device in devices.values():
                device.more(3)
            before = {name: device.acknowledged for name, device in devices.items()}
            held = written(database, path)
            assert (held.federations, held.devices, held.contributions) == (1, 3, 3)
            for device in devices.values():
                device.more(2)
        finally:
            for device in devices.values():
                device.end()
        newest = {name: entry["epoch"] for name, entry in fans.entries().items()}
        with pytest.raises(InUse, match="in use"):
            put_back(path, database, force=True)
    assert put_back(path, database, force=True) == held
    with serving(database, port=port) as server:
        fans = fans.at(server)
        old = {name: entry["epoch"] for name, entry in fans.entries().items()}
        for name in NAMES:
            assert before[name] <= old[name] < newest[name]
        for device in devices.values():
            report = device.session.sync()
            assert (report.refusal, report.devices) == (None, 2)
        assert {name: entry["epoch"] for name, entry in fans.entries().items()} == newest
        for device in devices.values():
            device.session.close()


# What is in it


def test_everything_comes_back(database: str, tmp_path: Path) -> None:
    with serving(database) as server:
        fans = server.found(charter("fans"))
        fans.enrol(*NAMES)
        for seed, name in enumerate(NAMES):
            assert fans.put(said(name, seed)).status_code == 200
        assert fans.put(said(NAMES[0], 5, 30)).status_code == 200
        assert fans.ask("DELETE", f"/contributions/{NAMES[2]}", ADMIN).status_code == 204
        told = summary(NAMES[0], minutes=(minute(),), events=(event(1),)).fields
        where = f"/summaries/{NAMES[0]}"
        assert fans.ask("PUT", where, fans.keys[NAMES[0]], json=told).status_code == 200
        asked = fans.ask("POST", f"/errands/{NAMES[1]}", ADMIN, json={"action": "reject"})
        assert asked.status_code == 201
        server.administrator("anna", "look")
        password = {"json": {"password": "correct horse battery"}}
        where = "/v1/administrators/anna/password"
        assert server.ask("PUT", where, ADMIN, **password).status_code == 204
    before = contents(database)
    for table in ("told", "summary", "hour", "occurrence", "errand", "changed"):
        assert before[table], table
    held = written(database, tmp_path / "backup")
    assert re.fullmatch(
        r"1 federation, 3 devices and 2 contributions, the newest of [-\d]+ [:\d]+ UTC; "
        r"made [-\d]+ [:\d]+ \S+",
        str(held),
    )
    with serving(database) as server:
        fans.at(server).ask("DELETE", "", ADMIN)
        server.found(charter("others"))
    assert put_back(tmp_path / "backup", database, force=True) == held
    after = contents(database)
    # A federation's moment differs, so that no sum of before is taken for one of now.
    [old], [new] = before.pop("federation"), after.pop("federation")
    assert [a == b for a, b in zip(old, new, strict=True)].count(False) == 1
    assert after == before
    with serving(database) as server:
        assert fans.at(server).merged(NAMES[1]).devices == 1


def test_it_comes_back_where_nothing_was(database: str, tmp_path: Path) -> None:
    with serving(database) as server:
        fans = server.found(charter("fans"))
        fans.enrol(*NAMES)
        assert fans.put(said(NAMES[0], 1)).status_code == 200
        audit = server.ask("GET", "/v1/audit?federation=fans", ADMIN).json()
    held = written(database, tmp_path / "backup")
    lose(database)
    assert put_back(tmp_path / "backup", database) == held
    with serving(database) as server:
        assert server.ask("GET", "/v1/audit?federation=fans", ADMIN).json() == audit
        assert fans.at(server).merged(NAMES[1]).devices == 1


def test_it_is_for_its_owners_eyes_and_replaces_nothing(tmp_path: Path) -> None:
    store, path = f"{tmp_path}/store.db", tmp_path / "backup"
    with serving(store) as server:
        server.found(charter("fans"))
        written(store, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        before = path.read_bytes()
        with pytest.raises(BadInput, match="--force"):
            written(store, path)
        with pytest.raises(BadInput, match="the store itself"):
            written(store, Path(store), force=True)
        assert path.read_bytes() == before
        server.found(charter("pumps"))
        assert written(store, path, force=True).federations == 2
        with pytest.raises(FileNotFoundError):
            written(f"{tmp_path}/nothing.db", tmp_path / "other")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["backup", "store.db"]


def test_a_store_that_changes_all_the_time_is_copied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, calls = f"{tmp_path}/store.db", 0
    with serving(store) as server:
        server.found(charter("fans"))
        with closing(sqlite3.connect(store, isolation_level=None)) as busy:

            def tell(share: float | None) -> None:
                nonlocal calls
                calls += 1
                assert calls < 500, "it begins again with each write"
                busy.execute("UPDATE federation SET ridge = ridge + 1")

            monkeypatch.setattr(backup_sqlite, "_PAGES", 1)
            back_up(store, tmp_path / "backup", tell=tell)
    assert calls > 5
    with closing(sqlite3.connect(tmp_path / "backup")) as backup:
        assert backup.execute("SELECT ridge FROM federation").fetchone() == (charter().ridge,)


def test_revisions_count_again_but_mean_other_sums(tmp_path: Path) -> None:
    store, path = f"{tmp_path}/store.db", tmp_path / "backup"
    with serving(store) as server:
        fans = server.found(charter("fans"))
        fans.enrol(*NAMES)
        for seed, name in enumerate(NAMES[:2]):
            fans.put(said(name, seed))
        written(store, path)
        fans.put(said(NAMES[2], 2))
        tag = fans.ask("GET", "/merged", fans.keys[NAMES[0]]).headers["etag"]
    before = contents(f"sqlite:///{store}")
    with pytest.raises(BadInput, match="holds 1 federation, 3 devices and 3 contributions"):
        put_back(path, store)
    assert contents(f"sqlite:///{store}") == before
    put_back(path, store, force=True)
    with serving(store) as server:
        fans = fans.at(server)
        assert len(fans.entries()) == 2
        # The third revision once more, and another sum.
        fans.put(said(NAMES[2], 7, 50))
        headers = {"If-None-Match": tag}
        answer = fans.ask("GET", "/merged", fans.keys[NAMES[0]], headers=headers)
        assert answer.status_code == 200


# What is refused


def made_backup(folder: Path) -> Path:
    with serving(f"{folder}/store.db") as server:
        fans = server.found(charter("fans"))
        fans.enrol(NAMES[0])
        fans.put(said(NAMES[0], 1))
    written(f"{folder}/store.db", folder / "backup")
    return folder / "backup"


def test_a_damaged_one_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    whole = made_backup(tmp_path).read_bytes()
    bad, target = tmp_path / "bad", tmp_path / "target.db"
    damaged = [b"", b"nonsense", whole[:5000], whole[:20000] + bytes(4096) + whole[24096:]]
    for blob in damaged:
        bad.write_bytes(blob)
        with pytest.raises(BadFile, match="bad"):
            put_back(bad, str(target))
        assert not target.exists()


def test_tables_of_a_newer_release_and_other_files_are_refused(tmp_path: Path) -> None:
    path, target = made_backup(tmp_path), tmp_path / "target.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE elmgrove_schema SET version = 99")
    with pytest.raises(BadFile, match="version 99"):
        put_back(path, str(target))
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE elmgrove_schema (version)")
    with pytest.raises(BadFile):
        written(f"{tmp_path}/other.db", tmp_path / "no")
    target.write_bytes(b"not a data base at all, but some text that somebody wrote")
    with pytest.raises(BadFile, match="no store"):
        put_back(made_backup_again(tmp_path), str(target), force=True)
    assert target.read_bytes().startswith(b"not a data base")


def made_backup_again(folder: Path) -> Path:
    written(f"{folder}/store.db", folder / "again")
    return folder / "again"


def test_a_copy_made_by_other_means_is_restored_too(tmp_path: Path) -> None:
    made_backup(tmp_path)
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute(f"VACUUM INTO '{tmp_path}/copy.db'")
    held = put_back(tmp_path / "copy.db", f"sqlite:///{tmp_path}/new.db")
    assert (held.contributions, "made" in str(held)) == (1, False)
    with serving(f"{tmp_path}/new.db") as server:
        assert server.ask("GET", "/v1/federations", ADMIN).json()["federations"] == ["fans"]


# PostgreSQL


def test_a_url_becomes_variables_and_no_argument() -> None:
    url = "postgresql://me%40x:s%2Fcret@h1:5432,[::1]/fleet?sslmode=require&search_path=a"
    assert backup_postgres.environment(url) == {
        "PGUSER": "me@x",
        "PGPASSWORD": "s/cret",
        "PGHOST": "h1,::1",
        "PGPORT": "5432",
        "PGDATABASE": "fleet",
        "PGSSLMODE": "require",
        "PGOPTIONS": "-c search_path=a",
    }
    assert backup_postgres.environment("postgresql:///fleet?host=/run/pg") == {
        "PGDATABASE": "fleet",
        "PGHOST": "/run/pg",
    }


def test_without_postgresqls_programs_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(backup_postgres, "_PROGRAMS", tmp_path)
    dump = tmp_path / "dump"
    dump.write_bytes(b"PGDMP")
    with pytest.raises(BadInput, match="postgresql-client"):
        put_back(dump, "postgresql://nowhere/fleet")
