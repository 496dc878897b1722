"""First day: an agent that learns from its stream alone, and meets the same fault twice.

Each device of four real sets sees normal rows, its longest labelled stretch, normal rows, and the
same stretch again. What that costs is counted with a second agent, which sees normal rows alone.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from benchmarks.quality.sets import ARCHIVES, Placed, archived, archived_names
from benchmarks.quality.windows import Labels, Matrix
from elmgrove import Detector
from elmgrove.detector.drift import SPIKE
from elmgrove.detector.events import OPENED

SETS = ("SMD", "TEP", "SMAP/MSL", "NAB")
#: The agent's detector is made from so many rows.
MADE_FROM = 300
#: Normal rows before the fault and between it and its return; of the fault at most so many.
BEFORE, BETWEEN, FAULT = 600, 200, 600
#: Normal rows alone, at most.
NORMAL = 4000


class Day(NamedTuple):
    """What an agent made of a fault, of its return, and of normal rows alone."""

    case: Placed
    told: bool
    asked: bool
    told_again: bool
    #: Of the fault's rows, the first time.
    learned: float
    normal_rows: int
    events: int
    questions: int


class Days(NamedTuple):
    """Several devices together; events and questions are in 1,000 normal rows."""

    devices: int
    told: float
    asked: float
    told_again: float
    learned: float
    events: float
    questions: float


class _Seen(NamedTuple):
    told: bool
    learned: float
    events: int
    questions: int


def cases(folder: Path, quick: bool) -> list[Placed]:
    """Lists the devices that have rows enough; in a quick run two of each set."""
    found = []
    for name in (one for one in SETS if (folder / ARCHIVES[one]).exists()):
        known = Placed.all(name, archived_names(name, folder))
        found += [one for one in known if _is_long(one, folder)][: 2 if quick else None]
    return found


def _is_long(one: Placed, folder: Path) -> bool:
    return len(archived(one.set, one.device, folder).train) >= BEFORE + BETWEEN


def lived(case: Placed, folder: Path) -> Day:
    """Shows a device's rows to an agent, and normal rows alone to another."""
    device = archived(case.set, case.device, folder)
    train, fault = device.train, device.test[_longest(device.labels)]
    agent = Detector.for_data(train[:MADE_FROM])
    _seen(agent, train[:BEFORE])
    first = _seen(agent, fault)
    _seen(agent, train[BEFORE : BEFORE + BETWEEN])
    again = _seen(agent, fault)
    alone = _seen(Detector.for_data(train[:MADE_FROM]), train[:NORMAL])
    asked, rows = first.questions > 0, len(train[:NORMAL])
    price = (rows, alone.events, alone.questions)
    return Day(case, first.told, asked, again.told, first.learned, *price)


def together(days: Sequence[Day]) -> Days:
    """Gives the means over devices; events and questions by all their rows."""
    thousands = sum(one.normal_rows for one in days) / 1000
    shares = ("told", "asked", "told_again", "learned")
    means = (fmean(getattr(one, share) for one in days) for share in shares)
    counts = (sum(getattr(one, count) for one in days) for count in ("events", "questions"))
    return Days(len(days), *means, *(count / thousands for count in counts))


def _longest(labels: Labels) -> slice:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], labels, [False]]).astype(int)))
    begin, end = max(edges.reshape(-1, 2).tolist(), key=lambda span: span[1] - span[0])
    return slice(begin, min(end, begin + FAULT))


def _seen(agent: Detector, rows: Matrix) -> _Seen:
    """Observes rows one at a time, as an agent does."""
    told, learned, events, questions = False, 0, 0, 0
    for row in rows:
        verdict = agent.observe(row)
        told |= verdict.anomalous and agent.events.running is not None
        learned += verdict.learned
        events += sum(news.kind == OPENED for news in agent.events.take_updates())
        questions += verdict.drift is not None and verdict.drift.kind != SPIKE
    return _Seen(told, learned / len(rows), events, questions)
