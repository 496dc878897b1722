"""Back-ups: made while devices publish, and never over anything by mistake; a copy is a store."""

import asyncio
import shutil
import sqlite3
import stat
import subprocess
import threading
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from elmgrove import BadFile, BadInput
from elmgrove.exchange.http import HttpExchange
from elmgrove.exchange.session import Session
from elmgrove.federation.charter import Charter
from elmgrove.server.store.store import back_up
from support.factories import DISTANT, cloud
from support.ports import free_port
from support.reports import event, minute, report
from support.services import execute, unavailable
from support.serving import (
    ADMIN,
    charter,
    contents,
    lose,
    seeded_contribution,
    server_process,
    serving,
    wait_until,
)

CHARTER = Charter("fans", DISTANT)
NAMES = ("fan-1", "fan-2", "fan-3")


def saved(store: str, path: Path) -> None:
    """Backs a store up, as the docs say."""
    url, _, schema = store.partition("?search_path=")
    if not schema:
        back_up(store, path)
        return
    if shutil.which("pg_dump") is None or shutil.which("pg_restore") is None:
        unavailable("needs pg_dump and pg_restore")
    command = ["pg_dump", "--format=custom", f"--file={path}", f"--schema={schema}", url]
    subprocess.run(command, check=True)


def restored(path: Path, store: str) -> None:
    """Puts a back-up into the place of a store, as the docs say."""
    lose(store)
    url, _, schema = store.partition("?search_path=")
    if not schema:
        shutil.copy(path, store.removeprefix("sqlite:///"))
        return
    asyncio.run(execute(url, f"DROP SCHEMA {schema}"))
    command = ["pg_restore", "--single-transaction", "--no-owner", f"--dbname={url}", str(path)]
    subprocess.run(command, check=True)
    asyncio.run(execute(store, "UPDATE federation SET created = created + random() / 1000"))


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


def test_what_was_acknowledged_is_in_it_and_devices_bring_what_is_newer(
    database: str, tmp_path: Path
) -> None:
    port, path = free_port(), tmp_path / "backup"
    with server_process(database, port=port) as (server, _):
        fans = server.found(CHARTER)
        devices = {name: Publishing(server.base, fans.token, name) for name in NAMES}
        try:
            for device in devices.values():
                device.more(3)
            before = {name: device.acknowledged for name, device in devices.items()}
            saved(database, path)
            for device in devices.values():
                device.more(2)
        finally:
            for device in devices.values():
                device.end()
        newest = {name: entry["epoch"] for name, entry in fans.entries().items()}
    restored(path, database)
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


def test_everything_comes_back(database: str, tmp_path: Path) -> None:
    with serving(database) as server:
        fans = server.found(charter("fans"))
        fans.enrol(*NAMES)
        for seed, name in enumerate(NAMES):
            assert fans.put(seeded_contribution(name, seed)).status_code == 200
        assert fans.put(seeded_contribution(NAMES[0], 5, 30)).status_code == 200
        assert fans.ask("DELETE", f"/contributions/{NAMES[2]}", ADMIN).status_code == 204
        told = report(NAMES[0], minutes=(minute(),), events=(event(1),)).fields
        where = f"/reports/{NAMES[0]}"
        assert fans.ask("PUT", where, fans.keys[NAMES[0]], json=told).status_code == 200
        asked = fans.ask("POST", f"/commands/{NAMES[1]}", ADMIN, json={"action": "reject"})
        assert asked.status_code == 201
        server.administrator("anna", "look")
        password = {"json": {"password": "correct horse battery"}}
        where = "/v1/administrators/anna/password"
        assert server.ask("PUT", where, ADMIN, **password).status_code == 204
    before = contents(database)
    for table in ("device_status", "report", "hour", "event", "command", "device_changes"):
        assert before[table], table
    saved(database, tmp_path / "backup")
    with serving(database) as server:
        audit = server.ask("GET", "/v1/audit?federation=fans", ADMIN).json()
        fans.at(server).ask("DELETE", "", ADMIN)
        server.found(charter("others"))
    restored(tmp_path / "backup", database)
    after = contents(database)
    # A federation's moment differs, so that no sum of before is taken for one of now.
    [old], [new] = before.pop("federation"), after.pop("federation")
    assert [a == b for a, b in zip(old, new, strict=True)].count(False) == 1
    assert after == before
    with serving(database) as server:
        assert server.ask("GET", "/v1/audit?federation=fans", ADMIN).json() == audit
        assert fans.at(server).merged(NAMES[1]).devices == 1


def test_revisions_count_again_but_mean_other_sums(database: str, tmp_path: Path) -> None:
    with serving(database) as server:
        fans = server.found(charter("fans"))
        fans.enrol(*NAMES)
        for seed, name in enumerate(NAMES[:2]):
            fans.put(seeded_contribution(name, seed))
        saved(database, tmp_path / "backup")
        fans.put(seeded_contribution(NAMES[2], 2))
        tag = fans.ask("GET", "/merged", fans.keys[NAMES[0]]).headers["etag"]
    restored(tmp_path / "backup", database)
    with serving(database) as server:
        fans = fans.at(server)
        assert len(fans.entries()) == 2
        # The third revision once more, and another sum.
        fans.put(seeded_contribution(NAMES[2], 7, 50))
        headers = {"If-None-Match": tag}
        answer = fans.ask("GET", "/merged", fans.keys[NAMES[0]], headers=headers)
        assert answer.status_code == 200


def test_it_is_for_its_owners_eyes_and_replaces_nothing(tmp_path: Path) -> None:
    store, path = f"{tmp_path}/store.db", tmp_path / "backup"
    with serving(store) as server:
        server.found(charter("fans"))
        back_up(store, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        before = path.read_bytes()
        for there in (path, Path(store)):
            with pytest.raises(BadInput, match="is there already"):
                back_up(store, there)
        assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["backup", "store.db"]


def test_what_is_no_store_leaves_no_back_up(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"not a data base at all, but some text that somebody wrote")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE other (version)")
    for name in ("text", "other.db", "nothing.db"):
        with pytest.raises(BadFile, match=f"{name} could not be backed up"):
            back_up(f"{tmp_path}/{name}", tmp_path / "backup")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["other.db", "text"]


def test_of_postgresql_it_says_what_to_use(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"pg_dump: see docs/backup\.md"):
        back_up("postgresql://nowhere/fleet", tmp_path / "backup")
