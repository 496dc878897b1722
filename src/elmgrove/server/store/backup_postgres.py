"""Back-ups of a PostgreSQL store, by pg_dump and pg_restore."""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from elmgrove.errors import BadInput
from elmgrove.server.store.database import TABLE_NAMES, StoreUnavailable, require_version
from elmgrove.server.store.holdings import Holdings, Tell, damaged, later
from elmgrove.server.store.postgres import (
    AUDIT_IS_KEPT,
    CONNECT,
    application,
    asyncpg,
    translated,
)
from elmgrove.storage import InUse

#: Where Debian keeps the programs of each version.
_PROGRAMS = Path("/usr/lib/postgresql")
# What PostgreSQL's programs call what a URL may state; anything else is a setting of the server.
_VARIABLES = {
    name: f"PG{name.upper()}"
    for name in ("host", "port", "user", "password", "passfile", "sslmode", "sslrootcert")
} | {"dbname": "PGDATABASE", "database": "PGDATABASE", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}
_COPY = re.compile(r'COPY "?(.*?)"?\."?(\w+)"? \((.*)\) FROM stdin;')
_NULL = r"\N"


def write(store: str, path: Path, tell: Tell) -> None:
    """Dumps one unchanging state of a store's tables into a file."""
    schema, tables = asyncio.run(_found(store))
    if not tables:
        raise BadInput("this data base holds no store: no server was ever started with it")
    chosen = [f'--table="{schema}"."{name}"' for name in sorted(tables)]
    # Compressed for the checksums that come with that.
    how = ("--format=custom", "--compress=1", "--no-owner", "--no-privileges", f"--file={path}")
    _run(["pg_dump", *how, *chosen], tell, environment(store))


def holdings(path: Path, tell: Tell) -> Holdings:
    """Reads a dump to its end, and says what is in it."""
    listed = _read(path, tell, "--list")
    made = re.search(r"Archive created at (.*)", listed)
    # The list is at the begin of the file: it says nothing about the rest.
    _read(path, tell, f"--file={os.devnull}")
    schema, versions = _rows(path, tell, "elmgrove_schema")
    if len(versions) != 1 or made is None:
        raise damaged(path, "it holds no tables of a store")
    require_version(int(versions[0]["version"]))
    entries = [
        float(row["received"])
        for row in _rows(path, tell, "entry")[1]
        if row["superseded"] == _NULL and row["digest"]
    ]
    return Holdings(
        False,
        len(_rows(path, tell, "federation")[1]),
        len(_rows(path, tell, "device")[1]),
        len(entries),
        max(entries, default=None),
        made[1].strip(),
        schema,
        frozenset(re.findall(r" TABLE DATA \S+ (\w+) ", listed)),
    )


def restore(path: Path, store: str, held: Holdings, tell: Tell, *, force: bool) -> None:
    """Puts a dump that was found to be whole into a data base that no server uses."""
    schema, _ = asyncio.run(_found(store, unused=True, empty=not force))
    if schema != held.schema:
        raise BadInput(f"{path} is of the schema {held.schema!r}, and can't be put into {schema!r}")
    known = environment(store)
    how = ("--single-transaction", "--clean", "--if-exists", "--no-owner", "--no-privileges")
    asyncio.run(_execute(store, AUDIT_IS_KEPT))
    target = f"--dbname={known.get('PGDATABASE', known.get('PGUSER', 'postgres'))}"
    _run(["pg_restore", *how, target, str(path)], tell, known)
    # Tables of a newer release: when a server upgrades what was restored it makes them.
    left_over = [f"DROP TABLE IF EXISTS {name}" for name in TABLE_NAMES - held.tables]
    moved = f"UPDATE federation SET created = created + {later()!r}"
    asyncio.run(_execute(store, *left_over, moved))


async def _found(
    store: str, *, unused: bool = False, empty: bool = False
) -> tuple[str, frozenset[str]]:
    """The schema of a store and those of its tables that are there."""
    connection = await _connected(store)
    try:
        if unused and await connection.fetchval(_OTHERS, application(store)):
            raise InUse("this data base is in use; stop all servers first")
        schema = await connection.fetchval("SELECT current_schema()")
        names = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = $1", schema
        )
        tables = TABLE_NAMES & {row[0] for row in names}
        for name in tables & {"federation", "administrator", "audit"} if empty else ():
            if await connection.fetchval(f"SELECT EXISTS (SELECT 1 FROM {name})"):
                raise BadInput("this data base holds a store: --force replaces all of it")
        return schema, tables
    finally:
        await connection.close()


_OTHERS = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid()"""


async def _execute(store: str, *statements: str) -> None:
    connection = await _connected(store)
    try:
        async with connection.transaction():
            for statement in statements:
                await connection.execute(statement)
    finally:
        await connection.close()


async def _connected(store: str) -> Any:
    with translated():
        return await asyncpg.connect(store, timeout=CONNECT)


def environment(store: str) -> dict[str, str]:
    """Says in PostgreSQL's variables what a URL says: arguments everybody can see."""
    parts = urlsplit(store)
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    places = [re.fullmatch(r"(\[.*\]|[^:]*)(?::(\d+))?", one) for one in hosts.split(",")]
    stated = {
        "user": user,
        "password": password,
        "host": ",".join(place[1].strip("[]") for place in places if place),
        "port": ",".join(place[2] or "" for place in places if place).strip(","),
        "dbname": parts.path.removeprefix("/"),
    }
    found = {name: unquote(value) for name, value in stated.items() if value}
    found |= dict(parse_qsl(parts.query))
    known = {_VARIABLES[name]: value for name, value in found.items() if name in _VARIABLES}
    others = [f"-c {name}={value}" for name, value in found.items() if name not in _VARIABLES]
    return known | ({"PGOPTIONS": " ".join(others)} if others else {})


def _rows(path: Path, tell: Tell, table: str) -> tuple[str, list[dict[str, str]]]:
    """The schema and the rows of a table in a dump, as text."""
    schema, columns, rows = "", list[str](), list[dict[str, str]]()
    for line in _read(path, tell, "--data-only", f"--table={table}", "--file=-").split("\n"):
        if found := _COPY.fullmatch(line):
            schema, columns = found[1], [name.strip(' "') for name in found[3].split(",")]
        elif line == r"\.":
            columns = []
        elif columns:
            rows.append(dict(zip(columns, line.split("\t"), strict=True)))
    return schema, rows


def _read(path: Path, tell: Tell, *how: str) -> str:
    try:
        return _run(["pg_restore", *how, str(path)], tell, {})
    except StoreUnavailable as error:
        raise damaged(path, error) from error


def _run(command: Sequence[str], tell: Tell, known: dict[str, str]) -> str:
    """Runs a program of PostgreSQL's to its end, and gives what it wrote."""
    name, *arguments = command
    running = subprocess.Popen(
        [_program(name), *arguments],
        env={**os.environ, **known},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    try:
        while True:
            try:
                output, errors = running.communicate(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                tell(None)
    finally:
        # Interrupted as well: it must not go on by itself.
        running.kill()
        running.wait()
    if running.returncode:
        raise StoreUnavailable(f"{name} failed: {errors.strip()}")
    return output


def _program(name: str) -> str:
    found = shutil.which(name)
    versions = sorted(_PROGRAMS.glob(f"*/bin/{name}"), key=_version)
    if found is None and not versions:
        raise BadInput(
            f"{name} is not there: install PostgreSQL's programs for clients (on Debian "
            "postgresql-client)"
        )
    return found or str(versions[-1])


def _version(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.parts[-3])]
