"""What the store needs of a data base, and the tables in it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from elmgrove.errors import BadFile, NotFound

Rows = Sequence[Sequence[Any]]


class Transaction(Protocol):
    """Runs SQL with the arguments $1, $2, ...; failures are ``StoreUnavailable``."""

    async def fetch(self, statement: str, *arguments: Any) -> Rows:
        """Run a statement and return its rows."""

    async def execute(self, statement: str, *arguments: Any) -> None:
        """Run a statement without rows: at the latest with the next ``fetch``, or at the end."""

    def stream(self, statement: str, *arguments: Any) -> AsyncIterator[Sequence[Any]]:
        """Iterate over the rows of a statement, with few of them in memory."""


class Database(Protocol):
    """A data base gives transactions. Its failures are ``StoreUnavailable``.

    What is raised inside of a transaction MUST reach the caller unchanged. A caller that is
    cancelled leaves the data base usable.
    """

    def read(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction that MUST see one unchanging state of the data base."""

    def write(self, federation: str) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction that MUST be alone among the writes to a federation.

        What it writes MUST be written wholly, or not at all if something is raised, and survive a
        power cut when the context has ended. A caller that is cancelled at the end can't tell
        whether it was written.
        """

    def snapshot(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction like ``read``, but for long: it MUST NOT keep short ones waiting."""

    async def close(self) -> None:
        """MUST let every transaction end that has begun."""


async def require_federation(tx: Transaction, name: str) -> None:
    """Raise ``NotFound``; needless where rows of the federation were found."""
    if not await tx.fetch("SELECT 1 FROM federation WHERE name = $1", name):
        raise NotFound(f"there is no federation {name!r}")


_VERSION = 5
# A log for each federation, which outlives it ('' for the server's own). The hash of a record
# covers the record and the hash before it.
_AUDIT = """CREATE TABLE audit (
    federation {text} NOT NULL, number BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL,
    actor {text} NOT NULL, act {text} NOT NULL, detail {text} NOT NULL, hash {text} NOT NULL,
    PRIMARY KEY (federation, number))"""
# Since version 4.
_NEW = (
    # The newest report of each device: what lists and counts need...
    """CREATE TABLE device_status (
        federation {text} NOT NULL, device {text} NOT NULL, received DOUBLE PRECISION NOT NULL,
        time DOUBLE PRECISION NOT NULL, silent_after DOUBLE PRECISION, state {text} NOT NULL,
        learned BIGINT NOT NULL, event BOOLEAN NOT NULL, drift BOOLEAN NOT NULL,
        PRIMARY KEY (federation, device))""",
    # ...and the rest as JSON, which they need not read.
    """CREATE TABLE report (
        federation {text} NOT NULL, device {text} NOT NULL, report {text} NOT NULL,
        PRIMARY KEY (federation, device))""",
    """CREATE TABLE hour (
        federation {text} NOT NULL, device {text} NOT NULL, hour BIGINT NOT NULL,
        received DOUBLE PRECISION NOT NULL, minutes {text} NOT NULL,
        PRIMARY KEY (federation, device, hour))""",
    "CREATE INDEX hour_by_age ON hour (received)",
    # ``begin_text`` is the begin as the device wrote it: a row's number where rows have no time.
    """CREATE TABLE event (
        federation {text} NOT NULL, device {text} NOT NULL, number BIGINT NOT NULL,
        begin_text {text} NOT NULL, begin DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION,
        peak DOUBLE PRECISION NOT NULL, received DOUBLE PRECISION NOT NULL, event {text} NOT NULL,
        PRIMARY KEY (federation, device, number, begin_text))""",
    "CREATE INDEX event_by_begin ON event (federation, begin)",
    "CREATE INDEX event_of_device ON event (federation, device, begin)",
    "CREATE INDEX event_open ON event (federation, device) WHERE ended IS NULL",
    "CREATE INDEX event_by_age ON event (received)",
    """CREATE TABLE command (
        id {text} PRIMARY KEY, federation {text} NOT NULL, device {text} NOT NULL,
        action {text} NOT NULL, words {text} NOT NULL, asked_by {text} NOT NULL,
        asked_at DOUBLE PRECISION NOT NULL, done DOUBLE PRECISION, refused BOOLEAN, said {text})""",
    "CREATE INDEX command_of_device ON command (federation, device, asked_at)",
    # How often something about devices changed that is no contribution.
    "CREATE TABLE device_changes (federation {text} PRIMARY KEY, number BIGINT NOT NULL)",
    "ALTER TABLE administrator ADD COLUMN password {text}",
    # How often all sessions of an administrator on the dashboard were ended.
    "CREATE TABLE session_number (administrator {text} PRIMARY KEY, number BIGINT NOT NULL)",
    # What is written to find out whether anything can be.
    "CREATE TABLE probe (content {bytes} NOT NULL)",
)
# The statements that turn the tables of a version into those of the next.
_UPGRADES = {
    4: (
        *(f"DROP TABLE IF EXISTS {name}" for name in ("report", "reply", "rounds_held", "rounds")),
        "ALTER TABLE federation DROP COLUMN agenda",
        *_NEW,
        "ALTER TABLE federation ADD COLUMN merged BOOLEAN NOT NULL DEFAULT FALSE",
        "UPDATE federation SET merged = (alarm = 'merged')",
        "ALTER TABLE federation DROP COLUMN alarm",
        # The audit had triggers: they go with the table.
        "ALTER TABLE audit RENAME TO former_audit",
        _AUDIT,
        "INSERT INTO audit SELECT * FROM former_audit",
        "DROP TABLE former_audit",
        "CREATE INDEX audit_by_act ON audit (federation, act, at)",
    )
}

