"""MLMG in rounds: patterns of one kind are summed, and each client gets those of its kinds."""

from collections.abc import Sequence
from functools import cached_property

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.engines.summing import Summing
from elmgrove.federation import Contribution, Grouping, Merged, StandingGroups, group
from elmgrove.federation.groups import EVIDENCE, local_models, require_distance


class Matching(Summing):
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
        several = sums if len(sums) > 1 else ()
        devices = len(self.ledger)
        return Merged(self.task.federation, self.rounds, devices, Evidence.sum(sums), several)
