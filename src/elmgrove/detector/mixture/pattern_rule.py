"""The rule by which the patterns of a device come, go and answer."""

from dataclasses import asdict, dataclass
from typing import Any

from elmgrove.algebra import Basis, usual_tolerance
from elmgrove.detector.model import MOST_PARTS
from elmgrove.errors import BadInput, require_whole

AUTO = "auto"
#: What decides which pattern a row belongs to.
ASSIGNMENTS = ("centroid", "loss")
#: How scores of patterns are compared.
COMPARISONS = ("typical", "raw")
TYPICAL, RAW = COMPARISONS
#: What patterns of others are to one's own.
OTHERS = ("beside", "instead")
BESIDE, INSTEAD = OTHERS
#: What a rule may be told in words.
CHOICES = {"assign": ASSIGNMENTS, "compare": COMPARISONS, "others": OTHERS}


@dataclass(frozen=True)
class PatternRule:
    """How many patterns there are, and which row belongs to which.

    ``patterns``: ``"auto"`` lets the first ``start_rows`` rows decide (one if no silhouette reaches
    ``silhouette``) and later ones add to it, never above ``most``; a number fixes it. ``assign``:
    a row belongs to the nearest ``centroid``, or to the model with the lowest ``loss``. ``join``:
    two patterns become one when one model explains both as well, up to this share of the error (or
    of the distance); None is what suits the score, 0.02 or 0.1; 0 never joins.
    ``retire_after``: a pattern that got none of so many rows is put aside; 0 never does.

    ``compare``: a row is answered by the pattern with the lowest score in proportion to what is
    ``typical`` of it, or with the lowest ``raw`` one (MLMG, Ito 2019), where patterns that are hard
    to explain hardly ever answer. By distance there is no difference. ``others``: patterns that
    only others know answer ``beside`` one's own; or what comes back of a group answers ``instead``
    of the patterns in it, and what is in no group with them is not used (MLMG, Algorithm 3).
    """

    patterns: int | str = AUTO
    most: int = 5
    start_rows: int = 256
    silhouette: float = 0.1
    assign: str = "centroid"
    join: float | None = None
    retire_after: int = 0
    compare: str = TYPICAL
    others: str = BESIDE

    @property
    def fields(self) -> dict[str, Any]:
        """The rule as JSON holds it; choices that earlier states did not have, if they were made.

        ``PatternRule(**fields)`` makes it again.
        """
        usual = {"compare": TYPICAL, "others": BESIDE}
        return {name: value for name, value in asdict(self).items() if usual.get(name) != value}

    def tolerance(self, basis: Basis) -> float:
        """Gives what joining two patterns may lose."""
        return usual_tolerance(basis) if self.join is None else self.join

    def __post_init__(self) -> None:
        if self.patterns != AUTO:
            require_whole("patterns", self.patterns, 1)
        if max(self.most, 1 if self.patterns == AUTO else int(self.patterns)) > MOST_PARTS:
            raise BadInput(f"there can't be more than {MOST_PARTS} patterns")
        for name, least in (("most", 1), ("start_rows", 2), ("retire_after", 0)):
            require_whole(name, getattr(self, name), least)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise BadInput(
                    f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}"
                )
        if not -1.0 <= self.silhouette <= 1.0:
            raise BadInput(f"silhouette must lie between -1 and 1, not {self.silhouette}")
        if not (self.join is None or self.join >= 0.0):
            raise BadInput(f"join must be at least 0, not {self.join}")
