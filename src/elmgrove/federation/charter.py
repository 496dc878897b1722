"""A charter: what all devices of a federation have in common."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments
from elmgrove.algebra.rows import Array
from elmgrove.detector.detector import Detector
from elmgrove.detector.patterns import PatternRule
from elmgrove.detector.state import STATE_FORMAT, converted
from elmgrove.errors import BadInput, Mismatch, NotAdmissible, Refused
from elmgrove.federation.contribution import Contribution, Entry
from elmgrove.federation.member import Member
from elmgrove.federation.policy import Terms
from elmgrove.storage.sealed import format_of

#: Sums over a whole fleet stay finite below this, whatever takes part.
LARGEST = 1e200


@dataclass(frozen=True)
class Charter:
    """The layer, feature names and scaling (the basis), the ridge, and which devices may join.

    A charter in own units has no numbers for the scaling: each device finds its own.

    Every device that joins gets this first, so it needs to know where the federation is, and no
    settings. ``members`` are patterns of device names (``fan-*``); None lets any name in. With
    ``merged`` one model of everybody decides at each device. ``terms`` are what they can see of
    each other, and how much one can weigh.
    """

    name: str
    basis: Basis
    ridge: float = 1e-3
    members: tuple[str, ...] | None = None
    merged: bool = False
    terms: Terms = field(default_factory=Terms)

    def __post_init__(self) -> None:
        if not isinstance(self.merged, bool):
            raise BadInput(f"merged is true or false, not {self.merged!r:.60}")
        object.__setattr__(self, "basis", self.basis.common)
        require_name("a federation's", self.name)
        if self.basis.outputs != self.basis.inputs:
            raise BadInput("a federation of detectors has as many outputs as inputs")
        # A whole number may be larger than any float.
        if not isinstance(self.ridge, (int, float)) or not 0 <= self.ridge <= sys.float_info.max:
            raise BadInput(f"the ridge must be a finite number from 0 on, not {self.ridge!r}")
        if self.members is not None:
            object.__setattr__(self, "members", _patterns(self.members))

    @property
    def fields(self) -> dict[str, Any]:
        """The charter as JSON holds it."""
        return {
            "name": self.name,
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "ridge": self.ridge,
            "members": None if self.members is None else list(self.members),
            "merged": self.merged,
            "terms": self.terms.fields,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Charter":
        """Makes a charter of what ``fields`` gave; ``BadInput`` for anything else."""
        try:
            made = cls(
                fields["name"],
                Basis.from_fields(fields["basis"]),
                fields.get("ridge", 1e-3),
                fields.get("members"),
                fields.get("merged", False),
                Terms.from_fields(fields.get("terms", {})),
            )
        except BadInput:
            raise
        except KeyError as error:
            # A newer field: charters of before 0.2 had no window and no score.
            raise BadInput(
                f"not a federation's definition: {error} is missing, as in those of an Elmgrove "
                "before 0.2"
            ) from error
        except Exception as error:  # a stranger's fields can fail in any way there is
            raise BadInput(f"not a federation's definition: {error!r:.200}") from error
        stated = fields.get("fingerprint", made.basis.fingerprint)
        if stated != made.basis.fingerprint:
            raise BadInput(f"fingerprint: {stated!r:.80} does not fit the basis")
        return made

    def admits(self, device: str) -> bool:
        """Says whether a device of this name may join."""
        return is_admitted(self.members, device)

    def require(self, entry: Entry) -> None:
        """Raises, with the reason, unless the entry can be one of this federation's.

        ``Refused`` for a name, ``Mismatch`` for another basis, ``NotAdmissible`` for evidence that
        no rows can have produced or that is too large to be added up.
        """
        if not self.admits(entry.origin):
            raise Refused(f"{entry.origin!r} is not among the devices that may join {self.name!r}")
        if isinstance(entry, Contribution):
            for part in entry.parts:
                require_addable(self.basis, part, f"the evidence of {entry.origin!r}")

    def start(
        self,
        device: str,
        *,
        patterns: PatternRule | None = None,
        merged: bool = False,
        units_from: Array | None = None,
        **settings: Any,
    ) -> Member:
        """Makes a member that has learned nothing yet; ``settings`` are the detector's other ones.

        With a rule for ``patterns`` it has a model for each of several. With
        ``merged`` one model of everybody decides, as where the federation says so. A federation in
        own units needs ``units_from``: normal rows of this device, from which its level and
        deviation of each column are taken.
        """
        basis = self.basis if units_from is None else self.basis.in_units_of(units_from)
        detector = Detector.for_basis(basis, patterns=patterns, ridge=self.ridge, **settings)
        return Member(device, detector, merges=merged or self.merged)


def joined(member: Member, charter: Charter) -> Member:
    """Gives a member that was alone in the units and the layer of a federation that it joins.

    What it learned is converted (``elmgrove.detector.converted``); ``Mismatch`` if it can't be. One
    that takes part in a federation stays as it is, and so does one that was made for this one.
    """
    if not member.alone or member.detector.basis.fingerprint == charter.basis.fingerprint:
        return member
    try:
        detector = converted(member.detector, charter.basis)
    except Mismatch as error:
        raise Mismatch(
            f"what {member.name!r} learned can't be converted to what {charter.name!r} has in "
            f"common: {error}"
        ) from error
    made = Member(member.name, detector, merges=member.merges)
    made.notes, made.lead, made.former = member.notes, member.lead, member.former
    return made


def is_admitted(members: Iterable[str] | None, device: str) -> bool:
    """Says whether a name is like one of these patterns, as ``fan-*``; None lets any name in."""
    return members is None or any(fnmatchcase(device, pattern) for pattern in members)


def require_addable(basis: Basis, evidence: Evidence, what: str) -> None:
    """Raises ``Mismatch`` or ``NotAdmissible`` unless it can go into a sum with this basis."""
    basis.require(evidence.basis)
    evidence.require_admissible(what)
    # Moments are moved to a centre that all have in common.
    centre = np.abs(evidence.centre).max() if isinstance(evidence, Moments) else 0.0
    moved = float(centre) * float(centre) * max(evidence.count, 1.0)
    if not max(evidence.largest, evidence.count, moved) < LARGEST:
        raise NotAdmissible(f"{what}: values of {LARGEST:g} and more can't be added up")


def _patterns(members: Any) -> tuple[str, ...]:
    # One string would be a pattern for each of its letters, and "*" lets everybody in.
    is_list = isinstance(members, (list, tuple))
    if not is_list or not all(isinstance(pattern, str) for pattern in members):
        raise BadInput(f"members are a list of patterns of names, not {members!r}")
    return tuple(members)


def address_of(device: str) -> str:
    """Writes a device's name as part of a URL or a file's name; ``BadInput`` if it can't be one."""
    require_address(device)
    return quote(device, safe="")


