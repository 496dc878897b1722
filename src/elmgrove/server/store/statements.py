"""What devices published, as operations: one revision after the other, without gaps."""

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from elmgrove.errors import BadFile, ElmgroveError
from elmgrove.server.store.records import Change, DeviceRow, FederationRow, StoredEntry

T = TypeVar("T")
Statement = tuple[Any, ...]  # the text, then its arguments $1, $2, ...
Rows = Sequence[Sequence[Any]]
Operation = Generator[Statement, Rows, T]


class StoreUnavailable(ElmgroveError, OSError):
    """The data base can't be reached, is full or failed; what was asked can be asked again."""


def known(federation: str) -> Operation[None]:
    """Refuses a federation that does not exist."""
    if not (yield ("SELECT 1 FROM federation WHERE name = $1", federation)):
        raise KeyError(federation)


VERSION = 1

# Blobs have a table of their own: to mark an entry as superseded then rewrites none of them, and
# a list of entries reads none. An entry that nothing superseded is the newest of its origin.
TABLES = (
    """CREATE TABLE federation (
        name {text} PRIMARY KEY, basis {text} NOT NULL, ridge DOUBLE PRECISION NOT NULL,
        members {text}, token_hash {text} NOT NULL, created DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE device (
        federation {text} NOT NULL REFERENCES federation ON DELETE CASCADE,
        name {text} NOT NULL, key_hash {text} NOT NULL, revoked BOOLEAN NOT NULL,
        enrolled DOUBLE PRECISION NOT NULL, PRIMARY KEY (federation, name))""",
    "CREATE INDEX device_of_key ON device (federation, key_hash)",
    """CREATE TABLE entry (
        federation {text} NOT NULL REFERENCES federation ON DELETE CASCADE,
        revision BIGINT NOT NULL, origin {text} NOT NULL, epoch BIGINT NOT NULL,
        count DOUBLE PRECISION NOT NULL, digest {text} NOT NULL, size BIGINT NOT NULL,
        received DOUBLE PRECISION NOT NULL, replaced BIGINT, superseded BIGINT,
        PRIMARY KEY (federation, revision))""",
    "CREATE UNIQUE INDEX newest_entry ON entry (federation, origin) WHERE superseded IS NULL",
    "CREATE INDEX superseded_entry ON entry (federation, superseded)",
    """CREATE TABLE content (
        federation {text} NOT NULL, revision BIGINT NOT NULL, blob {bytes} NOT NULL,
        PRIMARY KEY (federation, revision),
        FOREIGN KEY (federation, revision) REFERENCES entry ON DELETE CASCADE)""",
)


def prepare(text: str, binary: str, *further: str) -> Operation[None]:
    """Makes the tables in an empty data base; ``further`` is what one back end does besides.

    ``text`` must be a type that compares by bytes: the order of names is part of the contract.
    """
    yield ("CREATE TABLE IF NOT EXISTS elmgrove_schema (version BIGINT NOT NULL)",)
    versions = yield ("SELECT version FROM elmgrove_schema",)
    if not versions:
        for table in TABLES:
            yield (table.format(text=text, bytes=binary),)
        for statement in further:
            yield (statement,)
        yield ("INSERT INTO elmgrove_schema VALUES ($1)", VERSION)
    elif versions[0][0] != VERSION:
        raise BadFile(
            f"the data base has version {versions[0][0]} of the tables and this release of "
            f"elmgrove reads version {VERSION}: use the release that wrote it, or a newer one"
        )


def check() -> Operation[None]:
    """Asks for the version, to see whether the data base answers."""
    yield ("SELECT version FROM elmgrove_schema",)


FEDERATION = "SELECT name, basis, ridge, members, token_hash, created FROM federation"
DEVICE = "SELECT name, key_hash, revoked, enrolled FROM device WHERE federation = $1"


def create_federation(made: FederationRow) -> Operation[bool]:
    if (yield from federation(made.name)) is not None:
        return False
    members = None if made.members is None else json.dumps(made.members)
    insert = "INSERT INTO federation VALUES ($1, $2, $3, $4, $5, $6)"
    basis = json.dumps(made.basis)
    yield (insert, made.name, basis, made.ridge, members, made.token_hash, made.created)
    return True


def federation(name: str) -> Operation[FederationRow | None]:
    rows = yield (f"{FEDERATION} WHERE name = $1", name)
    return _federation(*rows[0]) if rows else None


def federations() -> Operation[list[FederationRow]]:
    rows = yield (f"{FEDERATION} ORDER BY name",)
    return [_federation(*row) for row in rows]


def _federation(
    name: str, basis: str, ridge: float, members: str | None, token_hash: str, created: float
) -> FederationRow:
    patterns = None if members is None else tuple(json.loads(members))
    return FederationRow(name, json.loads(basis), ridge, patterns, token_hash, created)


def delete_federation(name: str) -> Operation[bool]:
    if (yield from federation(name)) is None:
        return False
    yield ("DELETE FROM federation WHERE name = $1", name)
    return True


def set_token(name: str, token_hash: str) -> Operation[None]:
    yield from known(name)
    yield ("UPDATE federation SET token_hash = $2 WHERE name = $1", name, token_hash)


def enrol(federation: str, device: DeviceRow, again: bool) -> Operation[bool]:
    yield from known(federation)
    if (yield (f"{DEVICE} AND name = $2", federation, device.name)):
        if not again:
            return False
        yield ("DELETE FROM device WHERE federation = $1 AND name = $2", federation, device.name)
    insert = "INSERT INTO device VALUES ($1, $2, $3, FALSE, $4)"
    yield (insert, federation, device.name, device.key_hash, device.enrolled)
    return True


