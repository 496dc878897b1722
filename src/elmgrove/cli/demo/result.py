"""What the demo shows: losses and ROC-AUC, as tables and as a picture."""

from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table as Grid

from elmgrove.cli.demo.digits import Digits
from elmgrove.detector import Detector
from elmgrove.errors import require_extra


@dataclass(frozen=True)
class Result:
    """One device on the test rows: mean loss by kind of digit, and ROC-AUC."""

    own: float
    peers: float
    unknown: float
    auc: float

    @classmethod
    def of(cls, detector: Detector, digit: int, known: set[int], data: Digits) -> "Result":
        scores, digits = detector.score_many(data.test), data.test_digit
        normal = np.isin(digits, sorted(known))
        parts = (digits == digit, normal & (digits != digit), ~normal)
        auc = require_extra("sklearn.metrics", "demo").roc_auc_score(~normal, scores)
        own, peers, unknown = (float(scores[part].mean()) for part in parts)
        return cls(own, peers, unknown, float(auc))


def loss_on(detector: Detector, digit: int, data: Digits) -> float:
    """Mean loss on the test rows of one digit."""
    return float(detector.score_many(data.test[data.test_digit == digit]).mean())


def cooperation_grid(names: list[str], before: list[Result], after: list[Result]) -> Grid:
    """Before and after, one line a device."""
    grid = Grid(title="Mean loss on test rows, and ROC-AUC: before → after cooperation")
    for heading in ("device", "its digit", "peers' digits", "unknown digits", "ROC-AUC"):
        grid.add_column(heading, justify="right")
    for name, old, new in zip(names, before, after, strict=True):
        pairs = zip(astuple(old), astuple(new), strict=True)
        grid.add_row(name, *(f"{a:.3f} → {b:.3f}" for a, b in pairs))
    return grid


def departure_grid(gone: str, losses: dict[str, tuple[float, float, float]]) -> Grid:
    """What the others know of the digit of a device that left."""
    grid = Grid(title=f"Mean loss on the digit of {gone}")
    for heading in ("device", "alone", f"with {gone}", f"after {gone} left"):
        grid.add_column(heading, justify="right")
    for name, values in losses.items():
        grid.add_row(name, *(f"{value:.3f}" for value in values))
    return grid


def draw(names: list[str], before: list[Result], after: list[Result], path: Path) -> None:
    """Losses and ROC-AUC as bars."""
    require_extra("matplotlib", "demo").use("Agg")
    figure, (left, right) = require_extra("matplotlib.pyplot", "demo").subplots(
        1, 2, figsize=(10, 4)
    )
    place = np.arange(len(names))
    for shift, label, results in ((-0.2, "before", before), (0.2, "after", after)):
        left.bar(place + shift, [r.peers for r in results], 0.4, label=label)
        right.bar(place + shift, [r.auc for r in results], 0.4, label=label)
    left.axhline(np.mean([r.unknown for r in after]), color="grey", linestyle="--")
    left.set_title("Loss on the peers' digits\n(dashed: on digits that nobody knows, after)")
    right.set_title("ROC-AUC: digits that somebody knows\nagainst unknown ones (dashed: chance)")
    right.axhline(0.5, color="grey", linestyle="--")
    right.set_ylim(0, 1)
    for axes, label in ((left, "mean loss"), (right, "ROC-AUC")):
        axes.set_xticks(place, names)
        axes.set_ylabel(label)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def numbers(before: list[Result], after: list[Result]) -> dict[str, Any]:
    """For the JSON file."""
    return {"before": [asdict(r) for r in before], "after": [asdict(r) for r in after]}
