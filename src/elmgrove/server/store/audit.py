"""The audit log in the store: written in the transaction that does what it records."""

import json
import math
import time
from typing import Any

from elmgrove.federation.audit import AuditRecord
from elmgrove.server.store.database import Database, Transaction, insert

#: The log of what concerns the server and no federation.
SERVER_LOG = ""
#: Who did what nobody asked for, or nobody with a name.
SERVER = "server"

_SELECT = "SELECT federation, number, at, actor, act, detail, hash FROM audit WHERE federation = $1"
_ACT_IN_TIME = "federation = $1 AND act = $2 AND at >= $3 AND at < $4"


class Audit:
    """A log for each federation, which outlives it: so none of this needs one that exists."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, federation: str, actor: str, act: str, detail: dict[str, Any]) -> None:
        """Add a record of something that changed nothing else, such as a refusal."""
        async with self._database.write(federation) as tx:
            await record(tx, federation, actor, act, **detail)

    async def logs(self) -> list[str]:
        """List the federations of all logs. MUST be quick with many records."""
        found: list[str] = []
        async with self._database.read() as tx:
            rows = await tx.fetch("SELECT min(federation) FROM audit")
            while rows[0][0] is not None:
                found.append(rows[0][0])
                # From one name to the next in the index, rather than over all records.
                rows = await tx.fetch(
                    "SELECT min(federation) FROM audit WHERE federation > $1", found[-1]
                )
        return found

    async def records(
        self,
        federation: str,
        limit: int,
        *,
        after: int | None = None,
        before: int | None = None,
        since: float = 0.0,
        until: float = math.inf,
        device: str | None = None,
    ) -> list[AuditRecord]:
        """Read the newest records, or the first ``after`` a number; the oldest is first.

        Those ``before`` a number, from ``since`` up to ``until`` (without it), and of what a device
        did or was done to it. MUST be quick with many records of other times.
        """
        lowest = 0 if after is None else after + 1
        highest = 2**62 if before is None else before - 1
        about = ""
        arguments: list[Any] = []
        if device is not None:
            about = "AND (actor = $6 OR replace(detail, $7, '') <> detail)"
            # Inside a text of the JSON, these quotation marks would be escaped.
            arguments = [by_device(device), _as_json({"device": device})[1:-1]]
        async with self._database.read() as tx:
            if since > 0.0 or until < math.inf:
                first, last = await _numbers(tx, federation, since, until)
                lowest, highest = max(lowest, first), min(highest, last)
            rows = await tx.fetch(
                f"""{_SELECT} AND number >= $2 AND number <= $3 AND at >= $4 AND at < $5 {about}
                ORDER BY number {"DESC" if after is None else "ASC"} LIMIT {limit:d}""",
                federation,
                lowest,
                highest,
                since,
                until,
                *arguments,
            )
        records = [_record(*row) for row in rows]
        return records[::-1] if after is None else records

    async def of_act(
        self, federation: str, act: str, since: float, until: float, limit: int
    ) -> list[AuditRecord]:
        """Read the newest records of one act, newest first. MUST be quick with many others."""
        async with self._database.read() as tx:
            rows = await tx.fetch(
                f"""SELECT federation, number, at, actor, act, detail, hash FROM audit
                WHERE {_ACT_IN_TIME} ORDER BY at DESC, number DESC LIMIT {limit:d}""",
                federation,
                act,
                since,
                until,
            )
        return [_record(*row) for row in rows]

    async def count(self, federation: str, act: str, since: float, until: float) -> int:
        """Count the records of one act, which takes 0.1 s for a million of them."""
        counting = f"SELECT count(*) FROM audit WHERE {_ACT_IN_TIME}"
        async with self._database.read() as tx:
            return int((await tx.fetch(counting, federation, act, since, until))[0][0])

    async def prune(self, federation: str, until: float) -> None:
        """Delete the oldest records up to a time.

        What follows a record that stays, stays, and so does the last: the next one has its hash.
        """
        async with self._database.write(federation) as tx:
            await tx.execute(
                """DELETE FROM audit WHERE federation = $1 AND number < COALESCE(
                (SELECT min(number) FROM audit WHERE federation = $1 AND at >= $2),
                (SELECT max(number) FROM audit WHERE federation = $1))""",
                federation,
                until,
            )


async def record(tx: Transaction, federation: str, actor: str, act: str, **detail: Any) -> None:
    """Add a record: a part of the transaction that does what it records."""
    last = await _last(tx, federation)
    made = AuditRecord.after(last, federation, time.time(), actor, act, detail)
    await insert(tx, "audit", **vars(made) | {"detail": _as_json(detail)})


def by_device(name: str) -> str:
    return f"device {name}"


def by_administrator(name: str) -> str:
    return f"administrator {name}"


async def _last(tx: Transaction, federation: str) -> AuditRecord | None:
    rows = await tx.fetch(f"{_SELECT} ORDER BY number DESC LIMIT 1", federation)
    return _record(*rows[0]) if rows else None


async def _numbers(tx: Transaction, federation: str, since: float, until: float) -> tuple[int, int]:
    """Return the first and last number in a time; (1, 0) where there is none.

    There is an index of each act by time, and few acts: from one to the next.
    """
    first, last = 1, 0
    acts = await tx.fetch("SELECT min(act) FROM audit WHERE federation = $1", federation)
    while (act := acts[0][0]) is not None:
        where = f"SELECT number FROM audit WHERE {_ACT_IN_TIME} ORDER BY at"
        for order in ("", " DESC"):
            statement = f"{where}{order}, number{order} LIMIT 1"
            for (number,) in await tx.fetch(statement, federation, act, since, until):
                first, last = min(first if last else number, number), max(last, number)
        more = "SELECT min(act) FROM audit WHERE federation = $1 AND act > $2"
        acts = await tx.fetch(more, federation, act)
    return first, last


def _record(
    federation: str, number: int, at: float, actor: str, act: str, detail: str, hashed: str
) -> AuditRecord:
    return AuditRecord(federation, number, at, actor, act, json.loads(detail), hashed)


def _as_json(detail: dict[str, Any]) -> str:
    return json.dumps(detail, separators=(",", ":"))
