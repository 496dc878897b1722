"""Tallies: how much a store holds of each federation, in a few quick questions."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from elmgrove.server.store.database import Operation
from elmgrove.server.store.glance import DEVICES_TOLD, state_at

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
