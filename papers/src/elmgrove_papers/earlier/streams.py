"""Streams in which what is normal changes: one pattern after another, and rows to judge with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.answers import Score
from elmgrove_papers.data import Labelled, Recording
from elmgrove_papers.data.fans import NORMAL
from elmgrove_papers.measures import auc

#: Which rows of a run through high, medium and low are at which speed; some are between.
SPEEDS = {"h": (0, 57), "m": (61, 116), "l": (120, 172)}
THROUGH = "hmlo"


@dataclass(frozen=True)
class Phase:
    """A time in which one pattern is normal: rows as they come, and others like them to judge."""

    name: str
    rows: Array
    tested: Array


@dataclass(frozen=True)
class Stream:
    """Phases, one after another, and rows that are normal in none of them."""

    phases: tuple[Phase, ...]
    anomalous: Array

    def newest(self, score: Score, place: int) -> float:
        """Gives the ROC-AUC where the phase's pattern alone is normal, and no other one."""
        now = self.phases[place]
        others = [phase.tested for phase in self.phases if phase.name != now.name]
        return auc(score(now.tested), score(np.vstack([*others, self.anomalous])))

    def so_far(self, score: Score, place: int) -> float:
        """Gives the ROC-AUC where all patterns up to this phase are normal."""
        known = self.known(place)
        names = {phase.name for phase in self.phases[: place + 1]}
        others = [phase.tested for phase in self.phases if phase.name not in names]
        return auc(score(known), score(np.vstack([*others, self.anomalous])))

    def known(self, place: int) -> Array:
        """Gives rows to judge of all patterns up to this phase, each pattern's once."""
        patterns = {phase.name: phase.tested for phase in self.phases[: place + 1]}
        return np.vstack(list(patterns.values()))


def activities(data: Labelled, order: Sequence[int], most: int) -> Stream:
    """Makes a stream of HAR: these activities one after another; the others are never normal.

    At most so many rows of each, in the order of the file; those to judge are of other people.
    """
    phases = tuple(
        Phase(
            data.names[label],
            data.train[data.train_label == label][:most],
            data.test[data.test_label == label],
        )
        for label in order
    )
    return Stream(phases, data.test[~np.isin(data.test_label, order)])


def fan_speeds(known: Sequence[Recording], size: str, rooms: Sequence[str]) -> Stream:
    """Makes a stream of a fan: its steady speeds one after another, room by room.

    Rows to judge are those of runs through the speeds, which step at about rows 59 and 118; what
    is never normal are the runs of damaged fans in these rooms.
    """
    mine = [one for one in known if one.size == size and one.room in rooms]
    phases = []
    for room in rooms:
        for speed, (start, end) in SPEEDS.items():
            steady, runs = (
                [one.rows for one in mine if _is(one, room, kind)] for kind in (speed, THROUGH)
            )
            tested = np.vstack([rows[start:end] for rows in runs])
            phases.append(Phase(f"{speed}, {room}", np.vstack(steady), tested))
    damaged = np.vstack([one.rows for one in mine if one.damage != NORMAL])
    return Stream(tuple(phases), damaged)


def _is(one: Recording, room: str, speed: str) -> bool:
    return (one.room, one.speed, one.damage) == (room, speed, NORMAL)
