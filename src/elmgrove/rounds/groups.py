"""The rule of groups, on the server's side: patterns of several clients that one model explains."""

from collections.abc import Sequence

from elmgrove.algebra import Basis, Evidence
from elmgrove.federation import (
    EVIDENCE,
    Contribution,
    Grouping,
    Merged,
    StandingGroups,
    group,
    local_models,
    require_distance,
)
from elmgrove.rounds.rules import SumRule


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
