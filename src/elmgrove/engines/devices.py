"""A worker around a detector: contributions by E²LM, with or without patterns."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.detector.mixture.pattern import PatternRule
from elmgrove.detector.patterns import PatternDetector
from elmgrove.detector.watcher import Watcher
from elmgrove.engines.task import Task
from elmgrove.engines.worker import Array, Loss, Rows, Worker
from elmgrove.errors import BadInput
from elmgrove.federation import Charter, Member, Merged
from elmgrove.storage.disk import load_member, locked, save


class Device(Worker):
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
        return load_member(self._state) if self._state.exists() else None

    def _started(self, task: Task) -> Member:
        charter = Charter(task.federation, task.basis, task.ridge)
        return charter.start(self.name, patterns=self._patterns)


def _error(detector: Watcher[Any], rows: Array) -> float:
    """The mean squared error of the model that answers each row.

    Scores of a detector with patterns are in proportion to what is typical of each: they could
    not be compared with the other rules' errors.
    """
    if not isinstance(detector, PatternDetector):
        return float(np.mean(detector.score_many(rows)))
    X, model = detector.basis.scaling(rows), detector.model
    winners = np.array(model.winners(X))
    total = sum(
        model.model_of(number).losses(X[winners == number]).sum() for number in set(winners)
    )
    return float(total / X.size)
