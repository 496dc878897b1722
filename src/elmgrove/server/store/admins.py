"""Administrators in the store, and their sessions on the dashboard."""

from dataclasses import dataclass, field

from elmgrove.reading.times import told as time_told
from elmgrove.server.store.audit import OWN_CHAIN, SERVER, Chains, by_administrator, reads, record
from elmgrove.server.store.database import Operation

_ADMINISTRATOR = "SELECT name, role, token_hash, created, expires, password FROM administrator"


@dataclass(frozen=True)
class AdministratorRow:
    """Who may look at or manage a server (``role``), known by the hash of a token.

    ``expires`` is when the token ends to be valid; None is never. ``password`` is the hash of one,
    if there is one.
    """

    name: str
    role: str
    token_hash: str
    created: float
    expires: float | None = None
    password: str | None = field(default=None, repr=False)

    def invalid(self, now: float) -> str | None:
        """Says why the token is not valid at this time, and what to do; None if it is."""
        if self.expires is not None and now >= self.expires:
            return (
                f"the token of {self.name!r} expired on {time_told(self.expires)} UTC: another "
                "administrator gives a new one with 'elmgrove federation administrator add'"
            )
        return None


class Administrators(Chains):
    """The store's operations on administrators; what changes them is in the server's own chain.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @reads
    def administrators(self) -> Operation[list[AdministratorRow]]:
        """Lists all administrators. MUST be in the order of the names."""
        rows = yield (f"{_ADMINISTRATOR} ORDER BY name",)
        return [AdministratorRow(*row) for row in rows]

    @reads
    def administrator(self, name: str) -> Operation[AdministratorRow | None]:
        """Finds an administrator by name. MUST find one that has expired, too."""
        return (yield from _named(name))

    @reads
    def administrator_of(self, token_hash: str) -> Operation[AdministratorRow | None]:
        """Finds the administrator that has a token. MUST find one that has expired, too."""
        return (yield from administrator_with(token_hash))

    async def add_administrator(self, made: AdministratorRow, *, actor: str = SERVER) -> bool:
        """Adds an administrator. MUST return False and change nothing when the name is taken."""
        return await self.write(OWN_CHAIN, _add(made, actor))

    async def remove_administrator(self, name: str, *, actor: str = SERVER) -> bool:
        """Removes an administrator, whose token is worthless from then on; says whether it was.

        MUST end all sessions of that administrator.
        """
        return await self.write(OWN_CHAIN, _remove(name, actor))

    async def set_password(self, name: str, hashed: str | None, *, actor: str = SERVER) -> bool:
        """Sets the hash of an administrator's password, or takes it away; says whether it could.

        MUST end all sessions of that administrator.
        """
        return await self.write(OWN_CHAIN, _set_password(name, hashed, actor))


def administrator_with(token_hash: str) -> Operation[AdministratorRow | None]:
    """Finds the administrator that a token belongs to; ``invalid`` says whether it still may."""
    rows = yield (f"{_ADMINISTRATOR} WHERE token_hash = $1", token_hash)
    return AdministratorRow(*rows[0]) if rows else None


def _add(made: AdministratorRow, actor: str) -> Operation[bool]:
    if (yield from _named(made.name)) is not None:
        return False
    yield (
        """INSERT INTO administrator (name, role, token_hash, created, expires, password)
        VALUES ($1, $2, $3, $4, $5, $6)""",
        made.name,
        made.role,
        made.token_hash,
        made.created,
        made.expires,
        made.password,
    )
    stated = {"name": made.name, "role": made.role, "expires": made.expires}
    yield from record(OWN_CHAIN, actor, "administrator added", **stated)
    return True


def _remove(name: str, actor: str) -> Operation[bool]:
    if (yield from _named(name)) is None:
        return False
    yield ("DELETE FROM administrator WHERE name = $1", name)
    yield from sessions_ended(name)
    yield from record(OWN_CHAIN, actor, "administrator removed", name=name)
    return True


def _set_password(name: str, hashed: str | None, actor: str) -> Operation[bool]:
    if (yield from _named(name)) is None:
        return False
    yield ("UPDATE administrator SET password = $2 WHERE name = $1", name, hashed)
    yield from sessions_ended(name)
    act = "password removed" if hashed is None else "password set"
    yield from record(OWN_CHAIN, actor, act, name=name)
    return True


def _named(name: str) -> Operation[AdministratorRow | None]:
    rows = yield (f"{_ADMINISTRATOR} WHERE name = $1", name)
    return AdministratorRow(*rows[0]) if rows else None


def sessions_ended(name: str) -> Operation[None]:
    """Ends all sessions of an administrator: each was let in by what is no longer so."""
    yield ("DELETE FROM session WHERE administrator = $1", name)


#: Sessions of one administrator at the same time: the oldest goes for one more.
MOST_SESSIONS = 50

_SESSION = "SELECT id_hash, administrator, csrf, created, expires FROM session"


@dataclass(frozen=True)
class SessionRow:
    """An administrator's stay on the dashboard; ``csrf`` is what its forms hold."""

    id_hash: str
    administrator: str
    csrf: str = field(repr=False)
    created: float
    expires: float


class Sessions(Administrators):
    """The store's operations on sessions; that one begins is in the server's own chain.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @reads
    def session(self, id_hash: str) -> Operation[SessionRow | None]:
        """Finds a session. MUST be quick; whether it has expired is for the caller to say."""
        rows = yield (f"{_SESSION} WHERE id_hash = $1", id_hash)
        return SessionRow(*rows[0]) if rows else None

    async def open_session(self, made: SessionRow) -> None:
        """Begins a session. MUST end what expired before, and the oldest of too many."""
        await self.write(OWN_CHAIN, _open(made))

    async def close_session(self, id_hash: str) -> None:
        """Ends a session; nothing if it is over."""
        await self.write(OWN_CHAIN, _close(id_hash))


def _open(made: SessionRow) -> Operation[None]:
    yield ("DELETE FROM session WHERE expires <= $1", made.created)
    yield (
        """DELETE FROM session WHERE id_hash IN
        (SELECT id_hash FROM session WHERE administrator = $1
        ORDER BY created DESC LIMIT 1000 OFFSET $2)""",
        made.administrator,
        MOST_SESSIONS - 1,
    )
    yield (
        """INSERT INTO session (id_hash, administrator, csrf, created, expires)
        VALUES ($1, $2, $3, $4, $5)""",
        made.id_hash,
        made.administrator,
        made.csrf,
        made.created,
        made.expires,
    )
    actor = by_administrator(made.administrator)
    yield from record(OWN_CHAIN, actor, "logged in", until=made.expires)


def _close(id_hash: str) -> Operation[None]:
    yield ("DELETE FROM session WHERE id_hash = $1", id_hash)
