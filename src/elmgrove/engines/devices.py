"""A worker around a detector: contributions by E²LM, with or without patterns."""

import numpy as np

from elmgrove.cooperation import Charter, Member, Merged
from elmgrove.engines.task import Task
from elmgrove.engines.worker import Loss, Rows, Worker
from elmgrove.errors import BadInput
from elmgrove.pattern import PatternRule


class Device(Worker):
    """A ``Member`` that learns its rows and offers what it learned; its state is the memory.

    With a rule for ``patterns`` it has a model for each. A state from before (``memory``) with
    another layer than the federation's is refused, and the difference named. The upload guard
    holds unless it is switched off (``guarded=False``: where nothing leaves the machine).
    """

    def __init__(
        self,
        name: str,
        rows: Rows,
        *,
        patterns: PatternRule | None = None,
        guarded: bool = True,
        memory: bytes = b"",
    ) -> None:
        super().__init__(name)
        self._rows = rows
        self._patterns = patterns
        self._guarded = guarded
        self._member = Member.from_bytes(memory) if memory else None
        if self._member is not None and self._member.name != name:
            raise BadInput(f"the memory of {self._member.name!r}, not of {name!r}")

    @property
    def memory(self) -> bytes:
        """The member's state."""
        return b"" if self._member is None else self._member.to_bytes()

    def train(self, request: bytes, number: int) -> bytes:
        """The own evidence of all rows so far, as a ``Contribution``."""
        member = self._joined(request)
        new = self._rows(number)[member.detector.learned :]
        if len(new):
            member.detector.learn_many(new)
        # No news is sent again: the last message may have been lost, and twice counts once.
        contribution = member.offer(guarded=self._guarded) if member.detector.learned else None
        return b"" if contribution is None else contribution.to_bytes()

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """Rests on the sum over the others from now on."""
        merged = Merged.from_bytes(gift)
        member = self._joined(request)
        member.rest_on(merged if merged.devices else None)
        rows = self._rows(number)
        scores = member.detector.score_many(rows) if len(rows) else np.zeros(1)
        return Loss(float(np.mean(scores)), len(rows))

    def _joined(self, request: bytes) -> Member:
        """The member, once it is known that the federation learns as it does."""
        task = Task.from_bytes(request)
        if self._member is None:
            charter = Charter(task.federation, task.basis, task.ridge)
            self._member = charter.start(self.name, patterns=self._patterns)
        task.basis.require(self._member.detector.basis)
        return self._member
