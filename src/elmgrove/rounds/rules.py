"""Rules of federations in rounds: what the server makes of its clients' replies."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.fed_elms import RoundModel, fedavg, first_model
from elmgrove.algebra.linalg import Factor, mirrored
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput, NotAdmissible, SingularSystem
from elmgrove.federation.charter import require_addable
from elmgrove.federation.contribution import Contribution, Entry
from elmgrove.federation.groups import EVIDENCE, Grouping, group, local_models, require_distance
from elmgrove.federation.ledger import Ledger
from elmgrove.federation.merged import Merged
from elmgrove.federation.standing import StandingGroups
from elmgrove.federation.sums import RunningSum
from elmgrove.rounds.compact import CompactModel
from elmgrove.rounds.evaluation import Evaluation, Exam, GlobalModel, models_of
from elmgrove.rounds.messages import (
    COMPACT,
    PLAIN,
    Reply,
    Task,
    contribution_from_bytes,
    require_bits,
)

R = TypeVar("R")


class RoundRule(ABC, Generic[R]):
    """The server's side of a federation in rounds: its messages, and how answers are combined.

    Each round an engine sends ``request`` to some clients, gives each answer to ``read`` (which
    raises, with the reason, if it can't be used) and all that can be used to ``take``. At the end
    each client gets its ``gift``, and ``merged`` is what all of them know together.
    """

    def __init__(self, name: str, basis: Basis, ridge: float = 1e-3) -> None:
        self.task = Task(name, basis, ridge)
        self.rounds = 0

    @property
    def basis(self) -> Basis:
        """The basis that all clients learn with."""
        return self.task.basis

    def request(self) -> bytes:
        """Gives what each client of the next round is sent."""
        return self.task.to_bytes()

    @abstractmethod
    def read(self, origin: str, reply: bytes) -> R | None:
        """Opens a client's reply, and raises if it can't be used; None if it has no rows."""

    def take(self, replies: Sequence[R]) -> None:
        """Combines the replies of one round, given in the order of the clients' names."""
        self.rounds += 1
        self.combine(replies)

    @abstractmethod
    def combine(self, replies: Sequence[R]) -> None:
        """Applies the rule to the replies of one round."""

    @abstractmethod
    def gift(self, origin: str) -> bytes:
        """Gives what a client gets at the end, beside the request."""

    @abstractmethod
    def merged(self) -> Merged:
        """Gives what all clients know together."""

    def models(self) -> tuple[GlobalModel, ...]:
        """Gives the global model, or one for each group; none before the first answer."""
        if not self.rounds:
            return ()
        return models_of(self.merged(), self.task.ridge)

    def evaluate(self, exam: Exam) -> Evaluation | None:
        """Tests the global model on the server's rows; None before the first answer."""
        return exam.evaluate(self.basis, self.models())


def require_sender(origin: str, stated: str) -> None:
    """Raises ``BadInput`` if a message states another sender than the client it came from."""
    if origin != stated:
        raise BadInput(f"{origin!r} sent a message in the name of {stated!r}")


class SumRule(RoundRule[Contribution]):
    """Adds up evidence (E²LM). One round is enough: the sum is the model of all rows.

    In later rounds a client's newer contribution replaces its older one (``Ledger``), so no row
    counts twice, the next reply makes up for a lost one, and a client that is not drawn again
    stays in the sum. At the end each client gets the sum over the others.
    """

    def __init__(self, name: str, basis: Basis, ridge: float = 1e-3) -> None:
        super().__init__(name, basis, ridge)
        self.ledger = Ledger()
        self._sum = RunningSum(basis)

    def read(self, origin: str, reply: bytes) -> Contribution | None:
        """Opens a contribution, or makes one of a node's β and P (Ito 2020, §3.2).

        Raises ``Mismatch``, ``NotAdmissible``, ``SingularSystem``, ``BadInput`` or ``BadFile`` if
        it can't be used.
        """
        if not reply:
            return None
        contribution = contribution_from_bytes(reply)
        require_sender(origin, contribution.origin)
        # A charter would refuse classifiers: it is for detectors, whose outputs are their inputs.
        for part in contribution.parts:
            require_addable(self.basis, part, f"the evidence of {origin!r}")
        return contribution if contribution.evidence.count > 0.0 else None

    def combine(self, replies: Sequence[Contribution]) -> None:
        """Adds each contribution by equation (8), in place of the same client's earlier one."""
        for contribution in replies:
            before = self.ledger.get(contribution.origin)
            if self.ledger.join(contribution):
                self._sum.change(_evidence(before), contribution.evidence)

    def gift(self, origin: str) -> bytes:
        """Gives the sum over the other clients."""
        own = _evidence(self.ledger.get(origin))
        devices = len(self.ledger) - (own is not None)
        others = self._sum.evidence(without=own)
        return Merged(self.task.federation, self.rounds, devices, (others,)).to_bytes()

    def merged(self) -> Merged:
        """Gives the sum over all clients; ``BadInput`` if no client ever answered.

        It is added up in the order of the names, so every engine gives the same bytes.
        """
        self._require_answers()
        total = Evidence.sum(held.evidence for held in self.ledger)
        return Merged(self.task.federation, self.rounds, len(self.ledger), (total,))

    def _require_answers(self) -> None:
        if not len(self.ledger):
            raise BadInput("no client answered, so there is no model")


def _evidence(entry: Entry | None) -> Evidence | None:
    return entry.evidence if isinstance(entry, Contribution) else None


class AverageRule(RoundRule[Reply]):
    """Averages β and P, weighted by rows (Fed-ELMS), for comparison with ``SumRule``.

    It needs a first batch of at least as many rows as hidden units. A reply that is lost is lost
    with its rows, which the client has thrown away. With 8 ``bits``, models travel as
    ``CompactModel`` both ways: an eighth of the bytes where the layer is large, a quarter where the
    header is most of it, and a client with few rows may change nothing.
    """

    def __init__(self, name: str, basis: Basis, X0: Any, T0: Any, *, bits: int = PLAIN) -> None:
        # Fed-ELMS' P is that of no ridge.
        super().__init__(name, basis, ridge=0.0)
        require_bits(bits)
        self._bits = bits
        self._rows = len(X0)
        self._origins = set[str]()
        self._set_model(first_model(basis.layer, X0, T0))

    def _set_model(self, model: RoundModel) -> None:
        if self._bits == COMPACT:
            small = CompactModel.of(self.basis, model)
            # The server goes on from what it sends, as the clients do.
            self._compact, model = small.to_bytes(), small.state
        self.task = replace(self.task, model=model)

    def request(self) -> bytes:
        """Gives β and P, in a task or compact."""
        return self._compact if self._bits == COMPACT else super().request()

    @property
    def model(self) -> RoundModel:
        """The current β and P."""
        assert self.task.model is not None
        return self.task.model

    def read(self, origin: str, reply: bytes) -> Reply | None:
        """Opens a client's update.

        Raises ``Mismatch``, ``NotAdmissible``, ``BadInput`` or ``BadFile`` if it can't be used.
        """
        if not reply:
            return None
        opened = self._opened(origin, reply)
        require_sender(origin, opened.origin)
        self.basis.require(opened.basis)
        require_invertible(origin, opened.update.P)
        return opened if opened.update.rows else None

    def _opened(self, origin: str, reply: bytes) -> Reply:
        if self._bits != COMPACT:
            return Reply.from_bytes(reply)
        small = CompactModel.from_bytes(reply)
        return Reply(origin, small.basis, small.update)

    def combine(self, replies: Sequence[Reply]) -> None:
        """Replaces β and P by the averages of equations (10) and (11)."""
        self._set_model(fedavg(reply.update for reply in replies))
        self._rows += int(sum(reply.update.rows for reply in replies))
        self._origins |= {reply.origin for reply in replies}

    def models(self) -> tuple[GlobalModel, ...]:
        """Gives the current β, which is there from the first batch on."""
        return (GlobalModel(self.model.beta, self._rows),)

    def gift(self, origin: str) -> bytes:
        """Gives nothing: the request has the model already."""
        return b""

    def merged(self) -> Merged:
        """Gives the evidence that has this β and P, by equation (15): U = P⁻¹, V = Uβ.

        An average is no sum over rows: the energy is the least that is possible, and the number of
        rows says how many went in, not that U has seen them.
        """
        beta, P = self.model
        U = mirrored(Factor(P, 0.0).inverse())
        V = U @ beta
        evidence = Evidence(self.basis, U, V, float(np.vdot(beta, V)), self._rows)
        return Merged(self.task.federation, self.rounds, len(self._origins), (evidence,))


def require_invertible(origin: str, P: Array) -> None:
    """Raises ``NotAdmissible`` if a client's P has no inverse: the average might have none."""
    try:
        Factor(P, 0.0)
    except SingularSystem as error:
        raise NotAdmissible(f"P of {origin!r} is not that of any rows: {error}") from error


class GroupRule(SumRule):
    """Finds groups of patterns (MLMG) in contributions of several parts, and adds up each group.

    At the end a client gets, as ``StandingGroups`` has it, the others' sums of those groups that
    its own patterns belong to; of all groups if it has at least as many patterns. ``count`` asks
    for so many groups, of which there are no more than patterns; without it there are as many as
    the ``distance`` finds.
    """

    def __init__(
        self,
        name: str,
        basis: Basis,
        ridge: float = 1e-3,
        *,
        count: int | None = None,
        distance: str = EVIDENCE,
    ) -> None:
        super().__init__(name, basis, ridge)
        require_distance(distance)
        self._count = count
        self._distance = distance
        # Made when they are asked for, until the next contributions come.
        self._grouping: Grouping | None = None
        self._standing: StandingGroups | None = None

    def combine(self, replies: Sequence[Contribution]) -> None:
        """Replaces the clients' contributions; groups are found when they are asked for."""
        super().combine(replies)
        self._grouping = self._standing = None

    @property
    def grouping(self) -> Grouping:
        """The group of each pattern, by the newest contributions."""
        if self._grouping is None:
            self._grouping = group(self.ledger, self.task.ridge, self._distance, self._groups())
        return self._grouping

    def _groups(self) -> int | None:
        # How many patterns there are shows only when all is learned: too late to refuse.
        patterns = len(local_models(self.ledger))
        return None if self._count is None or not patterns else min(self._count, patterns)

    def gift(self, origin: str) -> bytes:
        """Gives the others' sums of the groups that a client's patterns belong to."""
        if self._standing is None:
            self._standing = StandingGroups(self.basis, self.task.ridge, self.grouping)
        return self._standing.merged(self.task.federation, self.rounds, origin).to_bytes()

    def merged(self) -> Merged:
        """Gives the sum of each group; ``BadInput`` if no client ever answered."""
        self._require_answers()
        sums = tuple(
            Evidence.sum(model.evidence for model in self.grouping.members(number))
            for number in self.grouping.numbers
        )
        devices = len(self.ledger)
        return Merged(self.task.federation, self.rounds, devices, sums, apart=len(sums) > 1)