def require_name(whose: str, name: object) -> str:
    """Gives the name of a federation or an administrator; ``BadInput`` for what can't be one."""
    if not (isinstance(name, str) and re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name)):
        raise BadInput(
            f"{whose} name has 1 to 64 letters, digits, '.', '_' or '-', a letter or digit first: "
            f"{name!r:.80}"
        )
    return name


def require_address(device: str) -> None:
    """Raises ``BadInput`` unless a device's name can be part of a URL and of a file's name."""
    length = len(quote(device, safe="")) if device.isprintable() else 0
    if not 0 < length <= 200 or device.startswith("."):
        raise BadInput(
            "a device's name is printable, does not begin with a dot, and has at most 200 "
            f"characters when written in a URL: {device!r:.80}"
        )


def basis_of(blob: bytes) -> Basis:
    """Reads the basis of a device's state or of evidence, which another needs in order to merge.

    ``BadFile`` for anything else, such as a compact model, with which nothing can be merged.
    """
    return learned_of(blob).basis


def learned_of(blob: bytes) -> Evidence:
    """Reads what a device learned itself from its state, or from evidence that it gave away."""
    if format_of(blob) == STATE_FORMAT:
        return Member.from_bytes(blob).detector.evidence
    return Contribution.from_bytes(blob).evidence
