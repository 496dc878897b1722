"""Administrators in the store, and which of their sessions on the dashboard still last."""

from dataclasses import dataclass, field

from elmgrove.reading.times import format_time
from elmgrove.server.store.audit import SERVER, SERVER_LOG, by_administrator, record
from elmgrove.server.store.database import Database, Transaction, insert

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


class Admins:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[AdministratorRow]:
        """List all administrators. MUST be in the order of the names."""
        async with self._database.read() as tx:
            rows = await tx.fetch(f"{_ADMINISTRATOR} ORDER BY name")
        return [AdministratorRow(*row) for row in rows]

    async def find(self, name: str) -> AdministratorRow | None:
        async with self._database.read() as tx:
            return await _named(tx, name)

    async def with_token(self, token_hash: str) -> AdministratorRow | None:
        async with self._database.read() as tx:
            return await administrator_with(tx, token_hash)

    async def add(self, made: AdministratorRow, *, actor: str = SERVER) -> bool:
        """Add an administrator. MUST return False and change nothing when the name is taken."""
        async with self._database.write(SERVER_LOG) as tx:
            if await _named(tx, made.name) is not None:
                return False
            await insert(tx, "administrator", **vars(made))
            detail = {"name": made.name, "role": made.role, "expires": made.expires}
            await record(tx, SERVER_LOG, actor, "administrator added", **detail)
        return True

    async def remove(self, name: str, *, actor: str = SERVER) -> bool:
        """Remove an administrator and all its sessions; return whether it was there."""
        async with self._database.write(SERVER_LOG) as tx:
            if await _named(tx, name) is None:
                return False
            await tx.execute("DELETE FROM administrator WHERE name = $1", name)
            await _end_sessions(tx, name)
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
            await _end_sessions(tx, name)
            act = "password removed" if hashed is None else "password set"
            await record(tx, SERVER_LOG, actor, act, name=name)
        return True

    async def session_number(self, name: str) -> int:
        """Return how often all sessions of an administrator were ended; others have ended."""
        async with self._database.read() as tx:
            return await _session_number(tx, name)

    async def begin_session(self, name: str) -> int:
        """Note that an administrator logged in, and return the number that its session is of."""
        async with self._database.write(SERVER_LOG) as tx:
            await record(tx, SERVER_LOG, by_administrator(name), "logged in")
            return await _session_number(tx, name)

    async def end_sessions(self, name: str) -> None:
        async with self._database.write(SERVER_LOG) as tx:
            await _end_sessions(tx, name)
            await record(tx, SERVER_LOG, by_administrator(name), "logged out")


async def _session_number(tx: Transaction, name: str) -> int:
    rows = await tx.fetch("SELECT number FROM session_number WHERE administrator = $1", name)
    return int(rows[0][0]) if rows else 0


async def _end_sessions(tx: Transaction, name: str) -> None:
    # The row outlives the administrator: whoever gets the name next has other sessions.
    await tx.execute(
        """INSERT INTO session_number (administrator, number) VALUES ($1, 1)
        ON CONFLICT (administrator) DO UPDATE SET number = session_number.number + 1""",
        name,
    )


async def administrator_with(tx: Transaction, token_hash: str) -> AdministratorRow | None:
    rows = await tx.fetch(f"{_ADMINISTRATOR} WHERE token_hash = $1", token_hash)
    return AdministratorRow(*rows[0]) if rows else None


async def _named(tx: Transaction, name: str) -> AdministratorRow | None:
    rows = await tx.fetch(f"{_ADMINISTRATOR} WHERE name = $1", name)
    return AdministratorRow(*rows[0]) if rows else None
