"""Clients of federations in rounds: each answers requests from its own rows, which stay with it.

They learn inputs and targets of any width with an OS-ELM, and have no upload guard: a device that
shares what it learned with strangers uses an exchange, which has one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from elmgrove.algebra.fed_elms import trained
from elmgrove.algebra.oselm import OSELM
from elmgrove.algebra.rows import Array
from elmgrove.federation.contribution import Contribution
from elmgrove.rounds.compact import COMPACT_FORMAT, CompactModel
from elmgrove.rounds.messages import Reply, Task, model_of
from elmgrove.storage.sealed import format_of

#: Called with the number of a round (from 1): all rows that a client has by then, in the order in
#: which they came, and their targets.
PairsByRound = Callable[[int], tuple[Array, Array]]


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


class SumClient(Client):
    """Contributes the evidence of all its rows so far, for ``SumRule`` and ``GroupRule``.

    Its memory is its last contribution.
    """

    def __init__(self, name: str, pairs: PairsByRound, *, memory: bytes = b"") -> None:
        super().__init__(name)
        self._pairs = pairs
        self._last = Contribution.from_bytes(memory) if memory else None

    @property
    def memory(self) -> bytes:
        """The last contribution."""
        return b"" if self._last is None else self._last.to_bytes()

    def train(self, request: bytes, number: int) -> bytes:
        """Answers for all rows so far, also without new ones: the last answer may be lost."""
        task = Task.from_bytes(request)
        X, T = self._pairs(number)
        # The epoch counts the rows.
        learned = 0 if self._last is None else self._last.epoch
        if len(X) > learned:
            basis = task.basis
            model = OSELM(basis.layer, basis.outputs, ridge=task.ridge, basis=basis)
            if self._last is not None:
                model.merge(self._last.evidence)
            model.learn_many(basis.scaling(X[learned:]), T[learned:])
            self._last = Contribution(self.name, len(X), (model.evidence,))
        return self.memory


class AverageClient(Client):
    """Learns new rows from the model that it was sent, by OS-ELM, and discards them (Fed-ELMS).

    Asked in 8 bits, it answers in 8 bits. No guard could keep a row back here: the change of P in a
    round is the evidence of that round's rows.
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
        # (12), (13)
        new = basis.scaling(X[self._learned :])
        update = trained(model, basis.layer, new, T[self._learned :])
        self._learned = len(X)
        if format_of(request) == COMPACT_FORMAT:
            return CompactModel.of(basis, update).to_bytes()
        return Reply(self.name, basis, update).to_bytes()
