"""One contract, tested on each data base that keeps it."""

import asyncio
import random
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from elmgrove.errors import BadFile, BadInput, NotFound, StoreUnavailable
from elmgrove.federation.audit import require_unbroken
from elmgrove.federation.commands import Command
from elmgrove.server.store import contributions
from elmgrove.server.store.contributions import Change, Contributions, StoredEntry
from elmgrove.server.store.database import Transaction
from elmgrove.server.store.federations import device_of
from elmgrove.server.store.store import Store, open_store
from support.faults import CONTEXT, write_until_killed
from support.reports import event, minute, report
from support.serving import FANS, contents, enrol, opened, put

pytestmark = pytest.mark.anyio

CARS = replace(FANS, name="cars")


async def content(store: Store, federation: str = "fans") -> tuple[int, list[tuple[str, bytes]]]:
    async with store.contributions.snapshot(federation) as snapshot:
        return snapshot.revision, [(entry.origin, blob) async for entry, blob in snapshot.blobs]


async def test_deleting_a_federation_takes_all_of_it_and_nothing_else(
    store: Store, database: str
) -> None:
    await store.federations.create(CARS)
    for federation in ("fans", "cars"):
        await enrol(store, "a", federation=federation)
        for blob in (b"1", b"2"):
            await put(store, "a", blob, federation=federation)
        told = report("a", minutes=(minute(),), events=(event(1),))
        await store.reports.put(federation, told, 1.0)
        command = Command(f"e-{federation}", "accept", {}, "anna", 1.0)
        assert await store.reports.ask(federation, "a", command, actor="server") is None
    assert await store.federations.delete("fans")
    assert not await store.federations.delete("fans")
    held = await asyncio.to_thread(contents, database)
    for table in ("device", "entry", "content", "report", "hour", "event", "command"):
        assert held[table], table
    assert "'fans'" not in repr(held)
    assert await content(store, "cars") == (2, [("a", b"2")])
    assert await store.federations.create(FANS)
    assert await content(store) == (0, [])
    assert await store.federations.devices("fans") == []
    assert (await put(store, "a", b"3")).revision == 1


async def test_names_are_in_the_order_of_their_code_points(store: Store) -> None:
    names = sorted(["b", "B", "a-1", "a1", "ä", "z", "Z", "_", "𝄞", "�"])
    for name in reversed(names):
        await put(store, name)
        await enrol(store, name)
    assert [entry.origin for entry in await store.contributions.entries("fans")] == names
    assert [device.name for device in await store.federations.devices("fans")] == names
    assert [origin for origin, _ in (await content(store))[1]] == names


async def test_what_was_put_is_there_until_its_device_leaves(store: Store) -> None:
    for blob in (random.Random(1).randbytes(640_512), b""):
        made = await put(store, "a", blob)
        assert await store.contributions.entries("fans") == [made]
        assert await store.contributions.blob("fans", "a") == (made, blob)
    assert made == StoredEntry("a", 2, 7, 2.5, sha256(b"").hexdigest(), 0, 99.25, left=False)
    left = await put(store, "a", None)
    assert left == StoredEntry("a", 3, 7, 2.5, "", 0, received=99.25, left=True)
    assert await store.contributions.entry("fans", "a") == left
    assert await store.contributions.blob("fans", "a") is None
    assert await store.contributions.blob("fans", "b") is None
    assert await content(store) == (3, [])


async def test_a_refusal_reaches_the_caller_and_stores_nothing(store: Store) -> None:
    held = await put(store, "a", b"1")
    for refusal in (OSError("no"), sqlite3.OperationalError("no"), KeyError("x")):

        def refuse(seen: StoredEntry | None, refusal: Exception = refusal) -> bool:
            assert seen == held
            raise refusal

        result = asyncio.gather(put(store, "a", b"2", refuse), return_exceptions=True)
        assert (await result)[0] is refusal
    assert await content(store) == (1, [("a", b"1")])


