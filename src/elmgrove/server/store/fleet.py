"""All devices of a federation in the store, a page at a time, and how much is held of each."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from elmgrove.detector.false_alarms import CHANGING, LEARNING, WATCHING
from elmgrove.errors import BadInput
from elmgrove.server.store.audit import reads
from elmgrove.server.store.database import Operation, Statement
from elmgrove.server.store.federations import require_federation
from elmgrove.server.store.reports import Reports

#: What a device may be beside the states that it can tell of: with an event that is open, shut
#: out, late, or never heard of.
ANOMALOUS, REVOKED, SILENT, UNTOLD = "anomalous", "revoked", "silent", "untold"
#: All of them; what needs somebody comes first.
FLEET_STATES = (ANOMALOUS, CHANGING, SILENT, UNTOLD, LEARNING, WATCHING, REVOKED)


def state_at(now: str) -> str:
    """Gives what says in SQL which state a device ``d`` is in, of which ``t`` was told."""
    # Where what is normal has changed, anomalous rows are a question, once it is asked, and no
    # alarm.
    return f"""CASE WHEN d.revoked THEN '{REVOKED}' WHEN t.device IS NULL THEN '{UNTOLD}'
        WHEN t.due < {now} THEN '{SILENT}' WHEN t.drift AND t.state = '{CHANGING}'
        THEN '{CHANGING}' WHEN t.event AND t.state != '{LEARNING}' THEN '{ANOMALOUS}'
        ELSE t.state END"""


#: Devices, and what each told.
DEVICES_TOLD = """FROM device d
    LEFT JOIN told t ON t.federation = d.federation AND t.device = d.name"""
_STATE = state_at("$2")
_URGENCY = (
    f"CASE {_STATE} "
    + " ".join(f"WHEN '{state}' THEN {place}" for place, state in enumerate(FLEET_STATES))
    + " END"
)
_SEEN = "COALESCE(t.received, e.received)"
_ENTRY = """LEFT JOIN entry e ON e.federation = d.federation AND e.origin = d.name
    AND e.superseded IS NULL"""
_SELECT = f"""SELECT d.name, d.enrolled, {_STATE}, {_SEEN}, t.learned, t.event, t.drift, e.count,
    e.digest {DEVICES_TOLD} {_ENTRY} WHERE d.federation = $1"""
#: By what devices can be sorted.
SORTS = {
    "name": "d.name",
    "state": _URGENCY,
    "seen": _SEEN,
    "learned": "t.learned",
    "event": "t.event",
    "drift": "t.drift",
    "rows": "e.count",
}


def require_known(state: str | None, sort: str) -> None:
    """Raises ``BadInput`` for a state or an order that devices can't be asked for by."""
    if state is not None and state not in FLEET_STATES:
        raise BadInput(f"state: {state!r:.40} is not {', '.join(FLEET_STATES)}")
    if sort not in SORTS:
        raise BadInput(f"sort: {sort!r:.40} is not {', '.join(SORTS)}")


@dataclass(frozen=True)
class FleetRow:
    """A device at a glance; what nobody told is None.

    ``state`` is one of ``FLEET_STATES``, ``seen`` when it last told something of itself, or
    published, and ``rows`` are those behind what it published. ``left`` says that it took that
    back.
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
    """Some devices, of how many that were asked for, and how many there are in each state."""

    rows: list[FleetRow]
    total: int
    counts: dict[str, int]


class Fleets(Reports):
    """The store's operations on all devices of a federation at once.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @reads
    def fleet(
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
    ) -> Operation[FleetPage]:
        """Gives a page of devices whose name has ``search`` in it, in ``SORTS``' order.

        Letters of ASCII are alike in upper and lower case. What is not known is last. The counts
        are over all states, whichever is asked for. MUST be quick with 10,000 devices.
        """
        named = "AND replace(lower(d.name), $3, '') <> lower(d.name)" if search else ""
        asked = (federation, now, *([_folded(search)] if search else ()))
        counting = (
            f"SELECT {_STATE}, count(*) {DEVICES_TOLD} WHERE d.federation = $1 {named} GROUP BY 1"
        )
        found = {row[0]: int(row[1]) for row in (yield (counting, *asked))}
        if not found:
            yield from require_federation(federation)
        counts = {name: found.get(name, 0) for name in FLEET_STATES}
        total = sum(counts.values()) if state is None else counts.get(state, 0)
        rows = yield _page(asked, named, state, sort, descending, limit, offset)
        return FleetPage([_row(*row) for row in rows], total, counts)

    @reads
    def fleet_row(self, federation: str, name: str, *, now: float) -> Operation[FleetRow | None]:
        """Gives one device as a page of its fleet has it; None if no such device joined."""
        rows = yield (f"{_SELECT} AND d.name = $3", federation, now, name)
        if not rows:
            yield from require_federation(federation)
            return None
        return _row(*rows[0])

    @reads
    def latest(self, federation: str) -> Operation[str]:
        """Gives what is another text whenever something about a federation's devices changed.

        MUST be quick, and the same on all servers of a data base.
        """
        rows = yield (
            """SELECT f.created, (SELECT max(revision) FROM entry e WHERE e.federation = f.name),
            (SELECT number FROM changed c WHERE c.federation = f.name)
            FROM federation f WHERE f.name = $1""",
            federation,
        )
        if not rows:
            yield from require_federation(federation)
        created, revision, number = rows[0]
        return f"{created!r}-{revision or 0}-{number or 0}"