# Blobs have a table of their own: an entry is marked as superseded without writing them again, and
# entries are listed without reading them. The newest entry of a device is not superseded.
_TABLES = (
    """CREATE TABLE federation (
        name {text} PRIMARY KEY, basis {text} NOT NULL, ridge DOUBLE PRECISION NOT NULL,
        members {text}, token_hash {text} NOT NULL, created DOUBLE PRECISION NOT NULL,
        terms {text} NOT NULL, merged BOOLEAN NOT NULL DEFAULT FALSE)""",
    """CREATE TABLE device (
        federation {text} NOT NULL REFERENCES federation ON DELETE CASCADE,
        name {text} NOT NULL, key_hash {text} NOT NULL, revoked BOOLEAN NOT NULL,
        enrolled DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION, next_hash {text},
        PRIMARY KEY (federation, name))""",
    "CREATE INDEX device_of_key ON device (federation, key_hash)",
    """CREATE INDEX device_of_next_key ON device (federation, next_hash)
        WHERE next_hash IS NOT NULL""",
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
    # ``role`` says whether somebody may look or manage; the token of the server's start has no row.
    """CREATE TABLE administrator (
        name {text} PRIMARY KEY, role {text} NOT NULL, token_hash {text} NOT NULL,
        created DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION)""",
    _AUDIT,
    *_NEW,
    "CREATE INDEX audit_by_act ON audit (federation, act, at)",
)


async def prepare(tx: Transaction, text: str, binary: str, *further: str) -> None:
    """Make the tables in an empty data base, or upgrade those of an older release.

    ``text`` must be a type that compares by bytes: the order of names is part of the contract.
    ``further`` statements are for one kind of data base alone.
    """

    async def run(statements: Sequence[str]) -> None:
        for statement in statements:
            await tx.execute(statement.format(text=text, bytes=binary))

    await tx.execute("CREATE TABLE IF NOT EXISTS elmgrove_schema (version BIGINT NOT NULL)")
    versions = await tx.fetch("SELECT version FROM elmgrove_schema")
    if not versions:
        await run((*_TABLES, *further))
        await tx.execute("INSERT INTO elmgrove_schema VALUES ($1)", _VERSION)
        return
    version, oldest = versions[0][0], min(_UPGRADES)
    if not oldest <= version <= _VERSION:
        raise BadFile(
            f"the data base has version {version} of the tables and this release of elmgrove "
            f"reads versions {oldest} to {_VERSION}: use the release that wrote it, or a newer one"
        )
    for step in range(version, _VERSION):
        await run(_UPGRADES[step])
        await tx.execute("UPDATE elmgrove_schema SET version = $1", step + 1)


async def insert(tx: Transaction, table: str, key: str = "", **values: Any) -> None:
    """Insert a row; with a key (some columns), in place of the one that has it."""
    names = ", ".join(values)
    statement = f"INSERT INTO {table} ({names}) VALUES ({placeholders(1, len(values))})"
    if key:
        settings = ", ".join(f"{name} = excluded.{name}" for name in values)
        statement += f" ON CONFLICT ({key}) DO UPDATE SET {settings}"
    await tx.execute(statement, *values.values())


async def upsert(tx: Transaction, into: str, rows: Sequence[Sequence[Any]], conflict: str) -> None:
    """Insert rows at once; ``conflict`` says what to do where there is one already."""
    width = len(rows[0])
    lines = ", ".join(f"({placeholders(1 + width * n, width)})" for n in range(len(rows)))
    values = [value for row in rows for value in row]
    await tx.execute(f"INSERT INTO {into} VALUES {lines} ON CONFLICT {conflict}", *values)


def placeholders(first: int, count: int) -> str:
    """Return the placeholders of some arguments.

    >>> placeholders(3, 2)
    '$3, $4'
    """
    return ", ".join(f"${number}" for number in range(first, first + count))
