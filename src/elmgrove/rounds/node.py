"""Nodes: clients that have P and β and nothing else, as the papers' hardware has."""

import numpy as np

from elmgrove.algebra import Array, Evidence, RoundModel, RoundUpdate, trained
from elmgrove.errors import BadInput
from elmgrove.rounds.clients import PairsByRound, SummedClient
from elmgrove.rounds.messages import Reply, Task


class NodeClient(SummedClient[Reply]):
    """Learns its own rows by OS-ELM, keeps P and β alone, and sends them to be added up.

    U and V are computed at the server (Ito 2020, §3.2): for small hardware that can do (12) and
    (13) and no more, among clients of ``SumRule`` that send sums. It begins with P = I/λ, so the
    task needs a ridge above 0. Rounding grows with the condition of P, and a reply that it would
    spoil is refused there. Its memory is its last reply.
    """

    def __init__(self, name: str, pairs: PairsByRound, *, memory: bytes = b"") -> None:
        super().__init__(name, pairs, Reply.from_bytes(memory) if memory else None)

    def rows_of(self, reply: Reply) -> int:
        """Gives N_k."""
        return int(reply.update.rows)

    def extended(self, task: Task, X: Array, T: Array) -> Reply:
        """Learns the rows by (12) and (13), and says with which ridge P began."""
        beta, P, rows = self._state(task)
        # (12), (13)
        found = trained(RoundModel(beta, P), task.basis.layer, X, T)
        update = RoundUpdate(found.beta, found.P, rows + len(X))
        return Reply(self.name, task.basis, update, task.ridge)

    def _state(self, task: Task) -> RoundUpdate:
        if self.last is not None:
            task.basis.require(self.last.basis)
            return self.last.update
        if not task.ridge > 0.0:
            raise BadInput("a node begins with P = I/λ, so the task needs a ridge above 0")
        units = task.basis.layer.units
        return RoundUpdate(np.zeros((units, task.basis.outputs)), np.eye(units) / task.ridge, 0)

    def own(self, reply: Reply) -> Evidence:
        """Gives the sums of its rows: a gift is the sum over the others."""
        return reply.contribution.evidence