async def test_puts_of_one_device_at_once_each_see_the_one_before(store: Store) -> None:
    seen: list[int] = []

    def successor(held: StoredEntry | None) -> bool:
        seen.append(0 if held is None else held.revision)
        return True

    made = await asyncio.gather(*(put(store, "a", b"%d" % n, successor) for n in range(100)))
    assert sorted(entry.revision for entry in made) == list(range(1, 101))
    assert seen == list(range(100))
    assert len(await store.contributions.entries("fans")) == 1


async def test_refusals_among_others_hurt_none_of_them(store: Store) -> None:
    def refuse(held: StoredEntry | None) -> bool:
        raise BadInput("no")

    held = await put(store, "z")
    results = await asyncio.gather(
        *(put(store, f"{n:02}", b"x", refuse) for n in range(0, 60, 3)),
        *(put(store, f"{n:02}") for n in range(60) if n % 3),
        *(put(store, "a", b"x", federation="vans") for _ in range(5)),
        store.contributions.put("fans", "z", 1 << 80, 1.0, b"x", 1.0, successor=lambda held: True),
        return_exceptions=True,
    )
    *refused, too_large = (result for result in results if not isinstance(result, StoredEntry))
    assert list(map(type, refused)) == [BadInput] * 20 + [NotFound] * 5
    assert isinstance(too_large, Exception)
    stored = [result for result in results if isinstance(result, StoredEntry)]
    assert sorted(entry.revision for entry in stored) == list(range(2, 42))
    assert await store.contributions.entries("fans") == [*stored, held]


async def test_callers_that_are_cancelled_leave_the_store_usable(store: Store) -> None:
    blob = bytes(300_000)
    for turn in range(30):
        tasks = [asyncio.create_task(put(store, f"{n}", blob)) for n in range(10)]
        tasks += [asyncio.create_task(content(store)) for _ in range(2)]
        for _ in range(turn):
            await asyncio.sleep(0)
        await asyncio.sleep(turn / 3000)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    last = (await put(store, "last", b"1")).revision
    revisions = {entry.revision for entry in await store.contributions.entries("fans")}
    assert max(revisions) == last == await store.contributions.revision("fans")
    assert len(await store.contributions.changes("fans", max(1, last - 20), 100)) == min(
        last - 1, 20
    )


async def test_the_newest_revision_besides_ones_own(store: Store) -> None:
    revision = partial(store.contributions.revision, "fans")
    assert (await revision(), await revision("a")) == (0, 0)
    await put(store, "a", b"1")
    assert (await revision(), await revision("a")) == (1, 0)
    await put(store, "b", b"1")
    for _ in range(Contributions.KEEP + 20):
        await put(store, "a", b"2")
    last = Contributions.KEEP + 22
    assert [await revision(), await revision("a"), await revision("b")] == [last, 2, last]
    await put(store, "b", None)
    assert await revision("a") == last + 1


async def test_nothing_is_stored_after_a_key_was_revoked(store: Store) -> None:
    """Whatever is under way at that moment."""

    async def rule(tx: Transaction, key_hash: str) -> None:
        device = await device_of(tx, "fans", key_hash)
        if device is None or device.revoked:
            raise PermissionError(f"{device}")

    for turn in range(5):
        await enrol(store, f"{turn}")
        by_key = store.by(partial(rule, key_hash=f"k-{turn}"))
        puts = [put(by_key, f"{turn}", b"%d" % n) for n in range(10)]
        puts.insert(turn + 1, store.federations.revoke("fans", f"{turn}"))
        results = await asyncio.gather(*puts, return_exceptions=True)
        assert {type(result) for result in results} <= {StoredEntry, PermissionError, bool}
        held = await store.contributions.entry("fans", f"{turn}")
        assert held is None or held.left
    assert (await content(store))[1] == []


async def test_to_revoke_is_to_take_out_or_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await enrol(store, "a")
    held = await put(store, "a")
    with monkeypatch.context() as failing:
        failing.setattr(contributions, "_SUPERSEDE", "UPDATE nowhere SET x = $1, y = $2, z = $3")
        with pytest.raises(StoreUnavailable):
            await store.federations.revoke("fans", "a")
    assert not (await store.federations.device_of("fans", "k-a")).revoked
    assert await store.contributions.entries("fans") == [held]
    assert await store.federations.revoke("fans", "a")
    (left,) = await store.contributions.entries("fans")
    assert (left.left, left.epoch, left.revision) == (True, 8, 2)
    assert await store.federations.revoke("fans", "a"), "once more changes nothing"
    assert await store.contributions.entries("fans") == [left]


