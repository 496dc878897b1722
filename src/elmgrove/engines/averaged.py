"""A worker around an OS-ELM: any targets, by Fed-ELMS."""

from elmgrove.cooperation.fed_elms import State, trained
from elmgrove.engines.reply import Reply
from elmgrove.engines.task import Task
from elmgrove.engines.worker import Loss, Pairs, Worker
from elmgrove.errors import BadInput


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
        return Loss.of(task.basis, model.beta, *self._pairs(number))


def _task(request: bytes) -> tuple[Task, State]:
    task = Task.from_bytes(request)
    if task.model is None:
        raise BadInput("a task without β and P is not one of Fed-ELMS")
    return task, task.model
