"""Rules of federations in rounds: what the server makes of its clients' replies."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.fed_elms import RoundModel, fedavg, first_model
from elmgrove.algebra.linalg import Factor, mirrored, require_ridge
from elmgrove.errors import BadInput, NotAdmissible, SingularSystem
from elmgrove.federation.charter import require_addable
from elmgrove.federation.contribution import Contribution, Ledger
from elmgrove.federation.groups import Grouping, group
from elmgrove.federation.merged import Merged
from elmgrove.rounds.compact import CompactModel
from elmgrove.rounds.evaluation import GlobalModel, models_of
from elmgrove.rounds.messages import RoundMessage

R = TypeVar("R")


class RoundRule(ABC, Generic[R]):
    """The server's side of a federation in rounds: its messages, and how answers are combined.

    Each round the loop sends ``request`` to some clients, gives each answer to ``read`` (which
    raises if it can't be used) and the others to ``take``. In the end there is ``merged``.
    """

    def __init__(self, name: str, basis: Basis, ridge: float = 1e-3) -> None:
        require_ridge(ridge)
        self.name, self.basis, self.ridge = name, basis, ridge
        self.rounds = 0
        self._request = RoundMessage(name, basis)

    def request(self) -> bytes:
        return self._request.to_bytes()

    @abstractmethod
    def read(self, origin: str, reply: bytes) -> R | None:
        """Open a client's reply, and raise if it can't be used; None if it has no rows."""

    @abstractmethod
    def take(self, replies: Sequence[R]) -> None:
        """Combines the replies of one round, given in the order of the clients' names."""

    @abstractmethod
    def merged(self) -> Merged:
        """What all clients know together."""

    def models(self) -> tuple[GlobalModel, ...]:
        """The global model, or one for each group; none before the first answer."""
        return models_of(self.merged(), self.ridge) if self.rounds else ()


def _require_sender(origin: str, stated: str) -> None:
    if origin != stated:
        raise BadInput(f"{origin!r} sent a message in the name of {stated!r}")


class SumRule(RoundRule[Contribution]):
    """Add up evidence (E²LM). One round is enough: the sum is the model of all rows.

    In later rounds a client's newer contribution replaces its older one (``Ledger``), so no row
    counts twice, the next reply makes up for a lost one, and a client that is not drawn again
    stays in the sum.
    """

    def __init__(self, name: str, basis: Basis, ridge: float = 1e-3) -> None:
        super().__init__(name, basis, ridge)
        self.ledger = Ledger()
        self._merged: Merged | None = None

    def read(self, origin: str, reply: bytes) -> Contribution | None:
        if not reply:
            return None
        contribution = Contribution.from_bytes(reply)
        _require_sender(origin, contribution.origin)
        # A charter would refuse classifiers: it is for detectors, whose outputs are their inputs.
        for part in contribution.parts:
            require_addable(self.basis, part, f"the evidence of {origin!r}")
        return contribution if contribution.evidence.count > 0.0 else None

    def take(self, replies: Sequence[Contribution]) -> None:
        self.rounds += 1
        for contribution in replies:
            self.ledger.join(contribution)
        self._merged = None

    def merged(self) -> Merged:
        """The sum over all clients, the same bytes on any engine; ``BadInput`` if none answered."""
        if self._merged is None:
            if not len(self.ledger):
                raise BadInput("no client answered, so there is no model")
            parts = self._sums()
            self._merged = Merged(
                self.name, self.rounds, len(self.ledger), parts, apart=len(parts) > 1
            )
        return self._merged

    def _sums(self) -> tuple[Evidence, ...]:
        # (8)
        return (Evidence.sum(held.evidence for held in self.ledger),)


class GroupRule(SumRule):
    """Find groups of clients that one model explains as well (MLMG), and adds up each group."""

    _grouping: Grouping | None = None

    def take(self, replies: Sequence[Contribution]) -> None:
        super().take(replies)
        self._grouping = None

    @property
    def grouping(self) -> Grouping:
        """The group of each client, by the newest contributions."""
        if self._grouping is None:
            self._grouping = group(self.ledger, self.ridge)
        return self._grouping

    def _sums(self) -> tuple[Evidence, ...]:
        groups = map(self.grouping.members, self.grouping.numbers)
        return tuple(Evidence.sum(model.evidence for model in group) for group in groups)


class AverageRule(RoundRule[RoundMessage]):
    """Average β and P, weighted by rows (Fed-ELMS), for comparison with ``SumRule``.

    It needs a first batch of at least as many rows as hidden units. A reply that is lost is lost
    with its rows, which the client has thrown away. With 8 ``bits``, models travel as
    ``CompactModel`` both ways, and a client with few rows may change nothing.
    """

    def __init__(self, name: str, basis: Basis, X0: Any, T0: Any, *, bits: int = 64) -> None:
        # Fed-ELMS' P is that of no ridge.
        super().__init__(name, basis, ridge=0.0)
        if bits not in (8, 64):
            raise BadInput(f"bits must be 8 or 64, not {bits}")
        self._bits = bits
        self._rows = len(X0)
        self._origins = set[str]()
        self._set_model(first_model(basis.layer, X0, T0))

    def _set_model(self, model: RoundModel) -> None:
        sent = CompactModel.of(model) if self._bits == 8 else model
        self._request = RoundMessage(self.name, self.basis, sent)

    @property
    def model(self) -> RoundModel:
        """The current β and P, as they are sent: the server goes on from them as clients do."""
        return self._request.state

    def read(self, origin: str, reply: bytes) -> RoundMessage | None:
        if not reply:
            return None
        opened = RoundMessage.from_bytes(reply)
        _require_sender(origin, opened.sender)
        self.basis.require(opened.basis)
        if type(opened.model) is not type(self._request.model):
            raise BadInput(f"{origin!r} answered in another number of bits than {self._bits}")
        try:
            Factor(opened.state.P, 0.0)
        except SingularSystem as error:  # the average might have no inverse
            raise NotAdmissible(f"P of {origin!r} is not that of any rows: {error}") from error
        return opened if opened.rows else None

    def take(self, replies: Sequence[RoundMessage]) -> None:
        # (10), (11)
        self.rounds += 1
        self._set_model(fedavg((reply.rows, reply.state) for reply in replies))
        self._rows += sum(reply.rows for reply in replies)
        self._origins |= {reply.sender for reply in replies}

    def models(self) -> tuple[GlobalModel, ...]:
        return (GlobalModel(self.model.beta, self._rows),)

    def merged(self) -> Merged:
        """The evidence that has this β and P, by equation (15): U = P⁻¹, V = Uβ.

        An average is no sum over rows: the energy is the least that is possible, and the number of
        rows says how many went in, not that U has seen them.
        """
        beta, P = self.model
        U = mirrored(Factor(P, 0.0).inverse())
        V = U @ beta
        evidence = Evidence(self.basis, U, V, float(np.vdot(beta, V)), self._rows)
        return Merged(self.name, self.rounds, len(self._origins), (evidence,))
