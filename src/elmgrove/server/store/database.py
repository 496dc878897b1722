"""What every data base must do for the store, and the tables that it holds."""

from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from elmgrove.errors import BadFile

T = TypeVar("T")
#: The text of an SQL statement, then its arguments $1, $2, ...
Statement = tuple[Any, ...]
Rows = Sequence[Sequence[Any]]
#: Yields statements, is sent the rows that each of them gives, and returns its result.
Operation = Generator[Statement, Rows, T]


class Database(Protocol):
    """A data base runs operations. Its failures are ``StoreUnavailable``."""

    async def read(self, operation: Operation[T]) -> T:
        """MUST run the operation on one unchanging state of the data base."""

    async def write(self, federation: str, operation: Operation[T]) -> T:
        """MUST run the operation alone among the writes to a federation, wholly or not at all.

        Returns when the result survives a power cut. A caller that is cancelled meanwhile can't
        tell whether it was written; the data base stays usable.
        """

    def stream(
        self, operation: Operation[T], statement: Statement
    ) -> AbstractAsyncContextManager[tuple[T, AsyncIterator[Any]]]:
        """MUST give the result and the rows of one unchanging state, with few rows in memory."""

    async def close(self) -> None:
        """MUST let every operation end that has begun."""


VERSION = 5
# Who may administer a server, by name, beside the token that it was started with.
_ADMINISTRATOR = """CREATE TABLE administrator (
    name {text} PRIMARY KEY, role {text} NOT NULL, token_hash {text} NOT NULL,
    created DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION)"""
# What was done, by whom: a chain for each federation, which outlives it ('' for the server's own).
# A record's hash covers the record and the hash before it.
_AUDIT = """CREATE TABLE audit (
    federation {text} NOT NULL, number BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL,
    actor {text} NOT NULL, act {text} NOT NULL, detail {text} NOT NULL, hash {text} NOT NULL,
    PRIMARY KEY (federation, number))"""
_NEXT_KEY = """CREATE INDEX device_of_next_key ON device (federation, next_hash)
    WHERE next_hash IS NOT NULL"""
