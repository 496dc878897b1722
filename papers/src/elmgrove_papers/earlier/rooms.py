"""Sunaga 2023: a fan's model is trained in one room, deployed in another, and retrained there.

Sunaga, Kondo and Matsutani, "Addressing Gap between Training Data and Deployed Environment by
On-Device Learning" (IEEE Micro 2023; arXiv 2203.01077). At hand were its abstract, its introduction
and its data, not its algorithm nor its settings. Taken from there: several OS-ELM autoencoders
learn normal rows one by one, and go on to do so where they are deployed; anomalies are damaged
fans; the comparison is with a model that only predicts. Ours, since not at hand: one instance for
each speed, a row goes to the one of the lowest loss, 32 units (as in ``mlmg fans``), which rows are
learned and judged, and all that is not in the paper: distance, forgetting, a peer.

A device learns the three steady speeds, and is judged by runs through them, of which it learns no
row. The new room's steady recordings are cut in two: a peer learned the earlier half, the device
retrains with the later one, speed by turns, so that each number of rows has all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra import Array, Basis, HiddenLayer
from elmgrove.detector import Detector
from elmgrove_papers.answers import Score, unknown
from elmgrove_papers.data import Recording, recordings
from elmgrove_papers.data.fans import NORMAL
from elmgrove_papers.earlier.instances import Instances
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.measures import auc

#: The fan of which damaged ones were recorded, its steady speeds, and its run through all of them.
SIZE, STEADY, THROUGH = "12cm", ("h", "m", "l"), "hmlo"
DAMAGES = ("damage1", "damage2")
#: Where a device is trained, and where it is deployed; the last move is between silent rooms.
MOVES = (("silentA", "noisy"), ("silentB", "noisy"), ("silentA", "silentB"))
#: Rows of the new room after which a device is judged; as many as there are come last.
STEPS = (0, 10, 30, 60, 100, 200)
BEFORE = "before"
UNITS, FORGETTING = 32, 0.99
DEVICE, PEER = "device", "peer"
#: ROC-AUC by the number of rows; None where there is no model.
Course = dict[str, float | None]


@dataclass(frozen=True)
class Room:
    """What a room has: rows of each steady speed to learn, and runs, normal and damaged."""

    steady: tuple[Array, ...]
    normal: Array
    damaged: Mapping[str, Array]

    @classmethod
    def of(cls, known: Sequence[Recording], name: str) -> "Room":
        """Takes a room's recordings of the fan, each in time order."""
        mine = [one for one in known if (one.size, one.room) == (SIZE, name)]

        def rows(speed: str, damage: str) -> Array:
            return np.vstack([r.rows for r in mine if (r.speed, r.damage) == (speed, damage)])

        steady = tuple(rows(speed, NORMAL) for speed in STEADY)
        damaged = {damage: rows(THROUGH, damage) for damage in DAMAGES}
        return cls(steady, rows(THROUGH, NORMAL), damaged)

    def halves(self) -> tuple[Array, Array]:
        """Gives the earlier and the later half of each steady recording, speed by turns."""
        cut = min(map(len, self.steady)) // 2
        earlier = np.stack([rows[:cut] for rows in self.steady], axis=1)
        later = np.stack([rows[cut : 2 * cut] for rows in self.steady], axis=1)
        width = earlier.shape[-1]
        return earlier.reshape(-1, width), later.reshape(-1, width)

    def auc(self, score: Score, damages: Sequence[str] = DAMAGES) -> float:
        """Tells damaged runs from normal ones."""
        return auc(score(self.normal), score(np.vstack([self.damaged[one] for one in damages])))


def rooms(run: Run) -> Numbers:
    """Gives ROC-AUC before and after a move, by rows of retraining; means over random layers.

    Quick: two layers instead of ten.
    """
    known = recordings(run.data)
    trials = range(run.at_most(10, 2))
    found, kinds = dict[str, dict[str, Course]](), dict[str, dict[str, dict[str, float]]]()
    for source, target in run.track(MOVES, "Rooms"):
        here, there = Room.of(known, source), Room.of(known, target)
        losses = _mean([_by_loss(here, there, SEED + trial) for trial in trials])
        name = f"{source} → {target}"
        found[name] = losses | _by_distance(here, there)
        kinds[name] = _damages(here, there)
    return {
        "auc": found,
        "auc by distance, each damage": kinds,
        "layers": len(trials),
        "rows left out because the fan is off": sum(r.left_out for r in known if r.size == SIZE),
    }


