"""All devices of a federation in the store, a page at a time, and how much is held of each."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from elmgrove.detector.decision import CHANGING, LEARNING, WATCHING
from elmgrove.errors import BadInput
from elmgrove.server.store.database import Database, require_federation

#: States beside those that devices report: with an open event, revoked, late with its report, or
#: without any.
ANOMALOUS, REVOKED, SILENT, UNREPORTED = "anomalous", "revoked", "silent", "unreported"
#: All states, the most urgent first.
FLEET_STATES = (ANOMALOUS, CHANGING, SILENT, UNREPORTED, LEARNING, WATCHING, REVOKED)


def _state_at(now: str) -> str:
    """Return the SQL of the state of a device ``d`` with the status ``s``."""
    # Where what is normal has changed, anomalous rows are a question, once it is asked, and no
    # alarm.
    return f"""CASE WHEN d.revoked THEN '{REVOKED}' WHEN s.device IS NULL THEN '{UNREPORTED}'
        WHEN s.silent_after < {now} THEN '{SILENT}' WHEN s.drift AND s.state = '{CHANGING}'
        THEN '{CHANGING}' WHEN s.event AND s.state != '{LEARNING}' THEN '{ANOMALOUS}'
        ELSE s.state END"""


_DEVICES = """FROM device d
    LEFT JOIN device_status s ON s.federation = d.federation AND s.device = d.name"""
_STATE = _state_at("$2")
_SEEN = "COALESCE(s.received, e.received)"
_SELECT = f"""SELECT d.name, d.enrolled, {_STATE}, {_SEEN}, s.learned, s.event, s.drift, e.count,
    e.digest {_DEVICES} LEFT JOIN entry e ON e.federation = d.federation AND e.origin = d.name
    AND e.superseded IS NULL WHERE d.federation = $1"""
#: By what devices can be sorted.
SORTS = {
    "name": "d.name",
    "state": f"CASE {_STATE} "
    + " ".join(f"WHEN '{state}' THEN {place}" for place, state in enumerate(FLEET_STATES))
    + " END",
    "seen": _SEEN,
    "learned": "s.learned",
    "event": "s.event",
    "drift": "s.drift",
    "rows": "e.count",
}


def require_known(state: str | None, sort: str) -> None:
    if state is not None and state not in FLEET_STATES:
        raise BadInput(f"state: {state!r:.40} is not {', '.join(FLEET_STATES)}")
    if sort not in SORTS:
        raise BadInput(f"sort: {sort!r:.40} is not {', '.join(SORTS)}")


@dataclass(frozen=True)
class FleetRow:
    """A device in a list; what is not known is None.

    ``state`` is one of ``FLEET_STATES``, ``seen`` the time of its last report or contribution, and
    ``rows`` are those behind its contribution. ``left`` says that it took that back.
    """

    name: str
    enrolled: float
    state: str
    seen: float | None
    learned: int | None
    event: bool
    drift: bool
    rows: float | None
    left: bool


@dataclass(frozen=True)
class FleetPage:
    rows: list[FleetRow]
    total: int
    counts: dict[str, int]


@dataclass
class FederationStatistics:
    """How much is held of one federation; that of '' is the server's own audit log.

    ``stored`` and ``recorded`` count all entries and records there ever were. ``states`` counts
    devices by ``FLEET_STATES``, ``drifts`` those of which something changed, ``commands`` those
    that wait.
    """

    valid: int = 0
    revoked: int = 0
    contributions: int = 0
    rows: float = 0.0
    size: float = 0.0
    received: float | None = None
    stored: int = 0
    recorded: int = 0
    states: dict[str, int] = field(default_factory=dict)
    drifts: int = 0
    commands: int = 0


class Fleet:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        federation: str,
        *,
        search: str = "",
        state: str | None = None,
        sort: str = "name",
        descending: bool = False,
        limit: int = 100,
        offset: int = 0,
        now: float,
    ) -> FleetPage:
        """Return a page of devices whose name has ``search`` in it, in ``SORTS``' order.

        Letters of ASCII are alike in upper and lower case. What is not known is last. The counts
        are over all states, whichever is asked for. MUST be quick with 10,000 devices.
        """
        named, chosen = "", ""
        arguments: list[Any] = [federation, now]
        if search:
            named = "AND replace(lower(d.name), $3, '') <> lower(d.name)"
            arguments.append(_lower(search))
        direction = "DESC" if descending else "ASC"
        order = f"d.name {direction}"
        if sort != "name":
            order = f"{SORTS[sort]} IS NULL, {SORTS[sort]} {direction}, d.name"
        async with self._database.read() as tx:
            rows = await tx.fetch(
                f"""SELECT {_STATE}, count(*) {_DEVICES} WHERE d.federation = $1 {named}
                GROUP BY 1""",
                *arguments,
            )
            if not rows:
                await require_federation(tx, federation)
            found = {name: int(count) for name, count in rows}
            if state is not None:
                arguments.append(state)
                chosen = f"AND {_STATE} = ${len(arguments)}"
            rows = await tx.fetch(
                f"""{_SELECT} {named} {chosen}
                ORDER BY {order} LIMIT {limit:d} OFFSET {offset:d}""",
                *arguments,
            )
        counts = {name: found.get(name, 0) for name in FLEET_STATES}
        total = sum(counts.values()) if state is None else counts.get(state, 0)
        return FleetPage([_row(*row) for row in rows], total, counts)

    async def device(self, federation: str, name: str, *, now: float) -> FleetRow | None:
        """Return one device as a page has it; None if no such device joined."""
        async with self._database.read() as tx:
            rows = await tx.fetch(f"{_SELECT} AND d.name = $3", federation, now, name)
            if not rows:
                await require_federation(tx, federation)
                return None
        return _row(*rows[0])

    async def marker(self, federation: str) -> str:
        """Return a text that changes whenever something about a federation's devices does.

        MUST be quick, and the same on all servers of a data base.
        """
        async with self._database.read() as tx:
            rows = await tx.fetch(
                """SELECT f.created,
                (SELECT max(revision) FROM entry e WHERE e.federation = f.name),
                (SELECT number FROM device_changes c WHERE c.federation = f.name)
                FROM federation f WHERE f.name = $1""",
                federation,
            )
            if not rows:
                await require_federation(tx, federation)
        created, revision, number = rows[0]
        return f"{created!r}-{revision or 0}-{number or 0}"

    async def statistics(self) -> dict[str, FederationStatistics]:
        """Count what is held, by federation. MUST be quick with many devices and records."""
        found: dict[str, FederationStatistics] = defaultdict(FederationStatistics)
        async with self._database.read() as tx:
            # No statement reads a blob or all of the audit.
            for name, stored, recorded in await tx.fetch(
                """SELECT f.name,
                (SELECT max(revision) FROM entry e WHERE e.federation = f.name),
                (SELECT max(number) FROM audit a WHERE a.federation = f.name) FROM federation f"""
            ):
                found[name].stored, found[name].recorded = stored or 0, recorded or 0
            ((recorded,),) = await tx.fetch("SELECT max(number) FROM audit WHERE federation = ''")
            found[""].recorded = recorded or 0
            for name, valid, revoked in await tx.fetch(
                """SELECT federation, sum(CASE WHEN revoked THEN 0 ELSE 1 END),
                sum(CASE WHEN revoked THEN 1 ELSE 0 END) FROM device GROUP BY federation"""
            ):
                found[name].valid, found[name].revoked = valid, revoked
            # Sums as DOUBLE PRECISION: PostgreSQL's other type is none of Python's numbers.
            for name, number, rows, size, received in await tx.fetch(
                """SELECT federation, count(*), CAST(sum(count) AS DOUBLE PRECISION),
                CAST(sum(size) AS DOUBLE PRECISION), max(received) FROM entry
                WHERE superseded IS NULL AND digest <> '' GROUP BY federation"""
            ):
                one = found[name]
                one.contributions, one.rows, one.size, one.received = number, rows, size, received
            for name, state, number, drifts in await tx.fetch(
                # As DOUBLE PRECISION, or PostgreSQL could not tell what the time is compared with.
                f"""SELECT d.federation, {_state_at("CAST($1 AS DOUBLE PRECISION)")}, count(*),
                sum(CASE WHEN s.drift AND NOT d.revoked THEN 1 ELSE 0 END)
                {_DEVICES} GROUP BY 1, 2""",
                time.time(),
            ):
                found[name].states[state] = number
                found[name].drifts += drifts
            for name, number in await tx.fetch(
                """SELECT federation, count(*) FROM command WHERE done IS NULL
                GROUP BY federation"""
            ):
                found[name].commands = number
        return dict(found)


def _row(
    name: str,
    enrolled: float,
    state: str,
    seen: float | None,
    learned: int | None,
    event: bool | None,
    drift: bool | None,
    rows: float | None,
    digest: str | None,
) -> FleetRow:
    left = digest == ""
    held = None if left else rows
    return FleetRow(name, enrolled, state, seen, learned, bool(event), bool(drift), held, left)


def _lower(text: str) -> str:
    """Return a text in lower case as data bases do it: the letters of ASCII alone."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)
