"""A member: a detector with a name, and what it heard from others, kept apart by origin."""

from typing import Any

from elmgrove.basis import Basis
from elmgrove.codec import require_written_as, seal, unpacking, unseal
from elmgrove.cooperation.contribution import Contribution
from elmgrove.cooperation.ledger import Ledger
from elmgrove.detector import Detector
from elmgrove.errors import BadInput
from elmgrove.packing import Array, pack_detector, pack_evidence, unpack_detector, unpack_evidence

KIND = "elmgrove.state"


class Member:
    """One device of a federation.

    Its model is always its own evidence plus the newest of each origin it heard from. It gives
    away its own evidence only, so whatever goes round in circles is never counted twice.
    """

    def __init__(self, name: str, detector: Detector, ledger: Ledger | None = None) -> None:
        self.name = name
        self.detector = detector
        self.ledger = Ledger() if ledger is None else ledger
        self.contribution()  # refuses a name that can't serve as an origin
        if name in self.ledger:
            raise BadInput(f"{name!r} can't have heard from itself")
        total = self.ledger.total()
        if detector.received is None and total is not None:
            detector.received = total
        elif detector.received != total:
            raise BadInput("the detector took in evidence that the ledger does not know")

    def contribution(self) -> Contribution:
        """What this device gives to others."""
        return Contribution(self.name, self.detector.learned, self.detector.evidence)

    def hear(self, contribution: Contribution) -> bool:
        """Takes a contribution in, if it is newer than the last of that origin; says whether.

        A mismatch, evidence that is not admissible and one's own name are errors that change
        nothing.
        """
        if contribution.origin == self.name:
            raise BadInput(f"{self.name!r} can't merge its own evidence: it has learned it already")
        self.detector.basis.require(contribution.evidence.basis)
        contribution.evidence.require_admissible(f"the evidence of {contribution.origin!r}")
        ledger = Ledger(self.ledger)
        return ledger.join(contribution) and self._rest_on(ledger)

    def forget(self, origin: str) -> bool:
        """Takes all that came from an origin out again; says whether there was anything."""
        ledger = Ledger(self.ledger)
        return ledger.leave(origin) and self._rest_on(ledger)

    def _rest_on(self, ledger: Ledger) -> bool:
        # The model first: if it refuses, the ledger stays as it was.
        self.detector.received = ledger.total()
        self.ledger = ledger
        return True

    def to_bytes(self) -> bytes:
        """The file format of a device's full state."""
        fields, arrays = pack_detector(self.detector)
        heard: list[dict[str, Any]] = []
        for index, held in enumerate(self.ledger):
            numbers, parts = pack_evidence(held.evidence)
            heard.append({"origin": held.origin, "epoch": held.epoch, **numbers})
            arrays |= {f"heard.{index}.{name}": array for name, array in parts.items()}
        return seal(KIND, {"name": self.name, "detector": fields, "heard": heard}, arrays)

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Member":
        """The inverse of ``to_bytes``; ``BadFile`` for anything else, never half a model."""
        fields, arrays = unseal(KIND, blob)
        with unpacking("a state"):
            basis = Basis.from_fields(fields["detector"]["basis"])
            ledger = Ledger(
                _heard(basis, entry, index, arrays) for index, entry in enumerate(fields["heard"])
            )
            detector = unpack_detector(fields["detector"], arrays, ledger.total())
            made = cls(fields["name"], detector, ledger)
            require_written_as(made.to_bytes(), KIND, fields, arrays)
        return made


def _heard(
    basis: Basis, entry: dict[str, Any], index: int, arrays: dict[str, Array]
) -> Contribution:
    parts = {name: arrays[f"heard.{index}.{name}"] for name in ("U", "V")}
    return Contribution(entry["origin"], entry["epoch"], unpack_evidence(basis, entry, parts))
