"""A worker around an OS-ELM: any targets, by Fed-ELMS."""

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.fed_elms import State, trained
from elmgrove.compact import CompactModel
from elmgrove.compact.model import KIND as COMPACT
from elmgrove.engines.reply import Reply
from elmgrove.engines.task import Task
from elmgrove.engines.worker import Loss, Pairs, Worker
from elmgrove.errors import BadInput
from elmgrove.federation.sealed import kind_of


class Averaged(Worker):
    """Fed-ELMS' client: OS-ELM from the model received, on new rows, which are then discarded.

    Asked in 8 bits, it answers in 8 bits. There is no upload guard, and none would be true:
    what a round changed in P is the evidence of its rows.
    """

    def __init__(self, name: str, pairs: Pairs, *, memory: bytes = b"") -> None:
        super().__init__(name)
        self._pairs = pairs
        self._learned = int.from_bytes(memory, "little")

    @property
    def memory(self) -> bytes:
        """How many rows were learned."""
        return self._learned.to_bytes(8, "little")

    def train(self, request: bytes, number: int) -> bytes:
        """βᵏ and Pᵏ after the new rows."""
        basis, model = _model(request)
        X, T = self._pairs(number)
        if len(X) <= self._learned:
            return b""
        new = basis.scaling(X[self._learned :])
        # (12), (13)
        update = trained(model, basis.layer, new, T[self._learned :])
        self._learned = len(X)
        if kind_of(request) == COMPACT:
            return CompactModel.of(basis, update).to_bytes()
        return Reply(self.name, basis, update).to_bytes()

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """The averaged model on one's own rows."""
        basis, model = _model(request)
        return Loss.of(basis, model.beta, *self._pairs(number))


def _model(request: bytes) -> tuple[Basis, State]:
    if kind_of(request) == COMPACT:
        small = CompactModel.from_bytes(request)
        return small.basis, small.state
    task = Task.from_bytes(request)
    if task.model is None:
        raise BadInput("a task without β and P is not one of Fed-ELMS")
    return task.basis, task.model
