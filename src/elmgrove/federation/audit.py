"""The audit: what was done on a server, by whom, as chains of records.

Each holds the hash of the one before, so nobody alters, takes out, moves or inserts a record
without computing all later hashes again. What was cut off at the end, the chain can't tell.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from elmgrove.errors import BadFile

# What stands for the hash before the first record of a chain.
_NOTHING_BEFORE = "0" * 64
_TYPES = {"federation": str, "number": int, "at": float, "actor": str, "act": str} | {
    "detail": dict,
    "hash": str,
}


@dataclass(frozen=True)
class AuditRecord:
    """One record: who (``actor``) did what (``act``), when, and the details, which are JSON.

    ``federation`` names the chain, '' for what concerns the server and no federation; ``number``
    counts from 1 in each. ``hash`` is over all the rest and the hash of the record before.
    """

    federation: str
    number: int
    at: float
    actor: str
    act: str
    detail: dict[str, Any]
    hash: str = ""

    @classmethod
    def after(
        cls,
        last: "AuditRecord | None",
        federation: str,
        at: float,
        actor: str,
        act: str,
        detail: dict[str, Any],
    ) -> "AuditRecord":
        """Makes the record that follows the last one of a chain, or its first."""
        number = 1 if last is None else last.number + 1
        made = cls(federation, number, float(at), actor, act, detail)
        return replace(made, hash=made.hashed_after(_NOTHING_BEFORE if last is None else last.hash))

    @property
    def fields(self) -> dict[str, Any]:
        """The record as JSON holds it."""
        return dict(vars(self))

    @classmethod
    def from_fields(cls, stated: Any) -> "AuditRecord":
        """Makes a record of what ``fields`` gave; ``BadFile`` for anything else."""
        found = {k: type(v) for k, v in stated.items()} if isinstance(stated, dict) else None
        if found != _TYPES:
            raise BadFile(f"this is no record of an audit: {stated!r:.80}")
        return cls(**stated)

    def hashed_after(self, before: str) -> str:
        """Computes the hash that this record has if ``before`` is that of the record before it."""
        content = {name: value for name, value in self.fields.items() if name != "hash"}
        # In one way of all that JSON has: ASCII, sorted, without spaces.
        text = json.dumps(content | {"before": before}, sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()


def require_unbroken(records: Iterable[AuditRecord]) -> AuditRecord | None:
    """Return the last record of a chain, or None if there is none; ``BadFile`` says what is broken.

    A chain may begin with any number: what is too old is deleted.
    """
    last: AuditRecord | None = None
    for record in records:
        if last is None:
            before = _NOTHING_BEFORE if record.number == 1 else None
        elif (record.federation, record.number) != (last.federation, last.number + 1):
            raise BadFile(f"after {_name(last)} follows {_name(record)}")
        else:
            before = last.hash
        if before is not None and record.hash != record.hashed_after(before):
            raise BadFile(f"{_name(record)}, or the one before it, is not as it was written")
        last = record
    return last


def _name(record: AuditRecord) -> str:
    return f"record {record.number} of {record.federation or 'the server'!r}"