def _page(
    asked: tuple[object, ...],
    named: str,
    state: str | None,
    sort: str,
    descending: bool,
    limit: int,
    offset: int,
) -> Statement:
    chosen = "" if state is None else f"AND {_STATE} = ${len(asked) + 1}"
    direction = "DESC" if descending else "ASC"
    by = SORTS[sort]
    order = f"{by} IS NULL, {by} {direction}, d.name" if sort != "name" else f"d.name {direction}"
    return (
        f"""{_SELECT} {named} {chosen} ORDER BY {order} LIMIT {limit:d} OFFSET {offset:d}""",
        *asked,
        *(() if state is None else (state,)),
    )


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


def _folded(text: str) -> str:
    """In lower case as data bases do it: the letters of ASCII alone."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


# Sums as DOUBLE PRECISION: the type that PostgreSQL sums to otherwise is none of Python's numbers.
_DEVICES = """SELECT federation, sum(CASE WHEN revoked THEN 0 ELSE 1 END),
    sum(CASE WHEN revoked THEN 1 ELSE 0 END) FROM device GROUP BY federation"""
_HELD = """SELECT federation, count(*), CAST(sum(count) AS DOUBLE PRECISION),
    CAST(sum(size) AS DOUBLE PRECISION), max(received) FROM entry
    WHERE superseded IS NULL AND digest <> '' GROUP BY federation"""
_DEVICES_HELD = """SELECT federation, origin, count, received FROM entry
    WHERE superseded IS NULL AND digest <> '' ORDER BY federation, origin"""
_NUMBERED = """SELECT f.name,
    (SELECT max(revision) FROM entry e WHERE e.federation = f.name),
    (SELECT max(number) FROM audit a WHERE a.federation = f.name) FROM federation f"""
# As DOUBLE PRECISION, or PostgreSQL could not tell what the time is compared with.
_STATES = f"""SELECT d.federation, {state_at("CAST($1 AS DOUBLE PRECISION)")}, count(*),
    sum(CASE WHEN t.drift AND NOT d.revoked THEN 1 ELSE 0 END) {DEVICES_TOLD} GROUP BY 1, 2"""
_COMMANDS = "SELECT federation, count(*) FROM command WHERE done IS NULL GROUP BY federation"
_OWN_CHAIN = "SELECT max(number) FROM audit WHERE federation = ''"


@dataclass
class Tally:
    """How much is held of one federation; the server's own chain of the audit is that of ''.

    ``stored`` and ``recorded`` count all entries and records there ever were. ``states`` counts
    devices by ``FLEET_STATES``, ``drifts`` those of which something changed, ``commands`` those
    that wait.
    ``by_device`` has rows and time of what each device contributed, if that was asked for.
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
    by_device: dict[str, tuple[float, float]] = field(default_factory=dict)


def tallied(by_device: bool, now: float) -> Operation[dict[str, Tally]]:
    """Counts what is held of every federation; no statement reads a blob or all of the audit."""
    found: dict[str, Tally] = defaultdict(Tally)
    for name, stored, recorded in (yield (_NUMBERED,)):
        found[name].stored, found[name].recorded = stored or 0, recorded or 0
    found[""].recorded = _only((yield (_OWN_CHAIN,))) or 0
    for name, valid, revoked in (yield (_DEVICES,)):
        found[name].valid, found[name].revoked = valid, revoked
    for name, number, rows, size, received in (yield (_HELD,)):
        tally = found[name]
        tally.contributions, tally.rows, tally.size = number, rows, size
        tally.received = received
    for name, state, number, drifts in (yield (_STATES, now)):
        found[name].states[state] = number
        found[name].drifts += drifts
    for name, number in (yield (_COMMANDS,)):
        found[name].commands = number
    if by_device:
        for name, origin, rows, received in (yield (_DEVICES_HELD,)):
            found[name].by_device[origin] = (rows, received)
    return dict(found)


def _only(rows: Any) -> Any:
    return rows[0][0]
