"""Visits in the store: who is on the dashboard, known by the hash of a cookie."""

from dataclasses import dataclass, field

from elmgrove.server.store.administrators import Administrators
from elmgrove.server.store.chain import OWN_CHAIN, by_administrator, reads, record
from elmgrove.server.store.database import Operation

#: Visits of one administrator at the same time: the oldest goes for one more.
MOST_VISITS = 50

_VISIT = "SELECT id_hash, administrator, csrf, created, expires FROM visit"


@dataclass(frozen=True)
class VisitRow:
    """An administrator's stay on the dashboard; ``csrf`` is what its forms hold."""

    id_hash: str
    administrator: str
    csrf: str = field(repr=False)
    created: float
    expires: float


class Visits(Administrators):
    """The store's operations on visits; that one begins is in the server's own chain.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @reads
    def visit(self, id_hash: str) -> Operation[VisitRow | None]:
        """Finds a visit. MUST be quick; whether it has expired is for the caller to say."""
        rows = yield (f"{_VISIT} WHERE id_hash = $1", id_hash)
        return VisitRow(*rows[0]) if rows else None

    async def open_visit(self, made: VisitRow) -> None:
        """Begins a visit. MUST end what expired before, and the oldest of too many."""
        await self.write(OWN_CHAIN, _open(made))

    async def close_visit(self, id_hash: str) -> None:
        """Ends a visit; nothing if it is over."""
        await self.write(OWN_CHAIN, _close(id_hash))


def _open(made: VisitRow) -> Operation[None]:
    yield ("DELETE FROM visit WHERE expires <= $1", made.created)
    yield (
        """DELETE FROM visit WHERE id_hash IN (SELECT id_hash FROM visit WHERE administrator = $1
        ORDER BY created DESC LIMIT 1000 OFFSET $2)""",
        made.administrator,
        MOST_VISITS - 1,
    )
    yield (
        """INSERT INTO visit (id_hash, administrator, csrf, created, expires)
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
    yield ("DELETE FROM visit WHERE id_hash = $1", id_hash)
