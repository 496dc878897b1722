"""Merged: one sum over the other devices, or one for each group of them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import (
    Moments,
    Packed,
    pack_evidence,
    pack_parts,
    unpack_evidence,
    unpack_parts,
    zero_evidence,
)
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput
from elmgrove.federation.contribution import require_epoch, require_origin, require_threshold
from elmgrove.storage.sealed import require_written_as, seal, unpacking, unseal

MERGED_FORMAT = "elmgrove.merged"
#: Names of devices that a sum is of, and that were left out, which an answer tells at the most.
MOST_NAMES = 20


@dataclass(frozen=True)
class GroupLabel:
    """Who is behind the sum of a group: some of their names, how many there are, their threshold.

    ``threshold`` is where anomalous begins for them, in the middle.
    """

    names: tuple[str, ...]
    devices: int
    threshold: float

    def __post_init__(self) -> None:
        require_epoch(self.devices)
        require_threshold(self.threshold)
        named = 1 <= len(self.names) <= self.devices and all(map(_is_line, self.names))
        if self.threshold is None or not named:
            raise BadInput(f"{self.names!r:.80} can't be names of {self.devices} devices")

    def __str__(self) -> str:
        more = self.devices - len(self.names)
        return ", ".join(self.names) + (f" and {more} more" if more else "")


class Own(NamedTuple):
    """What is held of the device that asks: the epoch of its contribution, or of its departure."""

    epoch: int
    left: bool


@dataclass(frozen=True)
class Merged:
    """What other devices of a federation know together, without the one that it is meant for.

    One sum costs the same however many devices there are, and tells nothing of each. ``revision``
    numbers the states of the federation; ``devices`` says how many are in the sum. ``parts`` is
    the sum alone or, where patterns were told ``apart``, the sum of each group of them.
    ``rule`` says whom it is of, as the setting ``merge`` does; ``used`` names some of them, and
    ``left_out`` those that the rule left out, each with the reason.

    Groups with ``labels`` are not to be merged, but to be asked about anomalous rows, and ``loans``
    are what devices lend, some of them together in each.
    """

    federation: str
    revision: int
    devices: int
    parts: tuple[Evidence, ...]
    rule: str = "everyone"
    apart: bool = False
    labels: tuple[GroupLabel, ...] = ()
    loans: tuple[Moments, ...] = ()
    used: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    own: Own | None = None

    def __post_init__(self) -> None:
        require_origin(self.federation)
        require_epoch(self.revision)
        require_epoch(self.devices)
        if not self.parts or (len(self.parts) > 1 and not self.apart):
            raise BadInput("a merged sum is one part, or several that were told apart")
        if not _is_line(self.rule, 10_000):
            raise BadInput(f"rule: {self.rule!r:.80} names no rule")
        names = (*self.used, *(word for pair in self.left_out for word in pair))
        if max(len(self.used), len(self.left_out)) > MOST_NAMES or not all(map(_is_line, names)):
            raise BadInput(f"used and left_out name at most {MOST_NAMES} devices")
        if self.labels and not (self.apart and len(self.labels) == len(self.parts)):
            raise BadInput("each group has one label, or none has")
        if self.own is not None:
            require_epoch(self.own.epoch)

    def __str__(self) -> str:
        """Says whom it uses and whom it leaves out, in a line."""
        told = self.used[: MOST_NAMES if len(self.used) <= 5 else 3]
        more = self.devices - len(told)
        names = ", ".join(told) + (f" and {more:,} more" if told and more > 0 else "")
        many = f"{self.devices:,} other device{'s' * (self.devices != 1)}"
        left_out = ", ".join(f"{name}, {why}" for name, why in self.left_out)
        return (names or many) + (f"; left out: {left_out}" if left_out else "")

    @cached_property
    def evidence(self) -> Evidence:
        """The sum of all parts."""
        return self.parts[0] if len(self.parts) == 1 else Evidence.sum(self.parts)

    @property
    def nobody(self) -> "Merged":
        """A sum over no device, at the same state of the federation."""
        nothing = (zero_evidence(self.parts[0].basis),)
        return Merged(self.federation, self.revision, 0, nothing, self.rule)

    def answers_as(self, known: "Merged") -> bool:
        """Whether this is the same answer to the same question."""
        mine, other = ((one.federation, one.rule, one.revision) for one in (self, known))
        return mine == other

    def usable(self) -> "Merged":
        """Gives the same without groups and loans that no rows can have made.

        Sums that are to be merged are whole or not at all: those are refused where they are used.
        """
        kept = [place for place, part in enumerate(self.parts) if part.admission]
        loans = tuple(loan for loan in self.loans if loan.admission)
        if not self.labels or len(kept) == len(self.parts):
            return replace(self, loans=loans)
        parts = tuple(self.parts[place] for place in kept)
        return replace(
            self,
            parts=parts or (zero_evidence(self.parts[0].basis),),
            apart=bool(parts),
            labels=tuple(self.labels[place] for place in kept),
            loans=loans,
        )

    @property
    def received(self) -> tuple[Evidence, ...]:
        """What a model rests on: the parts, or nothing where no other device is in them."""
        return self.parts if self.apart or self.devices else ()

    def to_bytes(self) -> bytes:
        """Seals it in the format in which a server sends it."""
        return seal(MERGED_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "federation": self.federation,
            "revision": self.revision,
            "devices": self.devices,
            "basis": self.parts[0].basis.common.fields,
            **({} if self.own is None else {"own": list(self.own)}),
        }
        more, lent = pack_answers(self)
        if not self.apart:
            numbers, arrays = pack_evidence(self.parts[0])
            return fields | more | numbers, arrays | lent
        groups, arrays = pack_parts("group", self.parts)
        return fields | more | {"groups": groups}, arrays | lent

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Merged":
        """Reads what ``to_bytes`` wrote; ``BadFile`` for anything else."""
        fields, arrays = unseal(MERGED_FORMAT, blob)
        with unpacking("a merged sum"):
            basis = Basis.from_fields(fields["basis"])
            apart = "groups" in fields
            made = cls(
                fields["federation"],
                fields["revision"],
                fields["devices"],
                unpack_parts(basis, "group", fields["groups"], arrays)
                if apart
                else (unpack_evidence(basis, fields, arrays),),
                apart=apart,
                own=None if (own := fields.get("own")) is None else _own(*own),
                **unpack_answers(basis, fields, arrays),
            )
            require_written_as(made._packed(), fields, arrays)
        return made


def _own(epoch: Any, left: Any) -> Own:
    if not isinstance(left, bool):
        raise BadInput("own is an epoch, and whether the device left")
    return Own(epoch, left)


def _is_line(text: Any, most: int = 220) -> bool:
    """Says whether this can name a device, or a pattern of it."""
    return isinstance(text, str) and 0 < len(text) <= most and text.isprintable()


def pack_answers(merged: Merged) -> Packed:
    """Packs whom a sum is of, and labels and loans if there are any."""
    loans, arrays = pack_parts("loan", merged.loans)
    labels = [asdict(label) | {"names": list(label.names)} for label in merged.labels]
    left_out = [list(pair) for pair in merged.left_out]
    found = {
        "rule": "" if merged.rule == "everyone" else merged.rule,
        "labels": labels,
        "loans": loans,
        "used": list(merged.used),
        "left_out": left_out,
    }
    return {name: value for name, value in found.items() if value}, arrays


def unpack_answers(
    basis: Basis, fields: Mapping[str, Any], arrays: Mapping[str, Array]
) -> dict[str, Any]:
    """Makes of what ``pack_answers`` gave what ``Merged`` takes."""
    labels = (
        GroupLabel(tuple(known["names"]), known["devices"], known["threshold"])
        for known in fields.get("labels", ())
    )
    loans = unpack_parts(basis, "loan", fields.get("loans", ()), arrays)
    lent = tuple(loan for loan in loans if isinstance(loan, Moments))
    if len(lent) != len(loans):
        raise BadInput("a loss lends nothing")
    return {
        "rule": fields.get("rule", "everyone"),
        "labels": tuple(labels),
        "loans": lent,
        "used": tuple(fields.get("used", ())),
        "left_out": tuple((name, why) for name, why in fields.get("left_out", ())),
    }
