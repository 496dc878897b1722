"""A worker around an OS-ELM: any targets, by E²LM."""

from elmgrove.algebra.oselm import OSELM
from elmgrove.engines.task import Task
from elmgrove.engines.worker import Loss, Pairs, Worker
from elmgrove.federation import Contribution, Merged


class Summed(Worker):
    """An ``OSELM`` whose evidence is contributed; the last contribution is the memory.

    For targets of any width. Without the upload guard, which is counted for detectors.
    """

    def __init__(self, name: str, pairs: Pairs, *, memory: bytes = b"") -> None:
        super().__init__(name)
        self._pairs = pairs
        self._own = Contribution.from_bytes(memory) if memory else None

    @property
    def memory(self) -> bytes:
        """What was last contributed."""
        return b"" if self._own is None else self._own.to_bytes()

    def train(self, request: bytes, number: int) -> bytes:
        """The own evidence of all rows so far, as a ``Contribution``."""
        task = Task.from_bytes(request)
        X, T = self._pairs(number)
        learned = 0 if self._own is None else self._own.epoch
        if len(X) > learned:
            basis = task.basis
            model = OSELM(basis.layer, basis.outputs, ridge=task.ridge, basis=basis)
            if self._own is not None:
                model.merge(self._own.evidence)
            model.learn_many(basis.scaling(X[learned:]), T[learned:])
            self._own = Contribution(self.name, len(X), model.evidence)
        return self.memory

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """Solves for the model of everybody's rows."""
        task, total = Task.from_bytes(request), Merged.from_bytes(gift).evidence
        if self._own is not None:
            total = total + self._own.evidence
        return Loss.of(total.basis, total.solve(task.ridge), *self._pairs(number))
