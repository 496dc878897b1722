"""Nodes: clients that have P and β and nothing else, as the papers' hardware has."""

import numpy as np

from elmgrove.algebra import RoundModel, RoundUpdate, trained
from elmgrove.errors import BadInput
from elmgrove.federation import Merged
from elmgrove.rounds.clients import Client, Loss, PairsByRound
from elmgrove.rounds.messages import Reply, Task


class NodeClient(Client):
    """Learns its own rows by OS-ELM, keeps P and β alone, and sends them to be added up.

    U and V are computed at the server (Ito 2020, §3.2): for small hardware that can do (12) and
    (13) and no more, among clients of ``SumRule`` that send sums. It begins with P = I/λ, so the
    task needs a ridge above 0. Rounding grows with the condition of P, and a reply that it would
    spoil is refused there. Its memory is its last reply; it has no upload guard.
    """

    def __init__(self, name: str, pairs: PairsByRound, *, memory: bytes = b"") -> None:
        super().__init__(name)
        self._pairs = pairs
        self._own = Reply.from_bytes(memory) if memory else None

    @property
    def memory(self) -> bytes:
        """The last reply."""
        return b"" if self._own is None else self._own.to_bytes()

    def train(self, request: bytes, number: int) -> bytes:
        """Answers with P and β of all rows so far, as a ``Reply`` that states its ridge."""
        task = Task.from_bytes(request)
        X, T = self._pairs(number)
        learned = 0 if self._own is None else int(self._own.update.rows)
        if len(X) > learned:
            new = task.basis.scaling(X[learned:])
            # (12), (13)
            beta, P, _ = trained(self._state(task), task.basis.layer, new, T[learned:])
            self._own = Reply(self.name, task.basis, RoundUpdate(beta, P, len(X)), task.ridge)
        return self.memory

    def _state(self, task: Task) -> RoundModel:
        if self._own is not None:
            task.basis.require(self._own.basis)
            return RoundModel(self._own.update.beta, self._own.update.P)
        if not task.ridge > 0.0:
            raise BadInput("a node begins with P = I/λ, so the task needs a ridge above 0")
        units = task.basis.layer.units
        return RoundModel(np.zeros((units, task.basis.outputs)), np.eye(units) / task.ridge)

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """Solves for the model of all clients' rows, and measures it on the client's own."""
        task, total = Task.from_bytes(request), Merged.from_bytes(gift).evidence
        if self._own is not None:
            total = total + self._own.contribution.evidence
        X, T = self._pairs(number)
        return Loss.of(task.basis, total.solve(task.ridge), X, T)
