"""Workers around an OS-ELM: any targets, by E²LM or by Fed-ELMS."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.basis import Basis
from elmgrove.cooperation import Contribution, Merged
from elmgrove.cooperation.fed_elms import State, trained
from elmgrove.engines.reply import Reply
from elmgrove.engines.task import Task
from elmgrove.engines.worker import Loss, Pairs, Worker
from elmgrove.errors import BadInput
from elmgrove.oselm import OSELM

Array = NDArray[Any]


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
        return _loss(total.basis, total.solve(task.ridge), *self._pairs(number))


class Averaged(Worker):
    """Fed-ELMS' client: OS-ELM from the model received, on new rows, which are then discarded."""

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
        task, model = _task(request)
        X, T = self._pairs(number)
        if len(X) <= self._learned:
            return b""
        new = task.basis.scaling(X[self._learned :])
        # (12), (13)
        update = trained(model, task.basis.layer, new, T[self._learned :])
        self._learned = len(X)
        return Reply(self.name, task.basis, update).to_bytes()

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """The averaged model on one's own rows."""
        task, model = _task(request)
        return _loss(task.basis, model.beta, *self._pairs(number))


def _task(request: bytes) -> tuple[Task, State]:
    task = Task.from_bytes(request)
    if task.model is None:
        raise BadInput("a task without β and P is not one of Fed-ELMS")
    return task, task.model


def _loss(basis: Basis, beta: Array, X: Array, T: Array) -> Loss:
    if not len(X):
        return Loss(0.0, 0)
    error = basis.layer(basis.scaling(X)) @ beta - T
    return Loss(float(np.mean(error * error)), len(X))
