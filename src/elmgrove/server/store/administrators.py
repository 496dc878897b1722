"""Administrators in the store: who may look at or manage a server, by name."""

from dataclasses import dataclass

from elmgrove.reading import time_told
from elmgrove.server.store.chain import OWN_CHAIN, SERVER, Chains, reads, record
from elmgrove.server.store.database import Operation

_ADMINISTRATOR = "SELECT name, role, token_hash, created, expires FROM administrator"


@dataclass(frozen=True)
class AdministratorRow:
    """Who may look at or manage a server (``role``), known by the hash of a token.

    ``expires`` is when the token ends to be valid; None is never.
    """

    name: str
    role: str
    token_hash: str
    created: float
    expires: float | None = None

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
    def administrator_of(self, token_hash: str) -> Operation[AdministratorRow | None]:
        """Finds the administrator that has a token. MUST find one that has expired, too."""
        return (yield from administrator_with(token_hash))

    async def add_administrator(self, made: AdministratorRow, *, actor: str = SERVER) -> bool:
        """Adds an administrator. MUST return False and change nothing when the name is taken."""
        return await self.write(OWN_CHAIN, _add(made, actor))

    async def remove_administrator(self, name: str, *, actor: str = SERVER) -> bool:
        """Removes an administrator, whose token is worthless from then on; says whether it was."""
        return await self.write(OWN_CHAIN, _remove(name, actor))


def administrator_with(token_hash: str) -> Operation[AdministratorRow | None]:
    """Finds the administrator that a token belongs to; ``invalid`` says whether it still may."""
    rows = yield (f"{_ADMINISTRATOR} WHERE token_hash = $1", token_hash)
    return AdministratorRow(*rows[0]) if rows else None


def _add(made: AdministratorRow, actor: str) -> Operation[bool]:
    if (yield (f"{_ADMINISTRATOR} WHERE name = $1", made.name)):
        return False
    yield (
        """INSERT INTO administrator (name, role, token_hash, created, expires)
        VALUES ($1, $2, $3, $4, $5)""",
        made.name,
        made.role,
        made.token_hash,
        made.created,
        made.expires,
    )
    stated = {"name": made.name, "role": made.role, "expires": made.expires}
    yield from record(OWN_CHAIN, actor, "administrator added", **stated)
    return True


def _remove(name: str, actor: str) -> Operation[bool]:
    if not (yield (f"{_ADMINISTRATOR} WHERE name = $1", name)):
        return False
    yield ("DELETE FROM administrator WHERE name = $1", name)
    yield from record(OWN_CHAIN, actor, "administrator removed", name=name)
    return True