async def test_changes_are_not_told_from_the_start_nor_from_the_future(store: Store) -> None:
    assert await store.contributions.changes("fans", 0, 10) is None
    await put(store, "a", b"1")
    assert await store.contributions.changes("fans", 0, 10) is None
    assert await store.contributions.changes("fans", 1, 10) == []
    assert await store.contributions.changes("fans", 2, 10) is None


async def test_old_changes_are_told_as_long_as_nothing_was_replaced(store: Store) -> None:
    for n in range(Contributions.KEEP + 10):
        await put(store, f"{n}", b"x")
    assert await store.contributions.changes("fans", 1, 1) == [Change(2, "1", b"x", None)]


async def test_a_snapshot_is_of_one_revision_while_puts_go_on(store: Store) -> None:
    newest = {f"{n:02}": b"%d" % n for n in range(30)}
    for origin, blob in newest.items():
        await put(store, origin, blob)
    for turn in range(4):
        expected = sorted(newest.items())
        async with store.contributions.snapshot("fans") as snapshot:
            newest["new"] = b"%d" % turn
            await put(store, "new", newest["new"])
            found = []
            async for entry, blob in snapshot.blobs:
                found.append((entry.origin, blob))
                changed = f"{(7 * len(found) + turn) % 40:02}"
                newest[changed] = b"%d %d" % (turn, len(found))
                made = await put(store, changed, newest[changed])
        assert found == expected
        assert made.revision == snapshot.revision + 1 + len(found)
    assert (await content(store))[1] == sorted(newest.items())


async def test_a_snapshot_may_be_left_early(store: Store) -> None:
    for n in range(20):
        await put(store, f"{n:02}", b"x")

    async def stop_at_the_first() -> None:
        async with store.contributions.snapshot("fans") as snapshot:
            async for _ in snapshot.blobs:
                raise OSError("mine")

    for _ in range(20):
        with pytest.raises(OSError, match=r"^mine$"):
            await stop_at_the_first()
    assert (await content(store))[0] == 20


