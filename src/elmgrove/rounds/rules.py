"""Rules of federations in rounds, as the server has them: what is asked, taken and given."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from elmgrove.algebra import Basis, Evidence, Factor, RoundModel, fedavg, first_model, mirrored
from elmgrove.errors import BadInput, NotAdmissible, SingularSystem
from elmgrove.federation import (
    EVIDENCE,
    Contribution,
    Entry,
    Grouping,
    Ledger,
    Merged,
    RunningSum,
    StandingGroups,
    group,
    local_models,
    require_addable,
    require_distance,
)
from elmgrove.rounds.compact import CompactModel
from elmgrove.rounds.messages import Reply, Task

R = TypeVar("R")


class RoundRule(ABC, Generic[R]):
    """One rule of cooperation with its messages, whatever carries them.

    Each round an engine sends ``request`` to some clients, lets ``read`` look at what each
    answered (it raises, with the reason, what can't be used) and ``take`` combine the rest. At
    the end ``gift`` is what a client gets, and ``merged`` what all of them know together.
    """

    def __init__(self, name: str, basis: Basis, ridge: float = 1e-3) -> None:
        self.task = Task(name, basis, ridge)
        self.rounds = 0

    @property
    def basis(self) -> Basis:
        """What everybody learns with."""
        return self.task.basis

    def request(self) -> bytes:
        """What each client of the next round is sent."""
        return self.task.to_bytes()

    @abstractmethod
    def read(self, origin: str, reply: bytes) -> R | None:
        """What a client answered; None where it has no rows."""

    def take(self, replies: Sequence[R]) -> None:
        """The rule, applied to the replies of one round, in the order of the clients' names."""
        self.rounds += 1
        self.combine(replies)

    @abstractmethod
    def combine(self, replies: Sequence[R]) -> None:
        """What the rule makes of these."""

    @abstractmethod
    def gift(self, origin: str) -> bytes:
        """What a client gets at the end, beside the request."""

    @abstractmethod
    def merged(self) -> Merged:
        """What all clients know together."""


def require_sender(origin: str, stated: str) -> None:
    """Raises ``BadInput`` for a message in somebody else's name."""
    if origin != stated:
        raise BadInput(f"a message of {stated!r} that came from {origin!r}")


class SumRule(RoundRule[Contribution]):
    """One round is enough: the sum is the model of all rows, however they are split.

    In later rounds a client's newer contribution takes the place of its older one (``Ledger``), so
    no row counts twice, a lost reply is made good by the next, and a client that is not drawn
    again keeps its part. At the end each gets the sum over the others.
    """

    def __init__(self, name: str, basis: Basis, ridge: float = 1e-3) -> None:
        super().__init__(name, basis, ridge)
        self.ledger = Ledger()
        self._sum = RunningSum(basis)

    def read(self, origin: str, reply: bytes) -> Contribution | None:
        """The contribution; ``Mismatch``, ``NotAdmissible`` or ``BadFile`` if it can't be used."""
        if not reply:
            return None
        contribution = Contribution.from_bytes(reply)
        require_sender(origin, contribution.origin)
        # A charter would refuse classifiers: it is for detectors, whose outputs are their inputs.
        for part in contribution.parts:
            require_addable(self.basis, part, f"the evidence of {origin!r}")
        return contribution if contribution.evidence.count > 0.0 else None

    def combine(self, replies: Sequence[Contribution]) -> None:
        """Equation (8): each takes the place of what the same client said before."""
        for contribution in replies:
            before = self.ledger.get(contribution.origin)
            if self.ledger.join(contribution):
                self._sum.change(_evidence(before), contribution.evidence)
        self._sum.freshen(held.evidence for held in self.ledger)

    def gift(self, origin: str) -> bytes:
        """The sum over the others."""
        without = _evidence(self.ledger.get(origin))
        devices = len(self.ledger) - (without is not None)
        return Merged(
            self.task.federation, self.rounds, devices, (self._sum.evidence(without),)
        ).to_bytes()

    def merged(self) -> Merged:
        """The sum over all, taken afresh in the order of the names: the same on every engine.

        ``BadInput`` if nobody ever answered.
        """
        return Merged(self.task.federation, self.rounds, len(self.ledger), (self._total(),))

    def _total(self) -> Evidence:
        total = self.ledger.total()
        if total is None:
            raise BadInput("no client answered, so there is no model")
        return total


def _evidence(entry: Entry | None) -> Evidence | None:
    return entry.evidence if isinstance(entry, Contribution) else None


#: Bits of a number in a message: as it is, and in a compact model.
PLAIN, COMPACT = 64, 8


class AverageRule(RoundRule[Reply]):
    """β and P go down, βᵏ and Pᵏ come up, and the average weighted by rows takes their place.

    It needs a first batch of at least as many rows as hidden units. A reply that is lost is lost
    with its rows: the client has thrown them away. For comparison with ``SumRule``. With 8
    ``bits``, models travel as ``CompactModel`` both ways: an eighth of the bytes where the layer is
    large, a quarter where the header weighs, and a client with few rows may change nothing. A
    client answers as it was asked.
    """

    def __init__(self, name: str, basis: Basis, X0: Any, T0: Any, *, bits: int = PLAIN) -> None:
        # P is that of no ridge at all.
        super().__init__(name, basis, ridge=0.0)
        require_bits(bits)
        self._bits = bits
        self._rows = len(X0)
        self._origins = set[str]()
        self._begin(first_model(basis.layer, X0, T0))

    def _begin(self, model: RoundModel) -> None:
        if self._bits == COMPACT:
            small = CompactModel.of(self.basis, model)
            # Nobody has more than what is sent, the server neither.
            self._request, model = small.to_bytes(), small.state
        self.task = replace(self.task, model=model)

    def request(self) -> bytes:
        """β and P, in a task or compact."""
        return self._request if self._bits == COMPACT else super().request()

    @property
    def model(self) -> RoundModel:
        """β and P as they are now."""
        assert self.task.model is not None
        return self.task.model

    def read(self, origin: str, reply: bytes) -> Reply | None:
        """The update; ``Mismatch``, ``NotAdmissible`` or ``BadFile`` if it can't be used."""
        if not reply:
            return None
        made = self._opened(origin, reply)
        require_sender(origin, made.origin)
        self.basis.require(made.basis)
        try:
            Factor(made.update.P, 0.0)
        except SingularSystem as error:
            # One of these in the average, and nobody could go on from it.
            raise NotAdmissible(f"P of {origin!r} is that of no rows: {error}") from error
        return made if made.update.rows else None

    def _opened(self, origin: str, reply: bytes) -> Reply:
        if self._bits != COMPACT:
            return Reply.from_bytes(reply)
        small = CompactModel.from_bytes(reply)
        return Reply(origin, small.basis, small.update)

    def combine(self, replies: Sequence[Reply]) -> None:
        """Equations (10) and (11)."""
        self._begin(fedavg(reply.update for reply in replies))
        self._rows += int(sum(reply.update.rows for reply in replies))
        self._origins |= {reply.origin for reply in replies}

    def gift(self, origin: str) -> bytes:
        """Nothing beyond the request, which has the model."""
        return b""

    def merged(self) -> Merged:
        """The evidence that has this β and P, by equation (15): U = P⁻¹, V = Uβ.

        An average is no sum over rows: the energy is the least that is possible, and the number of
        rows says how many went in, not that U has seen them.
        """
        beta, P = self.model
        U = mirrored(Factor(P, 0.0).inverse())
        V = U @ beta
        evidence = Evidence(self.basis, U, V, float(np.vdot(beta, V)), self._rows)
        return Merged(self.task.federation, self.rounds, len(self._origins), (evidence,))


def require_bits(bits: int) -> None:
    """Raises ``BadInput`` unless messages can be of that width."""
    if bits not in (PLAIN, COMPACT):
        raise BadInput(f"bits must be {COMPACT} or {PLAIN}, not {bits}")


class GroupRule(SumRule):
    """Contributions have one evidence for each pattern; ``federation.group`` tells the kinds.

    At the end a client gets, as ``StandingGroups`` has it, the sums over the others' patterns of
    those groups that its own models belong to; all groups where it has at least as many models.
    ``count`` asks for so many groups, of which there are no more than patterns; without it there
    are as many as the ``distance`` finds.
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

    def combine(self, replies: Sequence[Contribution]) -> None:
        """As E²LM; the groups are told apart when they are asked for."""
        super().combine(replies)
        self.__dict__.pop("grouping", None)
        self.__dict__.pop("_standing", None)

    @cached_property
    def grouping(self) -> Grouping:
        """Who is of one kind with whom, by the newest contributions."""
        # How many patterns there are shows only when all is learned: too late to refuse.
        patterns = len(local_models(self.ledger))
        count = None if self._count is None or not patterns else min(self._count, patterns)
        return group(self.ledger, self.task.ridge, self._distance, count)

    @cached_property
    def _standing(self) -> StandingGroups:
        return StandingGroups(self.basis, self.task.ridge, self.grouping)

    def gift(self, origin: str) -> bytes:
        """The sums over the others of each group that is matched back."""
        return self._standing.merged(self.task.federation, self.rounds, origin).to_bytes()

    def merged(self) -> Merged:
        """All groups."""
        self._total()  # refuses where nobody answered
        sums = tuple(
            Evidence.sum(model.evidence for model in self.grouping.members(number))
            for number in self.grouping.numbers
        )
        devices, apart = len(self.ledger), len(sums) > 1
        return Merged(self.task.federation, self.rounds, devices, sums, apart=apart)
