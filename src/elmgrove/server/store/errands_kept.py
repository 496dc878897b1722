"""Errands in the store: what waits for a device, and what the device said after it."""

import json
from typing import Any

from elmgrove.federation import Errand, Outcome
from elmgrove.server.store.chain import by_device, reads, record, writes
from elmgrove.server.store.database import Operation
from elmgrove.server.store.enrolment import DEVICE, changed, require_federation
from elmgrove.server.store.entries import Entries
from elmgrove.server.store.records import ErrandRow

#: Errands that wait for one device.
MOST_OPEN = 200

_ERRAND = """SELECT id, action, words, asked_by, asked_at, device, done, refused, said FROM errand
    WHERE federation = $1"""


class ErrandsKept(Entries):
    """The store's operations on errands.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @writes
    def ask_errand(
        self, federation: str, device: str, errand: Errand, *, actor: str
    ) -> Operation[str | None]:
        """Lets an errand wait for its device; None if it does, or why it can't."""
        yield from require_federation(federation)
        rows = yield (f"{DEVICE} AND name = $2", federation, device)
        if not rows:
            return f"{device!r} has not joined"
        if rows[0][2]:
            return f"the key of {device!r} was revoked: it comes for nothing any more"
        if len((yield from open_errands(federation, device))) >= MOST_OPEN:
            return f"{MOST_OPEN} errands wait for {device!r} already, which has not come for them"
        yield (
            """INSERT INTO errand (id, federation, device, action, words, asked_by, asked_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)""",
            errand.id,
            federation,
            device,
            errand.action,
            json.dumps(errand.words),
            errand.asked_by,
            errand.asked_at,
        )
        stated = {"device": device, "errand": errand.id, "action": errand.action}
        yield from record(federation, actor, "errand asked", **stated, words=errand.words)
        yield from changed(federation)
        return None

    @reads
    def errands(self, federation: str, device: str, limit: int) -> Operation[list[ErrandRow]]:
        """Lists the newest errands of a device with what came of them, the newest first."""
        where = f"{_ERRAND} AND device = $2 ORDER BY asked_at DESC, id LIMIT {limit:d}"
        return [_errand(*row) for row in (yield (where, federation, device))]


def open_errands(federation: str, device: str) -> Operation[list[Errand]]:
    """Lists the errands that wait for a device, the oldest first."""
    where = f"{_ERRAND} AND device = $2 AND done IS NULL ORDER BY asked_at, id"
    return [_errand(*row).errand for row in (yield (where, federation, device))]


def end_errand(federation: str, device: str, errand: Errand, outcome: Outcome) -> Operation[None]:
    """Keeps what a device said after an errand, which waits no longer."""
    yield (
        "UPDATE errand SET done = $2, refused = $3, said = $4 WHERE id = $1",
        errand.id,
        outcome.time,
        outcome.refused,
        json.dumps(outcome.said),
    )
    stated = {"device": device, "errand": errand.id, "refused": outcome.refused}
    yield from record(federation, by_device(device), "errand done", **stated)


def _errand(*columns: Any) -> ErrandRow:
    name, action, words, asked_by, asked_at, device, done, refused, said = columns
    return ErrandRow(
        Errand(name, action, json.loads(words), asked_by, asked_at),
        device,
        done,
        None if refused is None else bool(refused),
        () if said is None else tuple(json.loads(said)),
    )
