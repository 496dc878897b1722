"""Where anomalous begins: by a rate of false alarms, or a fixed value."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np

from elmgrove.errors import BadInput

if TYPE_CHECKING:
    from elmgrove.detector.decision import Recent

#: A threshold that rises by less stays as it is, in words.
RISES = 1.1
#: The lowest rate of false alarms: one in a year of rows at 30 a second. Nobody waits for less.
LEAST_RATE = 1e-9


@dataclass(frozen=True)
class FalseAlarmRate:
    """The share of normal rows that may be flagged, chosen by the user.

    The threshold is the score that this share of normal rows exceeds, each scored before it was
    learned. It needs at least 1 / rate - 1 of them. Then there are no alarms before counting has
    shown the rate on later rows, to the ``confidence`` stated; at a confidence of 0 nothing need be
    shown.

    Rows refused by a little count as normal ones as long as chance explains their number (up to
    three standard deviations above what the rate predicts). When there are more, something is
    wrong with the rows and not with the threshold: then they do not count. Anomalies that come
    often and lie only a few times above the threshold can still walk it up, a little with each.

    >>> FalseAlarmRate(0.01).minimum
    99
    """

    rate: float = 0.01
    confidence: float = 0.95
    kind: ClassVar[str] = "rate"

    def __post_init__(self) -> None:
        if not LEAST_RATE <= self.rate < 1.0:
            raise BadInput(
                f"the false-alarm rate must lie between 0 and 1, and not below {LEAST_RATE:g}: "
                f"not {self.rate!r}"
            )
        if not 0.0 <= self.confidence < 1.0:
            raise BadInput(f"the confidence must lie between 0 and 1, not {self.confidence!r}")

    @property
    def minimum(self) -> int:
        """Rows without which there is no threshold."""
        return math.ceil(1.0 / self.rate - 1e-9) - 1

    @property
    def fewest(self) -> int:
        """Rows known to be normal without which there is no threshold."""
        return min(self.minimum, 50)

    @property
    def capacity(self) -> int:
        """Scores to keep: enough for the quantile to be steady."""
        return max(4096, 8 * self.minimum)

    def cautious_limit(self, scores: Sequence[float], together: float = 1.0) -> float:
        """Computes the threshold from all the scores there are, in their order: with a margin.

        No third of them may have more above it than stated: what one third shows and the others do
        not may come again. Where they are too few for that, of e = rate·(N + 1) expected above it
        as many fewer are let through as there may be more by chance among later ones, √(e·together)
        where so many come together, but half of e at least.
        """
        size = len(scores) // 3
        if size >= self.minimum:
            thirds = (scores[:size], scores[size:-size], scores[-size:])
            return max(self._limit(some, self.rate * (len(some) + 1)) for some in thirds)
        expected = self.rate * (len(scores) + 1)
        return self._limit(scores, max(expected - math.sqrt(expected * together), expected / 2.0))

    def _limit(self, scores: Sequence[float], above: float) -> float:
        """The score that so many are above; where that is less than one, the tail's estimate.

        By Hill's estimate from the upper quarter, of k scores: x_k·(k / above)^g, where g is the
        mean of log(x_i / x_k) over i < k.
        """
        ordered = sorted(scores)
        if above >= 1.0 - 1e-9:
            return ordered[-math.floor(above + 1e-9)]
        k = min(max(len(ordered) // 4, 1), 100)
        top = np.maximum(ordered[-k - 1 :], np.finfo(np.float64).tiny)
        gamma = float(np.log(top[1:] / top[0]).mean()) * (1.0 + 1.0 / math.sqrt(k))
        return max(float(top[0] * (k / above) ** gamma), ordered[-1])

    def explains(self, recent: "Recent") -> bool:
        """Says whether chance explains the number of rows that were refused by a little."""
        expected = self._expected(recent)
        return len(recent.near_misses) <= expected + 3.0 * math.sqrt(expected)

    def limit(self, recent: "Recent") -> float:
        """The score above which a row is anomalous, by the scores of recent rows."""
        accepted, near_misses, expected = recent.ordered, recent.near_misses, self._expected(recent)
        if not self.explains(recent):
            return accepted[-1]
        above = math.floor(expected + 1e-9)
        return sorted(accepted[-above:] + near_misses)[-above]

    def _expected(self, recent: "Recent") -> float:
        """How many of the recent rows may lie above the threshold."""
        return self.rate * (len(recent.ordered) + len(recent.near_misses) + 1)


@dataclass(frozen=True)
class FixedThreshold:
    """A value that the user knows, in the unit of the scores."""

    value: float
    rate: ClassVar[None] = None
    confidence: ClassVar[float] = 0.0
    kind: ClassVar[str] = "fixed"
    minimum: ClassVar[int] = 0
    fewest: ClassVar[int] = 0
    capacity: ClassVar[int] = 4096

    def __post_init__(self) -> None:
        if not 0.0 <= self.value < math.inf:
            raise BadInput(f"a threshold must be a finite number of at least 0, not {self.value!r}")

    def limit(self, recent: "Recent") -> float:
        """The value."""
        return self.value


#: Any of the ways to say where anomalous begins.
Threshold = FalseAlarmRate | FixedThreshold


def threshold_fields(threshold: Threshold) -> dict[str, Any]:
    return {"kind": threshold.kind, **asdict(threshold)}


def threshold_from_fields(fields: dict[str, Any]) -> Threshold:
    kinds: dict[str, type[Threshold]] = {kind.kind: kind for kind in get_args(Threshold)}
    return kinds[fields["kind"]](**{k: v for k, v in fields.items() if k != "kind"})
