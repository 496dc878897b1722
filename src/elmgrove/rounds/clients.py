"""Clients of federations in rounds: each answers requests from its own rows, which stay with it.

A ``DeviceClient`` has a detector; a ``SumClient`` and an ``AverageClient`` have an OS-ELM with
targets of any width.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.fed_elms import RoundModel, RoundUpdate, trained
from elmgrove.algebra.oselm import OSELM
from elmgrove.algebra.rows import Array
from elmgrove.detector.detector import Detector
from elmgrove.detector.patterns import PatternRule
from elmgrove.errors import BadInput
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.federation.merged import Merged
from elmgrove.rounds.compact import COMPACT_FORMAT, CompactModel
from elmgrove.rounds.messages import Reply, Task, model_of
from elmgrove.storage.disk import load, locked, save
from elmgrove.storage.sealed import format_of

#: Gives all rows that a client has by a round (from 1), in the order in which they came.
RowsByRound = Callable[[int], Array]
#: Gives all rows that a client has by a round, and their targets.
PairsByRound = Callable[[int], tuple[Array, Array]]


class Loss(NamedTuple):
    """The mean squared error of what a client got on the client's own rows, and their number."""

    mean: float
    rows: int

    @classmethod
    def of(cls, basis: Basis, beta: Array, X: Array, T: Array) -> "Loss":
        """Gives the loss of a model with these output weights; 0 for no rows."""
        if not len(X):
            return cls(0.0, 0)
        error = basis.layer(basis.scaling(X)) @ beta - T
        return cls(float(np.mean(error * error)), len(X))


class Client(ABC):
    """The base of clients: each answers requests, and goes on from its ``memory``.

    An engine may make the client again for each request, with its last memory. Rows are learned
    once, in the order in which they come: those are new that came since the last request.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def memory(self) -> bytes:
        """What the client must know in the next round, for an engine that does not keep clients."""
        return b""

    @abstractmethod
    def train(self, request: bytes, number: int) -> bytes:
        """Answers the request of a round; with no bytes if there are no rows."""

    @abstractmethod
    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """Takes in the gift at the end, and says how well it explains the client's own rows.

        ``number`` is that of the last round, and ``request`` that of the round after it.
        """


class DeviceClient(Client):
    """Learns its rows as a ``Member`` and contributes what it learned, under the upload guard.

    With a rule for ``patterns`` it has a model for each pattern. Its memory is the member's state;
    one that learned with another layer refuses the request and names the difference.
    ``guarded=False`` switches the upload guard off, for clients whose server is the same machine.

    With a ``state`` file the member is kept there, written before an answer is sent, and there is
    no other memory. Only then does the guard hold from one run to the next: an engine keeps memory
    for one run, and the answers of two runs that differ by one row reveal that row.
    """

    def __init__(
        self,
        name: str,
        rows: RowsByRound,
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
        """The member's state; empty if it is kept in a file."""
        kept = self._member if self._state is None else None
        return b"" if kept is None else kept.to_bytes()

    def train(self, request: bytes, number: int) -> bytes:
        """Answers with the evidence of all rows so far, as a ``Contribution``."""
        with self._joined(request) as member:
            new = self._rows(number)[member.detector.learned :]
            if len(new):
                member.detector.learn_many(new)
            # Also without new rows: the last answer may have been lost, and the same counts once.
            contribution = member.offer(guarded=self._guarded) if member.detector.learned else None
        return b"" if contribution is None else contribution.to_bytes()

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """Uses the sum over the other clients from now on, and measures it on the client's rows."""
        merged = Merged.from_bytes(gift)
        with self._joined(request) as member:
            member.set_prior(merged if merged.devices else None)
            rows = self._rows(number)
            mean = _error(member.detector, rows) if len(rows) else 0.0
        return Loss(mean, len(rows))

    @contextmanager
    def _joined(self, request: bytes) -> Iterator[Member]:
        """Gives the member, if it learns as the federation does, and keeps it afterwards."""
        task = Task.from_bytes(request)
        with nullcontext() if self._state is None else locked(self._state):
            self._member = member = self._known() or self._started(task)
            if member.name != self.name:
                raise BadInput(f"the state is that of {member.name!r}, not of {self.name!r}")
            task.basis.require(member.detector.basis)
            yield member
            if self._state is not None:
                save(self._state, member)

    def _known(self) -> Member | None:
        # Read each time: another run may have used the file in between.
        if self._state is None:
            return self._member
        return load(self._state, Member.from_bytes) if self._state.exists() else None

    def _started(self, task: Task) -> Member:
        charter = Charter(task.federation, task.basis, task.ridge, merged=True)
        return charter.start(self.name, patterns=self._patterns)


