"""Whether one model can stand for two sets of rows, from their evidence alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from elmgrove.evidence import Evidence


@dataclass(frozen=True)
class Kind:
    """Evidence of rows of one kind, and what a model of them alone leaves unexplained."""

    evidence: Evidence
    ridge: float
    error: float = field(init=False)

    def __post_init__(self) -> None:
        # Below this, an error is rounding.
        floor = 1e-12 * max(self.evidence.energy, 0.0)
        error = self.evidence.error_of(self.evidence.solve(self.ridge))
        object.__setattr__(self, "error", max(error, floor))

    def __add__(self, other: "Kind") -> "Kind":
        return Kind(self.evidence + other.evidence, self.ridge)

    def loss_with(self, other: "Kind") -> float:
        """By how much the error on the rows of the worse off grows if one model serves both."""
        joint = (self.evidence + other.evidence).solve(self.ridge)
        pairs = ((part.evidence.error_of(joint), part.error) for part in (self, other))
        return max((after / before - 1.0 if before > 0.0 else 0.0) for after, before in pairs)


def groups(kinds: Sequence[Kind], tolerance: float) -> list[list[int]]:
    """Which of them are one: joins the two that lose least, while that is within ``tolerance``.

    0.05 lets the squared error on anybody's rows grow by a twentieth in each step. Exact, and
    without a row (``error_of``). Few rows are explained too well by their own model and join
    late rather than early. The order does not matter but for exact ties. Takes some N² solutions.
    """
    joined, members = list(kinds), [[index] for index in range(len(kinds))]
    losses = {(i, j): joined[i].loss_with(joined[j]) for j in range(len(joined)) for i in range(j)}
    while losses and min(losses.values()) <= tolerance:
        i, j = min(losses, key=lambda pair: losses[pair])
        joined[i], members[i], members[j] = joined[i] + joined[j], members[i] + members[j], []
        losses = {pair: loss for pair, loss in losses.items() if j not in pair}
        for k in (k for k in range(len(joined)) if members[k] and k != i):
            losses[min(i, k), max(i, k)] = joined[i].loss_with(joined[k])
    return [sorted(group) for group in members if group]
