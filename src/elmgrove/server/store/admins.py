"""Administrators in the store, and their sessions on the dashboard."""

from dataclasses import dataclass, field

from elmgrove.reading.times import format_time
from elmgrove.server.store.audit import SERVER, SERVER_LOG, by_administrator, record
from elmgrove.server.store.database import Database, Transaction

_ADMINISTRATOR = "SELECT name, role, token_hash, created, expires, password FROM administrator"


@dataclass(frozen=True)
class AdministratorRow:
    """Who may look at or manage a server (``role``), known by the hash of a token.

    ``expires`` is when the token expires; None is never. ``password`` is the hash of one, if there
    is one.
    """

    name: str
    role: str
    token_hash: str
    created: float
    expires: float | None = None
    password: str | None = field(default=None, repr=False)

    def invalid(self, now: float) -> str | None:
        """Say why the token is not valid at this time, and what to do; None if it is."""
        if self.expires is not None and now >= self.expires:
            return (
                f"the token of {self.name!r} expired on {format_time(self.expires)} UTC: another "
                "administrator gives a new one with 'elmgrove federation administrators'"
            )
        return None


@dataclass(frozen=True)
class SessionRow:
    """An administrator's session on the dashboard; ``csrf`` is what its forms hold."""

    id_hash: str
    administrator: str
    csrf: str = field(repr=False)
    created: float
    expires: float


class Admins:
    """Administrators and their sessions; what changes them is in the server's own audit log."""

    #: Sessions of one administrator at the same time: the oldest goes for one more.
    MOST_SESSIONS = 50

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[AdministratorRow]:
        """List all administrators. MUST be in the order of the names."""
        async with self._database.read() as tx:
            rows = await tx.fetch(f"{_ADMINISTRATOR} ORDER BY name")
        return [AdministratorRow(*row) for row in rows]

    async def find(self, name: str) -> AdministratorRow | None:
        """Find an administrator by name, also one that has expired."""
        async with self._database.read() as tx:
            return await _named(tx, name)

    async def with_token(self, token_hash: str) -> AdministratorRow | None:
        """Find the administrator that has a token, also one that has expired."""
        async with self._database.read() as tx:
            return await administrator_with(tx, token_hash)

    async def add(self, made: AdministratorRow, *, actor: str = SERVER) -> bool:
        """Add an administrator. MUST return False and change nothing when the name is taken."""
        async with self._database.write(SERVER_LOG) as tx:
            if await _named(tx, made.name) is not None:
                return False
            await tx.execute(
                """INSERT INTO administrator (name, role, token_hash, created, expires, password)
                VALUES ($1, $2, $3, $4, $5, $6)""",
                made.name,
                made.role,
                made.token_hash,
                made.created,
                made.expires,
                made.password,
            )
            detail = {"name": made.name, "role": made.role, "expires": made.expires}
            await record(tx, SERVER_LOG, actor, "administrator added", **detail)
        return True

    async def remove(self, name: str, *, actor: str = SERVER) -> bool:
        """Remove an administrator and all its sessions; return whether it was there."""
        async with self._database.write(SERVER_LOG) as tx:
            if await _named(tx, name) is None:
                return False
            await tx.execute("DELETE FROM administrator WHERE name = $1", name)
            await tx.execute("DELETE FROM session WHERE administrator = $1", name)
            await record(tx, SERVER_LOG, actor, "administrator removed", name=name)
        return True

    async def set_password(self, name: str, hashed: str | None, *, actor: str = SERVER) -> bool:
        """Set the hash of an administrator's password, or remove it; return whether it could.

        MUST end all sessions of that administrator.
        """
        async with self._database.write(SERVER_LOG) as tx:
            if await _named(tx, name) is None:
                return False
            await tx.execute("UPDATE administrator SET password = $2 WHERE name = $1", name, hashed)
            await tx.execute("DELETE FROM session WHERE administrator = $1", name)
            act = "password removed" if hashed is None else "password set"
            await record(tx, SERVER_LOG, actor, act, name=name)
        return True

    async def session(self, id_hash: str) -> SessionRow | None:
        """Find a session, also one that has expired. MUST be quick."""
        async with self._database.read() as tx:
            rows = await tx.fetch(
                """SELECT id_hash, administrator, csrf, created, expires FROM session
                WHERE id_hash = $1""",
                id_hash,
            )
        return SessionRow(*rows[0]) if rows else None

    async def open_session(self, made: SessionRow) -> None:
        """Begin a session. MUST end what expired before, and the oldest of too many."""
        async with self._database.write(SERVER_LOG) as tx:
            await tx.execute("DELETE FROM session WHERE expires <= $1", made.created)
            await tx.execute(
                """DELETE FROM session WHERE id_hash IN
                (SELECT id_hash FROM session WHERE administrator = $1
                ORDER BY created DESC LIMIT 1000 OFFSET $2)""",
                made.administrator,
                self.MOST_SESSIONS - 1,
            )
            await tx.execute(
                """INSERT INTO session (id_hash, administrator, csrf, created, expires)
                VALUES ($1, $2, $3, $4, $5)""",
                made.id_hash,
                made.administrator,
                made.csrf,
                made.created,
                made.expires,
            )
            actor = by_administrator(made.administrator)
            await record(tx, SERVER_LOG, actor, "logged in", until=made.expires)

    async def close_session(self, id_hash: str) -> None:
        """End a session; nothing if it is over."""
        async with self._database.write(SERVER_LOG) as tx:
            await tx.execute("DELETE FROM session WHERE id_hash = $1", id_hash)


async def administrator_with(tx: Transaction, token_hash: str) -> AdministratorRow | None:
    """Find the administrator that a token belongs to; ``invalid`` says whether it still may."""
    rows = await tx.fetch(f"{_ADMINISTRATOR} WHERE token_hash = $1", token_hash)
    return AdministratorRow(*rows[0]) if rows else None


async def _named(tx: Transaction, name: str) -> AdministratorRow | None:
    rows = await tx.fetch(f"{_ADMINISTRATOR} WHERE name = $1", name)
    return AdministratorRow(*rows[0]) if rows else None
