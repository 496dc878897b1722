"""The audit: what was done on a server, by whom, as chains of records of which each seals the last.

Nobody can alter, take out, move or insert a record without computing all later hashes again, and
those differ from what was exported before. What was cut off at the end, the chain can't tell.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any

from elmgrove.errors import BadFile, ElmgroveError

#: The act of a record that says which records before it were deleted for their age.
PRUNED = "pruned"
# What stands for the hash before the first record of a chain.
_NOTHING_BEFORE = "0" * 64


class BrokenChain(ElmgroveError, ValueError):
    """Records of an audit that are not as they were written, or not all that were."""


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
        types = {"number": int, "at": float, "detail": dict}
        names = [field.name for field in fields(cls)]
        if not isinstance(stated, dict) or sorted(stated) != sorted(names):
            raise BadFile(f"a record has {', '.join(names)}, and nothing else: {stated!r:.80}")
        for name in names:
            if type(stated[name]) is not types.get(name, str):
                raise BadFile(f"{name} of a record can't be {stated[name]!r:.80}")
        return cls(**stated)

    def hashed_after(self, before: str) -> str:
        """Computes the hash that this record has if ``before`` is that of the record before it."""
        content = {name: value for name, value in self.fields.items() if name != "hash"}
        # In one way of all that JSON has: ASCII, sorted, without spaces.
        text = json.dumps(content | {"before": before}, sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()


def require_unbroken(records: Iterable[AuditRecord]) -> AuditRecord | None:
    """Gives the last record of a whole chain; ``BrokenChain`` says where it is broken.

    A chain begins with number 1, or where a record in it says that those before were pruned. None
    if there is no record at all.
    """
    first: AuditRecord | None = None
    last: AuditRecord | None = None
    anchored = False
    for record in records:
        if first is None or last is None:
            first, anchored = record, _begins(record)
        else:
            _require_next(record, last)
        last = record
        # The record that says what is gone before the first is one of the later ones, or itself.
        anchored = anchored or _is_anchor(record, first)
    if first is not None and not anchored:
        raise BrokenChain(_unanchored(first))
    return last


def _begins(record: AuditRecord) -> bool:
    """Whether nothing was ever before this record; raises if it is not what was written then."""
    if record.number != 1:
        return False
    if record.hash != record.hashed_after(_NOTHING_BEFORE):
        raise BrokenChain(f"record 1 of {_name(record)} is not as it was written")
    return True


def _require_next(record: AuditRecord, last: AuditRecord) -> None:
    if record.federation != last.federation:
        raise BrokenChain(
            f"after record {last.number} of {_name(last)} follows one of {_name(record)}: check "
            "each chain by itself"
        )
    if record.number != last.number + 1:
        raise BrokenChain(
            f"after record {last.number} of {_name(last)} follows record {record.number}"
        )
    if record.hash != record.hashed_after(last.hash):
        raise BrokenChain(
            f"record {record.number} of {_name(record)} is not as it was written, or the one "
            "before it is not"
        )


def _is_anchor(record: AuditRecord, first: AuditRecord) -> bool:
    """Whether a record says that all before the first were pruned, and the first follows those."""
    stated = record.detail if record.act == PRUNED else {}
    if stated.get("up_to") != first.number - 1:
        return False
    if first.hash != first.hashed_after(str(stated.get("hash"))):
        raise BrokenChain(
            f"record {first.number} of {_name(first)} does not follow what was pruned before it"
        )
    return True


def _unanchored(first: AuditRecord) -> str:
    return (
        f"the records of {_name(first)} before {first.number} are missing, and none says that "
        "they were pruned; of an export all is needed, without --since and --device"
    )


def _name(record: AuditRecord) -> str:
    return repr(record.federation) if record.federation else "the server's own chain"
