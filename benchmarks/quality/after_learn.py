"""After learn: a device is taught its normal rows at once, and then has to tell later ones.

They are judged in two ways: by score, with the threshold as it was after learning, as
``elmgrove score`` does; and as an agent's stream, which learns on.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from benchmarks.quality import sets
from benchmarks.quality.sets import Placed
from benchmarks.quality.windows import Labels
from elmgrove import Detector
from elmgrove.detector.decision import LEARNING

#: Sets of the data folder, and others; the rows of the latter have no order.
ARCHIVED = ("SMD", "TEP", "SMAP/MSL", "NAB", "C-MAPSS")
UNORDERED = ("digits", "breast cancer")
#: Of a server's test rows the first so many are judged.
SERVER_ROWS = 12000


class Alarms(NamedTuple):
    """The shares of normal and of anomalous rows that are above the threshold."""

    false: float
    recall: float | None

    @classmethod
    def of(cls, flags: Labels, anomalous: Labels, judged: Labels) -> "Alarms":
        """Counts flags among the rows that are judged."""
        found, normal = flags[judged & anomalous], flags[judged & ~anomalous]
        return cls(float(normal.mean()), float(found.mean()) if len(found) else None)


class Taught(NamedTuple):
    """What a device told after it was taught."""

    case: Placed
    watches: bool
    by_score: Alarms
    as_stream: Alarms


class Together(NamedTuple):
    """Several devices together: false alarms' median and mean, and the mean recall."""

    median: float
    mean: float
    recall: float

    @classmethod
    def of(cls, found: Sequence[Alarms]) -> "Together":
        """Puts devices together; recall is of those with anomalous rows."""
        false = [one.false for one in found]
        return cls(median(false), fmean(false), fmean(r for _, r in found if r is not None))


def cases(folder: Path | None, quick: bool) -> list[Placed]:
    """Lists the devices of the sets that are there; in a quick run two of each."""
    found: list[Placed] = []
    for name in (*ARCHIVED, *UNORDERED):
        if name in UNORDERED:
            names = list(sets.devices_of(name, Path(), quick))
        elif folder is not None and (folder / sets.ARCHIVES[name]).exists():
            names = sets.archived_names(name, folder)
        else:
            continue
        found += Placed.all(name, names)[: 2 if quick else None]
    return found


def taught(case: Placed, folder: Path) -> Taught:
    """Teaches a device its rows to learn, and judges later ones in both ways."""
    device = _device(case, folder)
    detector = Detector.for_data(device.train)
    detector.learn_many(device.train)
    watches = detector.state != LEARNING
    judged = np.ones(len(device.test), bool) if device.judged is None else device.judged
    whole = np.arange(len(device.test)) >= detector.window - 1
    above = detector.score_many(device.test) > detector.threshold
    by_score = Alarms.of(above, device.labels, judged & whole)
    told = np.array([one.anomalous for one in detector.observe_many(device.test)])
    return Taught(case, watches, by_score, Alarms.of(told, device.labels, judged))


def _device(case: Placed, folder: Path) -> sets.Device:
    if case.set in UNORDERED:
        known = sets.devices_of(case.set, Path(), False)[case.device]
        return known.testing(np.random.default_rng(0).permutation(len(known.test)))
    found = sets.archived(case.set, case.device, folder)
    return found.testing(np.arange(SERVER_ROWS)) if case.set == "SMD" else found