def _by_loss(here: Room, there: Room, seed: int) -> dict[str, Course]:
    """What a device may do about the new room, all with one layer."""
    width = here.normal.shape[1]
    basis = Basis(HiddenLayer(width, UNITS, seed=seed), width, score="loss")
    several, one, merging = (
        Instances.of(basis, here.steady),
        _trained(basis, here),
        _trained(basis, here),
    )
    fading, new = Detector.for_basis(basis, forgetting=FORGETTING), Detector.for_basis(basis)
    # It forgets from here on, and what it has learned in the room before counts in full.
    fading.model.reduce_to(one.parts[0])
    before, peer = here.auc(one.score_many), _peer(basis, there)
    merging.merge(peer.evidence)
    return {
        "loss, an instance a speed": _course(
            there, several.learn_many, several.score_many, here.auc(several.score_many)
        ),
        "loss, one model": _course(there, one.learn_many, one.score_many, before),
        f"loss, forgetting {FORGETTING}": _course(
            there, fading.learn_many, fading.score_many, before
        ),
        "loss, new room alone": _course(there, new.learn_many, new.score_many, None),
        "loss, one merge": _course(there, merging.learn_many, merging.score_many, before),
        "loss, the peer itself": {"0": there.auc(peer.score_many)},
    }


def _by_distance(here: Room, there: Room) -> dict[str, Course]:
    """With what a detector has unless told; nothing is random in it."""
    basis = distance_basis(here)
    one, merging, new = _trained(basis, here), _trained(basis, here), Detector.for_basis(basis)
    before, peer = here.auc(one.score_many), _peer(basis, there)
    merging.merge(peer.evidence)
    fleet = Fleet(basis, merged=False)
    fleet.learn(DEVICE, np.vstack(here.steady))
    fleet.learn(PEER, there.halves()[0])
    fleet.sync()
    asking = fleet.detector(DEVICE)
    return {
        "distance": _course(there, one.learn_many, one.score_many, before),
        "distance, new room alone": _course(there, new.learn_many, new.score_many, None),
        "distance, one merge": _course(there, merging.learn_many, merging.score_many, before),
        "distance, asks the peer": _course(
            there, asking.learn_many, unknown(fleet, DEVICE), before
        ),
        "distance, the peer itself": {"0": there.auc(peer.score_many)},
    }


def _damages(here: Room, there: Room) -> dict[str, dict[str, float]]:
    """Each kind of damage by itself, before, after and retrained with all rows."""
    detector = _trained(distance_basis(here), here)
    score = detector.score_many
    found = {one: {BEFORE: here.auc(score, [one]), "0": there.auc(score, [one])} for one in DAMAGES}
    detector.learn_many(there.halves()[1])
    for one in DAMAGES:
        found[one]["all"] = there.auc(score, [one])
    return found


def distance_basis(room: Room) -> Basis:
    """Makes what a detector for a room's rows has unless told."""
    return Basis.fitted(np.vstack(room.steady), None, scaling="standard", seed=SEED)


def _trained(basis: Basis, room: Room) -> Detector:
    detector = Detector.for_basis(basis)
    detector.learn_many(np.vstack(room.steady))
    return detector


def _peer(basis: Basis, room: Room) -> Detector:
    detector = Detector.for_basis(basis)
    detector.learn_many(room.halves()[0])
    return detector


def _course(
    there: Room, learn: Callable[[Array], None], score: Score, before: float | None
) -> Course:
    """ROC-AUC in the new room, after so many of its rows; without ``before`` there is none at 0."""
    later = there.halves()[1]
    found: Course = {BEFORE: before}
    done = 0
    for rows in [*(step for step in STEPS if step < len(later)), len(later)]:
        if rows > done:
            learn(later[done:rows])
        done = rows
        found[str(rows)] = None if before is None and not rows else there.auc(score)
    return found


def _mean(tables: Sequence[Mapping[str, Course]]) -> dict[str, Course]:
    """The mean of each value over tables that lack the same ones."""
    return {
        name: {
            key: None if value is None else float(np.mean([one[name][key] for one in tables]))
            for key, value in row.items()
        }
        for name, row in tables[0].items()
    }
