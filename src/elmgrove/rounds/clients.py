"""Clients: the devices' side of a federation in rounds."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmgrove.algebra import OSELM, Array, Basis, RoundModel, trained
from elmgrove.detector import Detector, PatternRule
from elmgrove.errors import BadInput
from elmgrove.federation import Charter, Contribution, Member, Merged, format_of
from elmgrove.rounds.compact import COMPACT_FORMAT, CompactModel
from elmgrove.rounds.messages import Reply, Task
from elmgrove.storage import load, locked, save

#: All rows that there are by a round (from 1), in the order in which they came.
Rows = Callable[[int], Array]
#: The same with targets.
Pairs = Callable[[int], tuple[Array, Array]]


class Loss(NamedTuple):
    """What a client makes of what it got: the mean squared error on its rows, and their number."""

    mean: float
    rows: int

    @classmethod
    def of(cls, basis: Basis, beta: Array, X: Array, T: Array) -> "Loss":
        """That of a model with these output weights; 0 of no rows."""
        if not len(X):
            return cls(0.0, 0)
        error = basis.layer(basis.scaling(X)) @ beta - T
        return cls(float(np.mean(error * error)), len(X))


class Client(ABC):
    """Answers requests. Made anew with its ``memory``, it goes on where it was.

    Rows are learned once, in the order in which they come: what is new is what came since it
    was last asked.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def memory(self) -> bytes:
        """What it must know in the next round, for an engine that keeps no clients."""
        return b""

    @abstractmethod
    def train(self, request: bytes, number: int) -> bytes:
        """The answer to the request of a round; empty where there are no rows."""

    @abstractmethod
    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """Takes in what the federation gives, and says how well it explains one's own rows.

        ``number`` is the last round's, and ``request`` what it would be asked in a next one.
        """


class SumClient(Client):
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
            self._own = Contribution(self.name, len(X), (model.evidence,))
        return self.memory

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """Solves for the model of everybody's rows."""
        task, total = Task.from_bytes(request), Merged.from_bytes(gift).evidence
        if self._own is not None:
            total = total + self._own.evidence
        return Loss.of(total.basis, total.solve(task.ridge), *self._pairs(number))


class AverageClient(Client):
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
        if format_of(request) == COMPACT_FORMAT:
            return CompactModel.of(basis, update).to_bytes()
        return Reply(self.name, basis, update).to_bytes()

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """The averaged model on one's own rows."""
        basis, model = _model(request)
        return Loss.of(basis, model.beta, *self._pairs(number))


def _model(request: bytes) -> tuple[Basis, RoundModel]:
    if format_of(request) == COMPACT_FORMAT:
        small = CompactModel.from_bytes(request)
        return small.basis, small.state
    task = Task.from_bytes(request)
    if task.model is None:
        raise BadInput("a task without β and P is not one of Fed-ELMS")
    return task.basis, task.model


class DeviceClient(Client):
    """A ``Member`` that learns its rows and offers what it learned; its state is the memory.

    With a rule for ``patterns`` it has a model for each. A state from before (``memory``) with
    another layer than the federation's is refused, and the difference named. The upload guard
    holds unless it is switched off (``guarded=False``: where nothing leaves the machine).

    With a ``state`` file the member lives there, written before an answer leaves, and there is no
    other memory. Only so does the guard hold from one federation to the next: an engine keeps
    memory for one, and what was said in two that differ by a row tells the row.
    """

    def __init__(
        self,
        name: str,
        rows: Rows,
        *,
        patterns: PatternRule | None = None,
        guarded: bool = True,
        memory: bytes = b"",
        state: Path | None = None,
    ) -> None:
        super().__init__(name)
        self._rows = rows
        self._patterns = patterns
        self._guarded = guarded
        self._state = state
        self._member = Member.from_bytes(memory) if memory else None

    @property
    def memory(self) -> bytes:
        """The member's state; empty where it is in a file."""
        kept = self._member if self._state is None else None
        return b"" if kept is None else kept.to_bytes()

    def train(self, request: bytes, number: int) -> bytes:
        """The own evidence of all rows so far, as a ``Contribution``."""
        with self._joined(request) as member:
            new = self._rows(number)[member.detector.learned :]
            if len(new):
                member.detector.learn_many(new)
            # No news is sent again: the last message may have been lost, and twice counts once.
            contribution = member.offer(guarded=self._guarded) if member.detector.learned else None
        return b"" if contribution is None else contribution.to_bytes()

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """Rests on the sum over the others from now on."""
        merged = Merged.from_bytes(gift)
        with self._joined(request) as member:
            member.rest_on(merged if merged.devices else None)
            rows = self._rows(number)
            mean = _error(member.detector, rows) if len(rows) else 0.0
        return Loss(mean, len(rows))

    @contextmanager
    def _joined(self, request: bytes) -> Iterator[Member]:
        """The member, once it is known that the federation learns as it does; then kept."""
        task = Task.from_bytes(request)
        with nullcontext() if self._state is None else locked(self._state):
            self._member = member = self._known() or self._started(task)
            if member.name != self.name:
                raise BadInput(f"the memory of {member.name!r}, not of {self.name!r}")
            task.basis.require(member.detector.basis)
            yield member
            if self._state is not None:
                save(self._state, member)

    def _known(self) -> Member | None:
        # Read anew each time: another run may have used the file meanwhile.
        if self._state is None:
            return self._member
        return load(self._state, Member.from_bytes) if self._state.exists() else None

    def _started(self, task: Task) -> Member:
        charter = Charter(task.federation, task.basis, task.ridge)
        return charter.start(self.name, patterns=self._patterns)


def _error(detector: Detector, rows: Array) -> float:
    """The mean squared error of the model that answers each row.

    Scores of a detector with patterns are in proportion to what is typical of each: they could
    not be compared with the other rules' errors.
    """
    X = detector.basis.scaling(rows)
    return float(detector.model.plain_losses(X).sum() / X.size)