def _error(detector: Detector, rows: Array) -> float:
    """The mean squared error of the model that answers each row.

    Scores of a detector with patterns are in proportion to what is typical of each: they could
    not be compared with the other rules' errors.
    """
    X = detector.basis.scaling(rows)
    return float(detector.model.plain_losses(X).sum() / X.size)


class Sendable(Protocol):
    """What a client replies with, and remembers."""

    def to_bytes(self) -> bytes:
        """Gives the message as it is sent."""
        ...


M = TypeVar("M", bound=Sendable)


class SummedClient(Client, Generic[M]):
    """The base of clients of rules that add up: a reply covers all rows so far, with any targets.

    Its memory is its last reply. It has no upload guard: that counts rows for detectors only.
    """

    def __init__(self, name: str, pairs: PairsByRound, last: M | None) -> None:
        super().__init__(name)
        self._pairs = pairs
        self.last = last

    @property
    def memory(self) -> bytes:
        """The last reply."""
        return b"" if self.last is None else self.last.to_bytes()

    @abstractmethod
    def rows_of(self, reply: M) -> int:
        """Counts the rows that a reply covers."""

    @abstractmethod
    def extended(self, task: Task, X: Array, T: Array) -> M:
        """Learns new rows, scaled, beside those of the last reply, and gives the next one."""

    @abstractmethod
    def own(self, reply: M) -> Evidence | None:
        """Gives what has to be added to a gift; None if it is in there."""

    def train(self, request: bytes, number: int) -> bytes:
        """Answers for all rows so far; with no bytes if there are none."""
        task = Task.from_bytes(request)
        X, T = self._pairs(number)
        learned = 0 if self.last is None else self.rows_of(self.last)
        if len(X) > learned:
            self.last = self.extended(task, task.basis.scaling(X[learned:]), T[learned:])
        return self.memory

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """Solves for the model of all clients' rows, and measures it on the client's own."""
        task, total = Task.from_bytes(request), Merged.from_bytes(gift).evidence
        own = None if self.last is None else self.own(self.last)
        X, T = self._pairs(number)
        model = total if own is None else total + own
        return Loss.of(model.basis, model.solve(task.ridge), X, T)


class SumClient(SummedClient[Contribution]):
    """Contributes the evidence of an ``OSELM``, for targets of any width, without an upload guard.

    Its memory is its last contribution.
    """

    def __init__(self, name: str, pairs: PairsByRound, *, memory: bytes = b"") -> None:
        super().__init__(name, pairs, Contribution.from_bytes(memory) if memory else None)

    def rows_of(self, reply: Contribution) -> int:
        """Gives the epoch, which counts them."""
        return reply.epoch

    def extended(self, task: Task, X: Array, T: Array) -> Contribution:
        """Adds the rows to the evidence."""
        basis, before = task.basis, 0
        model = OSELM(basis.layer, basis.outputs, ridge=task.ridge, basis=basis)
        if self.last is not None:
            model.merge(self.last.evidence)
            before = self.last.epoch
        model.learn_many(X, T)
        return Contribution(self.name, before + len(X), (model.evidence,))

    def own(self, reply: Contribution) -> Evidence:
        """Gives the own evidence: a gift is the sum over the others."""
        return reply.evidence


class AverageClient(Client):
    """Learns new rows from the model that it was sent, by OS-ELM, and discards them (Fed-ELMS).

    Asked in 8 bits, it answers in 8 bits. It has no upload guard, and none could keep its promise:
    the change of P in a round is the evidence of that round's rows.
    """

    def __init__(self, name: str, pairs: PairsByRound, *, memory: bytes = b"") -> None:
        super().__init__(name)
        self._pairs = pairs
        self._learned = int.from_bytes(memory, "little")

    @property
    def memory(self) -> bytes:
        """The number of rows learned so far."""
        return self._learned.to_bytes(8, "little")

    def train(self, request: bytes, number: int) -> bytes:
        """Answers with βᵏ and Pᵏ after the new rows; with no bytes if there are none."""
        basis, model = model_of(request)
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
        """Measures the averaged model, which is in the request, on the client's own rows."""
        basis, model = model_of(request)
        X, T = self._pairs(number)
        return Loss.of(basis, model.beta, X, T)


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
