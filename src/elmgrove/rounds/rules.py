"""Rules of federations in rounds, on the server's side; and that of them which adds up evidence.

A rule says what clients are asked, which answers can be used, and what they are combined to.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from elmgrove.algebra import Basis, Evidence
from elmgrove.errors import BadInput
from elmgrove.federation import Contribution, Entry, Ledger, Merged, RunningSum, require_addable
from elmgrove.rounds.evaluation import Evaluation, Exam, GlobalModel, models_of
from elmgrove.rounds.messages import Task, contribution_from_bytes

R = TypeVar("R")


class RoundRule(ABC, Generic[R]):
    """The server's side of a federation in rounds: its messages, and how answers are combined.

    Each round an engine sends ``request`` to some clients, gives each answer to ``read`` (which
    raises, with the reason, if it can't be used) and all that can be used to ``take``. At the end
    each client gets its ``gift``, and ``merged`` is what all of them know together.
    """

    def __init__(self, name: str, basis: Basis, ridge: float = 1e-3) -> None:
        self.task = Task(name, basis, ridge)
        self.rounds = 0

    @property
    def basis(self) -> Basis:
        """The basis that all clients learn with."""
        return self.task.basis

    def request(self) -> bytes:
        """Gives what each client of the next round is sent."""
        return self.task.to_bytes()

    @abstractmethod
    def read(self, origin: str, reply: bytes) -> R | None:
        """Opens a client's reply, and raises if it can't be used; None if it has no rows."""

    def take(self, replies: Sequence[R]) -> None:
        """Combines the replies of one round, given in the order of the clients' names."""
        self.rounds += 1
        self.combine(replies)

    @abstractmethod
    def combine(self, replies: Sequence[R]) -> None:
        """Applies the rule to the replies of one round."""

    @abstractmethod
    def gift(self, origin: str) -> bytes:
        """Gives what a client gets at the end, beside the request."""

    @abstractmethod
    def merged(self) -> Merged:
        """Gives what all clients know together."""

    def models(self) -> tuple[GlobalModel, ...]:
        """Gives the global model, or one for each group; none before the first answer."""
        if not self.rounds:
            return ()
        return models_of(self.merged(), self.task.ridge)

    def evaluate(self, exam: Exam) -> Evaluation | None:
        """Tests the global model on the server's rows; None before the first answer."""
        return exam.evaluate(self.basis, self.models())


def require_sender(origin: str, stated: str) -> None:
    """Raises ``BadInput`` if a message states another sender than the client it came from."""
    if origin != stated:
        raise BadInput(f"{origin!r} sent a message in the name of {stated!r}")


class SumRule(RoundRule[Contribution]):
    """Adds up evidence (E²LM). One round is enough: the sum is the model of all rows.

    In later rounds a client's newer contribution replaces its older one (``Ledger``), so no row
    counts twice, the next reply makes up for a lost one, and a client that is not drawn again
    stays in the sum. At the end each client gets the sum over the others.
    """

    def __init__(self, name: str, basis: Basis, ridge: float = 1e-3) -> None:
        super().__init__(name, basis, ridge)
        self.ledger = Ledger()
        self._sum = RunningSum(basis)

    def read(self, origin: str, reply: bytes) -> Contribution | None:
        """Opens a contribution, or makes one of a node's β and P (Ito 2020, §3.2).

        Raises ``Mismatch``, ``NotAdmissible``, ``SingularSystem``, ``BadInput`` or ``BadFile`` if
        it can't be used.
        """
        if not reply:
            return None
        contribution = contribution_from_bytes(reply)
        require_sender(origin, contribution.origin)
        # A charter would refuse classifiers: it is for detectors, whose outputs are their inputs.
        for part in contribution.parts:
            require_addable(self.basis, part, f"the evidence of {origin!r}")
        return contribution if contribution.evidence.count > 0.0 else None

    def combine(self, replies: Sequence[Contribution]) -> None:
        """Adds each contribution by equation (8), in place of the same client's earlier one."""
        for contribution in replies:
            before = self.ledger.get(contribution.origin)
            if self.ledger.join(contribution):
                self._sum.change(_evidence(before), contribution.evidence)

    def gift(self, origin: str) -> bytes:
        """Gives the sum over the other clients."""
        own = _evidence(self.ledger.get(origin))
        devices = len(self.ledger) - (own is not None)
        others = self._sum.evidence(without=own)
        return Merged(self.task.federation, self.rounds, devices, (others,)).to_bytes()

    def merged(self) -> Merged:
        """Gives the sum over all clients; ``BadInput`` if no client ever answered.

        It is added up in the order of the names, so every engine gives the same bytes.
        """
        self._require_answers()
        total = Evidence.sum(held.evidence for held in self.ledger)
        return Merged(self.task.federation, self.rounds, len(self.ledger), (total,))

    def _require_answers(self) -> None:
        if not len(self.ledger):
            raise BadInput("no client answered, so there is no model")


def _evidence(entry: Entry | None) -> Evidence | None:
    return entry.evidence if isinstance(entry, Contribution) else None