# What devices tell of themselves: the newest of each, then what is written of it as JSON, which a
# list of all devices does not read; minutes by the hour; events; and what waits for a device.
# ``due`` is when it ought to be heard of again. ``mark`` is the begin of an event as the device
# wrote it, the number of a row where it has no time; ``received`` is when the first of it came.
# ``changed`` counts what changed about devices, besides what has a revision.
_REPORTS = (
    """CREATE TABLE told (
        federation {text} NOT NULL, device {text} NOT NULL, received DOUBLE PRECISION NOT NULL,
        time DOUBLE PRECISION NOT NULL, due DOUBLE PRECISION, state {text} NOT NULL,
        learned BIGINT NOT NULL, event BOOLEAN NOT NULL, drift BOOLEAN NOT NULL,
        PRIMARY KEY (federation, device))""",
    """CREATE TABLE report (
        federation {text} NOT NULL, device {text} NOT NULL, report {text} NOT NULL,
        PRIMARY KEY (federation, device))""",
    """CREATE TABLE hour (
        federation {text} NOT NULL, device {text} NOT NULL, hour BIGINT NOT NULL,
        received DOUBLE PRECISION NOT NULL, minutes {text} NOT NULL,
        PRIMARY KEY (federation, device, hour))""",
    "CREATE INDEX hour_by_age ON hour (received)",
    """CREATE TABLE event (
        federation {text} NOT NULL, device {text} NOT NULL, number BIGINT NOT NULL,
        mark {text} NOT NULL, begin DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION,
        peak DOUBLE PRECISION NOT NULL, received DOUBLE PRECISION NOT NULL, event {text} NOT NULL,
        PRIMARY KEY (federation, device, number, mark))""",
    "CREATE INDEX event_by_begin ON event (federation, begin)",
    "CREATE INDEX event_of_device ON event (federation, device, begin)",
    "CREATE INDEX event_open ON event (federation, device) WHERE ended IS NULL",
    "CREATE INDEX event_by_age ON event (received)",
    """CREATE TABLE command (
        id {text} PRIMARY KEY, federation {text} NOT NULL, device {text} NOT NULL,
        action {text} NOT NULL, words {text} NOT NULL, asked_by {text} NOT NULL,
        asked_at DOUBLE PRECISION NOT NULL, done DOUBLE PRECISION, refused BOOLEAN, said {text})""",
    "CREATE INDEX command_of_device ON command (federation, device, asked_at)",
    """CREATE TABLE changed (federation {text} PRIMARY KEY, number BIGINT NOT NULL)""",
)
# Who is on the dashboard; and the hash of an administrator's password.
_SESSIONS = (
    "ALTER TABLE administrator ADD COLUMN password {text}",
    """CREATE TABLE session (
        id_hash {text} PRIMARY KEY, administrator {text} NOT NULL, csrf {text} NOT NULL,
        created DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION NOT NULL)""",
)
# For what was refused, and for how much was published when, among all that was done.
_ACTS = "CREATE INDEX IF NOT EXISTS audit_of_act ON audit (federation, act, at)"
# The time by which ages are counted; one row, once a server has run for an hour.
_CLOCK = "CREATE TABLE clock (seconds DOUBLE PRECISION NOT NULL)"
# What is written to find out whether anything can be.
_PROBE = "CREATE TABLE probe (content {bytes} NOT NULL)"
# What makes the tables of a version those of the next.
_UPGRADES = {
    4: (
        *(f"DROP TABLE IF EXISTS {name}" for name in ("report", "reply", "rounds_held", "rounds")),
        "ALTER TABLE federation DROP COLUMN agenda",
        *_REPORTS,
        *_SESSIONS,
        _CLOCK,
        _PROBE,
        "ALTER TABLE federation ADD COLUMN merged BOOLEAN NOT NULL DEFAULT FALSE",
        "UPDATE federation SET merged = (alarm = 'merged')",
        "ALTER TABLE federation DROP COLUMN alarm",
        # The audit had triggers: they go with the table.
        "ALTER TABLE audit RENAME TO former_audit",
        _AUDIT,
        "INSERT INTO audit SELECT * FROM former_audit",
        "DROP TABLE former_audit",
        _ACTS,
    ),
}

# Blobs have a table of their own: to mark an entry as superseded then rewrites none of them, and
# a list of entries reads none. An entry that nothing superseded is the newest of its origin.
TABLES = (
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
    _NEXT_KEY,
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
    _ADMINISTRATOR,
    _AUDIT,
    *_REPORTS,
    *_SESSIONS,
    _ACTS,
    _CLOCK,
    _PROBE,
)


def prepare(text: str, binary: str, *further: str) -> Operation[None]:
    """Makes the tables in an empty data base, or makes older ones those of this release.

    ``further`` statements are for one data base alone.
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
        return
    version = versions[0][0]
    require_version(version)
    for step in range(version, VERSION):
        for statement in _UPGRADES[step]:
            yield (statement.format(text=text, bytes=binary),)
        yield ("UPDATE elmgrove_schema SET version = $1", step + 1)


def require_version(version: int) -> None:
    """Raises ``BadFile`` unless this release knows such tables."""
    if not min(_UPGRADES) <= version <= VERSION:
        raise BadFile(
            f"the data base has version {version} of the tables and this release of elmgrove "
            f"reads versions {min(_UPGRADES)} to {VERSION}: use the release that wrote it, or a "
            "newer one"
        )


def upsert(into: str, rows: Sequence[Sequence[Any]], conflict: str) -> Statement:
    """Inserts rows at once, or does what is said where one is there."""
    width = len(rows[0])
    lines = ", ".join(f"({places(1 + width * n, width)})" for n in range(len(rows)))
    values = [value for row in rows for value in row]
    return (f"INSERT INTO {into} VALUES {lines} ON CONFLICT {conflict}", *values)


def places(first: int, count: int) -> str:
    """Writes as many places for arguments as there are, from a number on."""
    return ", ".join(f"${number}" for number in range(first, first + count))