async def test_random_histories_agree_with_a_model(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum that follows the changes, or is rebuilt when told so, is always the newest blobs."""
    monkeypatch.setattr(Contributions, "KEEP", 5)
    chance = random.Random(20_26)
    newest: dict[str, bytes] = {}
    summed: list[bytes] = []
    since, rebuilt = 0, 0
    for revision in range(1, 301):
        origin = chance.choice("abcdefgh")
        blob = None if chance.random() < 0.2 else b"%d" % revision
        if (
            blob is None
            and chance.random() < 0.5
            and await store.contributions.clear("fans", origin)
        ):
            assert await store.contributions.revision("fans") == revision
        else:
            assert (await put(store, origin, blob)).revision == revision
        newest.pop(origin, None)
        newest |= {} if blob is None else {origin: blob}
        if chance.random() < 0.4:
            changes = await store.contributions.changes("fans", since, chance.randint(1, 8))
            if changes is None:
                rebuilt += 1
                since, pairs = await content(store)
                summed = [blob for _, blob in pairs]
                assert (since, pairs) == (revision, sorted(newest.items()))
            for change in changes or []:
                assert change.revision == since + 1
                since += 1
                summed += [] if change.blob is None else [change.blob]
                if change.replaced is not None:
                    summed.remove(change.replaced)
            if since == revision:
                assert sorted(summed) == sorted(newest.values())
    assert 1 < rebuilt < 60


async def test_stores_on_one_data_base_share_it(database: str) -> None:
    """They open it while it is empty, at the same moment, and write to it at the same time."""
    stores = await asyncio.gather(*(open_store(database) for _ in range(4)))
    assert sum(await asyncio.gather(*(store.federations.create(FANS) for store in stores))) == 1
    made = await asyncio.gather(
        *(put(store, f"{n % 7}", b"%d" % n) for n in range(30) for store in stores)
    )
    assert sorted(entry.revision for entry in made) == list(range(1, 121))
    records = await stores[0].audit.records("fans", 1000)
    assert len(records) == 121
    require_unbroken(records)
    expected = await content(stores[0])
    assert [origin for origin, _ in expected[1]] == [f"{n}" for n in range(7)]
    for store in stores:
        assert await content(store) == expected
        await store.close()


async def test_tables_of_a_newer_release_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(str(path)):
        pass
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE elmgrove_schema SET version = 99")
    with pytest.raises(BadFile, match=r"version 99 .* reads versions 4 to 5"):
        await open_store(str(path))


async def test_a_file_that_is_no_data_base_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, " * 100)
    with pytest.raises(StoreUnavailable, match=r"letter\.txt.*not a database"):
        await open_store(str(path))
    with pytest.raises(StoreUnavailable, match=r"store\.db.*No such file"):
        await open_store(f"sqlite:///{tmp_path}/nowhere/store.db")


async def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    async with opened(str(tmp_path / "store.db")) as store:
        await store.federations.create(FANS)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert set(modes) == {"store.db", "store.db-wal", "store.db-shm"}
    assert set(modes.values()) == {0o600}


async def test_a_server_that_does_not_answer_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match="PostgreSQL can't be used"):
        await open_store("postgresql://me:secret@127.0.0.1:1/none")


@pytest.mark.parametrize("url", ["mysql://me:secret@host/x", "sqlite://file.db", "", ":memory:"])
async def test_other_places_are_refused_without_telling_the_password(url: str) -> None:
    with pytest.raises(BadInput, match=r"sqlite:///file\.db.*a path.*postgresql://") as refusal:
        await open_store(url)
    assert "secret" not in str(refusal.value)


async def test_a_full_disk_fails_what_does_not_fit_and_no_more(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the system's calls fail in the same way."""
    resource = pytest.importorskip("resource", reason="needs POSIX")
    async with opened(str(tmp_path / "store.db")) as store:
        await store.federations.create(FANS)
        before = await put(store, "a", b"1")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
        try:
            puts = (put(store, "abcd"[n], bytes(600_000)) for n in range(4))
            results = await asyncio.gather(*puts, return_exceptions=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert StoreUnavailable in map(type, results)
        stored = {made.origin: made for made in (before, *results) if isinstance(made, StoredEntry)}
        assert await store.contributions.entries("fans") == [
            stored[origin] for origin in sorted(stored)
        ]
        assert (await put(store, "a", b"2")).revision == await store.contributions.revision("fans")


def killed_after(url: str, acknowledgements: int) -> dict[str, int]:
    """What a process was told to be stored that wrote until it was killed: origin and revision."""
    hears, tells = CONTEXT.Pipe(duplex=False)
    writer = CONTEXT.Process(target=write_until_killed, args=(url, "fans", tells))
    writer.start()
    tells.close()  # this process's end, so that the writer's death is the end of the pipe
    with hears:
        told = [hears.recv() for _ in range(acknowledgements)]
        writer.kill()
        with suppress(EOFError, OSError):  # without what the kill cut off
            while True:
                told.append(hears.recv())
    writer.join()
    return dict(told)


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    async with opened(path) as store:
        await store.federations.create(FANS)
    chance = random.Random(9)
    for _ in range(10):
        acknowledged = await asyncio.to_thread(killed_after, path, chance.randint(1, 60))
        async with opened(path) as store:
            held = {entry.origin: entry for entry in await store.contributions.entries("fans")}
            assert all(held[origin].revision >= known for origin, known in acknowledged.items())
            revision, blobs = await content(store)
            assert revision == max(entry.revision for entry in held.values())
            for origin, blob in blobs:
                assert sha256(blob).hexdigest() == held[origin].digest
            since = max(1, revision - Contributions.KEEP)
            changes = await store.contributions.changes("fans", since, 10_000)
            assert changes is not None
            assert [change.revision for change in changes] == list(range(since + 1, revision + 1))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