def device_of(federation: str, key_hash: str) -> Operation[DeviceRow | None]:
    rows = yield (f"{DEVICE} AND key_hash = $2", federation, key_hash)
    return _device(*rows[0]) if rows else None


def devices(federation: str) -> Operation[list[DeviceRow]]:
    rows = yield (f"{DEVICE} ORDER BY name", federation)
    return [_device(*row) for row in rows]


def _device(name: str, key_hash: str, revoked: int, enrolled: float) -> DeviceRow:
    return DeviceRow(name, key_hash, bool(revoked), enrolled)


def revoke(federation: str, name: str) -> Operation[bool]:
    if not (yield (f"{DEVICE} AND name = $2", federation, name)):
        return False
    revoking = "UPDATE device SET revoked = TRUE WHERE federation = $1 AND name = $2"
    yield (revoking, federation, name)
    return True


# How many further revisions a superseded blob is kept for.
KEEP = 256
# The name that no device has.
NOBODY = ""

ENTRY = "e.origin, e.revision, e.epoch, e.count, e.digest, e.size, e.received, e.digest = ''"
NEWEST = "e.federation = $1 AND e.superseded IS NULL"
WITH_CONTENT = "JOIN content c ON c.federation = e.federation AND c.revision = e.revision"


def entry(federation: str, origin: str) -> Operation[StoredEntry | None]:
    rows = yield (f"SELECT {ENTRY} FROM entry e WHERE {NEWEST} AND origin = $2", federation, origin)
    return _entry(rows[0]) if rows else None


def entries(federation: str) -> Operation[list[StoredEntry]]:
    rows = yield (f"SELECT {ENTRY} FROM entry e WHERE {NEWEST} ORDER BY origin", federation)
    return [_entry(row) for row in rows]


def _entry(row: Sequence[Any]) -> StoredEntry:
    fields = [*row[:-1], bool(row[-1])]
    return StoredEntry(*fields)


def blob(federation: str, origin: str) -> Operation[tuple[StoredEntry, bytes] | None]:
    select = f"SELECT {ENTRY}, c.blob FROM entry e {WITH_CONTENT} WHERE {NEWEST} AND origin = $2"
    rows = yield (select, federation, origin)
    return (_entry(rows[0][:-1]), rows[0][-1]) if rows else None


def revision(federation: str, besides: str) -> Operation[int]:
    # The newest entry of an origin is never pruned, so the table knows. At most KEEP entries of
    # ``besides`` are passed over, from the end of the primary key's index.
    select = """SELECT revision FROM entry WHERE federation = $1 AND origin <> $2
        ORDER BY revision DESC LIMIT 1"""
    rows = yield (select, federation, besides)
    return int(rows[0][0]) if rows else 0


def put(
    federation: str,
    made: StoredEntry,
    content: bytes | None,
    successor: Callable[[StoredEntry | None], bool],
) -> Operation[StoredEntry | Exception]:
    """Returns what ``successor`` raises: a back end's own errors can't be mistaken for it."""
    yield from known(federation)
    held = yield from entry(federation, made.origin)
    try:
        news = successor(held)
    except Exception as refusal:  # the caller's own rule, so the caller's own errors
        return refusal  # nothing was written yet
    if not news:
        return KeyError(made.origin) if held is None else held
    made = replace(made, revision=1 + (yield from revision(federation, NOBODY)))
    yield from _supersede(federation, held, made)
    if content is not None:
        insert = "INSERT INTO content (federation, revision, blob) VALUES ($1, $2, $3)"
        yield (insert, federation, made.revision, content)
    pruning = "DELETE FROM entry WHERE federation = $1 AND superseded <= $2"
    yield (pruning, federation, made.revision - KEEP)
    return made


def _supersede(federation: str, held: StoredEntry | None, made: StoredEntry) -> Operation[None]:
    if held is not None:
        mark = "UPDATE entry SET superseded = $3 WHERE federation = $1 AND revision = $2"
        yield (mark, federation, held.revision, made.revision)
    yield (
        """INSERT INTO entry (federation, origin, revision, epoch, count, digest, size, received,
        replaced) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)""",
        federation,
        made.origin,
        made.revision,
        made.epoch,
        made.count,
        made.digest,
        made.size,
        made.received,
        None if held is None else held.revision,
    )


def changes(federation: str, since: int, limit: int) -> Operation[list[Change] | None]:
    yield from known(federation)
    if since <= 0 or since > (yield from revision(federation, NOBODY)):
        return None
    steps = yield (
        """SELECT e.revision, e.origin, e.replaced, p.revision FROM entry e
        LEFT JOIN entry p ON p.federation = e.federation AND p.revision = e.replaced
        WHERE e.federation = $1 AND e.revision > $2 ORDER BY e.revision LIMIT $3""",
        federation,
        since,
        limit,
    )
    for expected, (found, _, replaced, kept) in enumerate(steps, since + 1):
        if found != expected or replaced != kept:
            return None
    # Only now the blobs: when one is gone, none is read.
    blobs = yield (
        """SELECT c.blob, p.blob FROM entry e
        LEFT JOIN content c ON c.federation = e.federation AND c.revision = e.revision
        LEFT JOIN content p ON p.federation = e.federation AND p.revision = e.replaced
        WHERE e.federation = $1 AND e.revision > $2 ORDER BY e.revision LIMIT $3""",
        federation,
        since,
        limit,
    )
    return [Change(*step[:2], *pair) for step, pair in zip(steps, blobs, strict=True)]


def snapshot_revision(federation: str) -> Operation[int]:
    yield from known(federation)
    return (yield from revision(federation, NOBODY))


def snapshot_blobs(federation: str) -> Statement:
    select = f"SELECT e.origin, c.blob FROM entry e {WITH_CONTENT} WHERE {NEWEST} ORDER BY e.origin"
    return select, federation
