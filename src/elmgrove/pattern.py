"""One normal pattern of a device, and the rule by which patterns come and go."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput
from elmgrove.evidence import Evidence
from elmgrove.hidden import whole_number
from elmgrove.oselm import OSELM
from elmgrove.part import Part

Array = NDArray[Any]
AUTO = "auto"
ASSIGNMENTS = ("centroid", "loss")


@dataclass(frozen=True)
class PatternRule:
    """How many patterns there are, and which row belongs to which.

    ``patterns``: ``"auto"`` lets the first ``start_rows`` rows decide (up to ``most``; one if no
    silhouette reaches ``silhouette``), a number fixes it. ``assign``: a row belongs to the nearest
    ``centroid``, or to the model with the lowest ``loss``. ``join``: two patterns become one when
    one model explains both as well, up to this share of the error; 0 never joins.
    ``retire_after``: a pattern that got none of so many rows is put aside; 0 never does.
    ``handicap``: how much worse errors of foreign patterns count.
    """

    patterns: int | str = AUTO
    most: int = 5
    start_rows: int = 256
    silhouette: float = 0.1
    assign: str = "centroid"
    join: float = 0.02
    retire_after: int = 0
    handicap: float = 2.0

    def __post_init__(self) -> None:
        if self.patterns != AUTO:
            whole_number("patterns", self.patterns, 1)
        for name, least in (("most", 1), ("start_rows", 2), ("retire_after", 0)):
            whole_number(name, getattr(self, name), least)
        if self.assign not in ASSIGNMENTS:
            raise BadInput(f"assign must be one of {', '.join(ASSIGNMENTS)}, not {self.assign!r}")
        if not -1.0 <= self.silhouette <= 1.0:
            raise BadInput(f"silhouette must lie between -1 and 1, not {self.silhouette}")
        if not (self.join >= 0.0 and self.handicap >= 1.0):
            raise BadInput("join must be at least 0, and handicap at least 1")


@dataclass(frozen=True)
class Joined:
    """What a pattern was when it was joined to another one."""

    number: int
    evidence: Evidence
    total: Array
    count: float
    learned: int


class Pattern:
    """A model of rows that are alike, and where they lie: sums, so that both can be merged."""

    def __init__(self, number: int, model: OSELM) -> None:
        self.number = number
        self.model = model
        #: Σ x and how many, of the rows learned here; the centroid is their quotient.
        self.total: Array = np.zeros(model.basis.layer.inputs)
        self.count = 0.0
        #: Rows learned here since the start, forgotten or not.
        self.learned = 0
        #: Rows that went to other patterns since the last that came here.
        self.idle = 0
        #: Patterns that became part of this one.
        self.joined: list[Joined] = []

    @property
    def part(self) -> Part:
        """What was learned here, to be given away."""
        includes = tuple(sorted(joined.number for joined in self.joined))
        return Part(self.number, self.learned, self.model.evidence, includes)

    @property
    def centroid(self) -> Array:
        """Where its rows lie in the middle."""
        return self.total / max(self.count, 1.0)

    def move(self, x: Array) -> None:
        """Lets the centroid follow a row; as fast as the model forgets."""
        keep = self.model.forgetting
        self.total = keep * self.total + x
        self.count = keep * self.count + 1.0
        self.learned += 1

    def take_in(self, other: "Pattern") -> None:
        """Makes another pattern part of this one."""
        evidence = other.model.evidence
        self.model.merge(evidence)
        self.total, self.count = self.total + other.total, self.count + other.count
        self.idle = min(self.idle, other.idle)
        self.learned += other.learned
        self.joined.append(Joined(other.number, evidence, other.total, other.count, other.learned))
        self.joined += other.joined

    def release(self, joined: Joined, into: "Pattern") -> None:
        """Takes what was joined out again, exactly, and puts it into a pattern of its own."""
        self.model.subtract(joined.evidence)
        into.model.merge(joined.evidence)
        into.total, into.count, into.learned = joined.total, joined.count, joined.learned
        self.learned -= joined.learned
        self.total, self.count = self.total - joined.total, self.count - joined.count
        self.joined.remove(joined)
