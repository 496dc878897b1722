"""MLMG in rounds: patterns of one kind are summed, and each client gets those of its kinds."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from elmgrove.basis import Basis
from elmgrove.cooperation import Contribution, Grouping, Local, Merged, group, returned
from elmgrove.engines.summing import Summing
from elmgrove.evidence import Evidence


class Matching(Summing):
    """Contributions have one evidence for each pattern; ``cooperation.group`` tells the kinds.

    At the end a client gets, by ``cooperation.returned``, the sums over the others' patterns of
    those groups that its own models belong to; all groups where it has at least as many models.
    ``count`` asks for so many groups; without it there are as many as one model can't explain.
    """

    def __init__(
        self, name: str, basis: Basis, ridge: float = 1e-3, *, count: int | None = None
    ) -> None:
        super().__init__(name, basis, ridge)
        self._count = count

    def combine(self, replies: Sequence[Contribution]) -> None:
        """As E²LM; the groups are told apart when they are asked for."""
        super().combine(replies)
        self.__dict__.pop("grouping", None)

    @cached_property
    def grouping(self) -> Grouping:
        """Who is of one kind with whom, by the newest contributions."""
        return group(self.ledger, self.task.ridge, count=self._count)

    def gift(self, origin: str) -> bytes:
        """The sums over the others of each group that is matched back."""
        places = returned(self.grouping).get(origin, range(self.grouping.count))
        others = [
            [model for model in self.grouping.members(number) if model.origin != origin]
            for number in sorted({place for place in places if place is not None})
        ]
        return self._merged(others).to_bytes()

    def merged(self) -> Merged:
        """All groups."""
        self._total()  # refuses where nobody answered
        return self._merged(map(self.grouping.members, range(self.grouping.count)))

    def _merged(self, groups: Iterable[Sequence[Local]]) -> Merged:
        known = [members for members in groups if members]
        sums = tuple(Evidence.sum(model.evidence for model in members) for members in known)
        devices = len({model.origin for members in known for model in members})
        total = Evidence.sum(sums) if sums else Evidence.zero(self.basis)
        several = sums if len(sums) > 1 else ()
        return Merged(self.task.federation, self.rounds, devices, total, several)
