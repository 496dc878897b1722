"""Clients of federations in rounds, which answer from their own rows, without an upload guard."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from elmgrove.algebra.fed_elms import trained
from elmgrove.algebra.oselm import OSELM
from elmgrove.algebra.rows import Array
from elmgrove.federation.contribution import Contribution
from elmgrove.rounds.compact import CompactModel
from elmgrove.rounds.messages import RoundMessage

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
        return b"" if self._last is None else self._last.to_bytes()

    def train(self, request: bytes, number: int) -> bytes:
        # Also without new rows: the last answer may be lost.
        basis = RoundMessage.from_bytes(request).basis
        X, T = self._pairs(number)
        # The epoch counts the rows.
        learned = 0 if self._last is None else self._last.epoch
        if len(X) > learned:
            model = OSELM(basis.layer, basis.outputs, basis=basis)
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
        return self._learned.to_bytes(8, "little")

    def train(self, request: bytes, number: int) -> bytes:
        asked = RoundMessage.from_bytes(request)
        basis, (X, T) = asked.basis, self._pairs(number)
        if len(X) <= self._learned:
            return b""
        # (12), (13)
        new = basis.scaling(X[self._learned :])
        exact = trained(asked.state, basis.layer, new, T[self._learned :])
        self._learned = len(X)
        model = CompactModel.of(exact) if isinstance(asked.model, CompactModel) else exact
        return RoundMessage(self.name, basis, model, len(new)).to_bytes()
