"""The audit log in the store: written in the transaction that does what it records."""

import json
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from elmgrove.errors import NotFound
from elmgrove.federation.audit import PRUNED, AuditRecord
from elmgrove.server.store.database import Database, Operation, Statement
from elmgrove.server.store.records import FederationRow

#: A federation as it was found, or the one that has a name now.
Which = str | FederationRow
#: Raises where somebody may not write, or no longer.
Rule = Callable[[], Operation[object]]
P = ParamSpec("P")
S = TypeVar("S", bound="Chains")
T = TypeVar("T")

#: The chain of what concerns the server and no federation.
OWN_CHAIN = ""
#: Who did what nobody asked for, or nobody with a name.
SERVER = "server"

_RECORD = "SELECT federation, number, at, actor, act, detail, hash FROM audit WHERE federation = $1"
_ACT = "act = $2 AND at >= $3 AND at < $4"


@dataclass(frozen=True)
class Raised:
    """What a caller's rule raised: kept apart, so that no error of a data base is taken for it."""

    error: Exception


def reads(
    operation: Callable[Concatenate[S, P], Operation[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Makes a method of an operation that the data base runs on one unchanging state."""

    @wraps(operation)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.read(operation(self, *args, **kwargs))

    return run


def writes(
    operation: Callable[Concatenate[S, str, P], Operation[T]],
) -> Callable[Concatenate[S, Which, P], Coroutine[Any, Any, T]]:
    """Makes a method of an operation that runs alone among the writes to a federation.

    The method takes a name, or the federation itself: then not a later one of the same name.
    """

    @wraps(operation)
    async def run(self: S, federation: Which, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.write(federation, operation(self, name_of(federation), *args, **kwargs))

    return run


def name_of(federation: Which) -> str:
    """Gives the name of a federation."""
    return federation if isinstance(federation, str) else federation.name


def record(federation: str, actor: str, act: str, **detail: Any) -> Operation[None]:
    """Adds a record to a federation's chain: a part of the write that does what it tells."""
    last = yield from _last(federation)
    made = AuditRecord.after(last, federation, time.time(), actor, act, detail)
    yield (
        """INSERT INTO audit (federation, number, at, actor, act, detail, hash)
        VALUES ($1, $2, $3, $4, $5, $6, $7)""",
        made.federation,
        made.number,
        made.at,
        made.actor,
        made.act,
        _written(made.detail),
        made.hash,
    )


class Chains:
    """The store's operations on the audit: a chain for each federation, which outlives it.

    See ``Store`` for what holds for all methods; these need no federation that exists.
    """

    def __init__(self, database: Database, rule: Rule | None = None) -> None:
        self.database = database
        self._rule = rule

    def by(self, rule: Rule) -> Self:
        """Gives the same store to one whose right to write may end.

        The rule MUST be asked in the transaction of each write, and what it raises MUST reach the
        caller unchanged, with nothing written. It must be quick.
        """
        return type(self)(self.database, rule)

    async def write(self, federation: Which, operation: Operation[T]) -> T:
        """Runs an operation alone among the writes to a federation.

        MUST raise ``NotFound`` with nothing written where one was given that is no more.
        """
        ruled = operation if self._rule is None else _ruled(self._rule, operation)
        if not isinstance(federation, str):
            ruled = _in(federation, ruled)
        return raised(await self.database.write(name_of(federation), ruled))

    @writes
    def note(
        self, federation: str, actor: str, act: str, detail: dict[str, Any]
    ) -> Operation[None]:
        """Adds a record of what changed nothing else, such as a refusal."""
        yield from record(federation, actor, act, **detail)

    @reads
    def chains(self) -> Operation[list[str]]:
        """Lists the names of all chains. MUST be quick with many records."""
        found: list[str] = []
        rows = yield ("SELECT min(federation) FROM audit",)
        while rows[0][0] is not None:
            found.append(rows[0][0])
            # From one name to the next in the index, rather than over all records.
            rows = yield ("SELECT min(federation) FROM audit WHERE federation > $1", found[-1])
        return found

    @reads
    def audit(
        self,
        federation: str,
        limit: int,
        *,
        after: int | None = None,
        before: int | None = None,
        since: float | None = None,
        until: float | None = None,
        device: str | None = None,
    ) -> Operation[list[AuditRecord]]:
        """Reads the newest records of a chain, or the first after a number; the oldest is first.

        Those ``before`` a number, ``since`` a time and ``until`` (before) another, and of what a
        device did or was done to it. MUST be quick with many records of other times.
        """
        where, arguments = _RECORD, list[Any]((federation,))

        def condition(text: str, *values: Any) -> None:
            nonlocal where
            places = (f"${len(arguments) + n}" for n in range(1, len(values) + 1))
            where += f" AND {text.format(*places)}"
            arguments.extend(values)

        if after is not None:
            condition("number > {}", after)
        if before is not None:
            condition("number < {}", before)
        if since is not None or until is not None:
            begin, end = since or 0.0, math.inf if until is None else until
            found = yield from _numbers(federation, begin, end)
            condition("number >= {} AND number <= {} AND at >= {} AND at < {}", *found, begin, end)
        if device is not None:
            # Inside a text of the JSON, these quotation marks would be escaped.
            named = _written({"device": device})[1:-1]
            condition("(actor = {} OR replace(detail, {}, '') <> detail)", by_device(device), named)
        order = "DESC" if after is None else "ASC"
        statement: Statement = (f"{where} ORDER BY number {order} LIMIT {limit:d}", *arguments)
        records = [_record(*row) for row in (yield statement)]
        return records[::-1] if after is None else records

    @reads
    def acts(
        self, federation: str, act: str, begin: float, end: float, limit: int
    ) -> Operation[list[AuditRecord]]:
        """Reads the newest records of one act in a time, newest first.

        MUST be quick with many others.
        """
        where = f"{_RECORD} AND {_ACT} ORDER BY at DESC, number DESC LIMIT {limit:d}"
        return [_record(*row) for row in (yield (where, federation, act, begin, end))]

    @reads
    def act_count(self, federation: str, act: str, begin: float, end: float) -> Operation[int]:
        """Counts the records of one act in a time, which takes 0.1 s for a million of them."""
        counting = f"SELECT count(*) FROM audit WHERE federation = $1 AND {_ACT}"
        return int((yield (counting, federation, act, begin, end))[0][0])

    async def advance(self, now: float, most: float) -> float:
        """Moves the time by which ages are counted towards a server's clock; gives that time.

        MUST be no later than the clock, and at most so many seconds later than it was: all servers
        share it, so one whose clock is ahead can't move it far, and one that is right moves it
        back. It begins with the oldest record.
        """
        return await self.write(OWN_CHAIN, _advanced(now, most))

    @writes
    def prune(self, federation: str, until: float, *, actor: str = SERVER) -> Operation[int]:
        """Deletes the oldest records up to a time; says how many.

        A record keeps the hash of the last that went, so that the rest can be checked. What follows
        a record that stays, stays.
        """
        kept = yield from _first(federation, " AND at >= $2", until)
        before = () if kept is None else (" AND number < $2", kept.number)
        gone = yield from _last(federation, *before)
        if gone is None:
            return 0
        older = "FROM audit WHERE federation = $1 AND number <= $2"
        ((count,),) = yield (f"SELECT count(*) {older}", federation, gone.number)
        stated = {"up_to": gone.number, "hash": gone.hash, "records": count}
        yield from record(federation, actor, PRUNED, **stated)
        yield (f"DELETE {older}", federation, gone.number)
        return int(count)


def _advanced(now: float, most: float) -> Operation[float]:
    rows = yield ("SELECT seconds FROM clock",)
    if rows:
        reached = min(now, float(rows[0][0]) + most)
        yield ("UPDATE clock SET seconds = $1", reached)
    else:
        oldest = (yield ("SELECT min(at) FROM audit",))[0][0]
        reached = now if oldest is None else min(now, float(oldest))
        yield ("INSERT INTO clock VALUES ($1)", reached)
    return reached


def _ruled(rule: Rule, operation: Operation[T]) -> Operation[T | Raised]:
    """The operation, if the rule does not raise."""
    try:
        yield from rule()
    except Exception as error:  # the caller's own rule, so the caller's own errors
        operation.close()
        return Raised(error)
    return (yield from operation)


def raised(outcome: T | Raised) -> T:
    """Gives what a write gave, or raises what it kept apart."""
    if isinstance(outcome, Raised):
        raise outcome.error
    return outcome


def _in(federation: FederationRow, operation: Operation[T]) -> Operation[T]:
    """The operation, if that federation is still there: it may be another one of that name."""
    where = "SELECT 1 FROM federation WHERE name = $1 AND created = $2"
    if not (yield (where, federation.name, federation.created)):
        operation.close()
        raise NotFound(f"there is no federation {federation.name!r} any more")
    return (yield from operation)


def by_device(name: str) -> str:
    """Names a device as the audit does."""
    return f"device {name}"


def by_administrator(name: str) -> str:
    """Names an administrator as the audit does."""
    return f"administrator {name}"


def _first(federation: str, condition: str = "", *values: Any) -> Operation[AuditRecord | None]:
    rows = yield (f"{_RECORD}{condition} ORDER BY number LIMIT 1", federation, *values)
    return _record(*rows[0]) if rows else None


def _numbers(federation: str, begin: float, end: float) -> Operation[tuple[int, int]]:
    """The numbers of the first and last record of a time; of none, those of no record.

    There is an index of each act by time, and few acts: from one to the next.
    """
    first, last = 1, 0
    acts = yield ("SELECT min(act) FROM audit WHERE federation = $1", federation)
    while (act := acts[0][0]) is not None:
        where = f"SELECT number FROM audit WHERE federation = $1 AND {_ACT} ORDER BY at"
        for order in ("", " DESC"):
            rows = yield (f"{where}{order}, number{order} LIMIT 1", federation, act, begin, end)
            for (number,) in rows:
                first, last = min(first if last else number, number), max(last, number)
        more = "SELECT min(act) FROM audit WHERE federation = $1 AND act > $2"
        acts = yield (more, federation, act)
    return first, last


def _last(federation: str, condition: str = "", *values: Any) -> Operation[AuditRecord | None]:
    rows = yield (f"{_RECORD}{condition} ORDER BY number DESC LIMIT 1", federation, *values)
    return _record(*rows[0]) if rows else None


def _record(
    federation: str, number: int, at: float, actor: str, act: str, detail: str, hashed: str
) -> AuditRecord:
    return AuditRecord(federation, number, at, actor, act, json.loads(detail), hashed)


def _written(detail: dict[str, Any]) -> str:
    return json.dumps(detail, separators=(",", ":"))
