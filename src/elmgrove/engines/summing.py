"""E²LM in rounds: the sum of what each client contributed last."""

from collections.abc import Sequence

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.engines.federation import Federation, require_sender
from elmgrove.errors import BadInput
from elmgrove.federation import Contribution, Ledger, Merged, RunningSum
from elmgrove.federation.charter import require_addable
from elmgrove.federation.entries import Entry


class Summing(Federation[Contribution]):
    """One round is enough: the sum is the model of all rows, however they are split.

    In later rounds a client's newer contribution takes the place of its older one (``Ledger``), so
    no row counts twice, a lost reply is made good by the next, and a client that is not drawn
    again keeps its part. At the end each gets the sum over the others.
    """

    def __init__(self, name: str, basis: Basis, ridge: float = 1e-3) -> None:
        super().__init__(name, basis, ridge)
        self.ledger = Ledger()
        self._sum = RunningSum(basis)

    def read(self, origin: str, reply: bytes) -> Contribution | None:
        """The contribution; ``Mismatch``, ``NotAdmissible`` or ``BadFile`` if it can't be used."""
        if not reply:
            return None
        contribution = Contribution.from_bytes(reply)
        require_sender(origin, contribution.origin)
        # A charter would refuse classifiers: it is for detectors, whose outputs are their inputs.
        for kind in contribution.kinds:
            require_addable(self.basis, kind, f"the evidence of {origin!r}")
        return contribution if contribution.evidence.count > 0.0 else None

    def combine(self, replies: Sequence[Contribution]) -> None:
        """Equation (8): each takes the place of what the same client said before."""
        for contribution in replies:
            before = self.ledger.get(contribution.origin)
            if self.ledger.join(contribution):
                self._sum.change(_evidence(before), contribution.evidence)
        self._sum.freshen(held.evidence for held in self.ledger)

    def gift(self, origin: str) -> bytes:
        """The sum over the others."""
        without = _evidence(self.ledger.get(origin))
        devices = len(self.ledger) - (without is not None)
        return Merged(
            self.task.federation, self.rounds, devices, self._sum.evidence(without)
        ).to_bytes()

    def merged(self) -> Merged:
        """The sum over all, taken afresh in the order of the names: the same on every engine.

        ``BadInput`` if nobody ever answered.
        """
        return Merged(self.task.federation, self.rounds, len(self.ledger), self._total())

    def _total(self) -> Evidence:
        total = self.ledger.total()
        if total is None:
            raise BadInput("no client answered, so there is no model")
        return total


def _evidence(entry: Entry | None) -> Evidence | None:
    return entry.evidence if isinstance(entry, Contribution) else None
