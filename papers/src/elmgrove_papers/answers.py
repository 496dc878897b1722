"""Two rankings of rows: how anomalous at a device, and how anomalous wherever they are known best.

Both come from the same models: each device's own. Verdicts follow the first. By ``unknown`` the
rank is the lowest false-alarm rate by which the row is still anomalous here and at each device
that is asked.
"""

from collections.abc import Callable

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector import TRUSTED, Detector, FalseAlarmRate
from elmgrove_papers.fleet import Fleet

#: The names of both in figures.
ANOMALOUS, UNKNOWN = "anomalous", "unknown"
#: Scores rows.
Score = Callable[[Array], Array]
#: The rarity above which a row is anomalous, at the rate that detectors have unless told.
RARE = -float(np.log10(FalseAlarmRate().rate)) - 1e-9
# The first rows of all have no distance yet.
_LEAST = float(np.finfo(float).eps)


def anomalous(fleet: Fleet, name: str) -> Score:
    """Gives how anomalous rows are to a device by its own model: its scores."""
    return fleet.detector(name).score_many


def unknown(fleet: Fleet, name: str) -> Score:
    """Gives how rare rows are to the device that knows them best: this one, or one that it asks.

    As in verdicts, another's threshold counts at most as ``TRUSTED`` times one's own, at each rate.
    """
    here = fleet.detector(name)
    others = [fleet.detector(other.name) for other in here.elsewhere.others]

    def score(rows: Array) -> Array:
        lowest = rarity(here, here.score_many(rows))
        for other in others:
            scores = other.score_many(rows)
            there = np.maximum(rarity(other, scores), rarity(here, scores / TRUSTED))
            lowest = np.minimum(lowest, there)
        return lowest

    return score


def rarity(detector: Detector, scores: Array) -> Array:
    """Says how rare scores are among those that are normal for a device: 2 is one in a hundred.

    At a false-alarm rate of 1 % rows are anomalous there exactly from 2 on, by ``FalseAlarmRate``'s
    rule, once the margin is gone that a threshold has after ``learn``; no rate tells scores above
    all normal ones apart, so there they count themselves.
    """
    normal = np.array(detector.gate.recent.ordered)
    as_anomalous = len(normal) - np.searchsorted(normal, scores)
    above = np.maximum(scores / max(normal[-1], _LEAST), 1.0)
    found: Array = np.log10((len(normal) + 1) / (as_anomalous + 1) * above)
    return found
