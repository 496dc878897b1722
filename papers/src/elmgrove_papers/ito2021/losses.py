"""§5.2 and §5.5 on HAR: the losses of two devices before and after the cooperative update.

Figure 7: Device-A knows sitting and Device-B laying, BP-NN3 both. Figure 18: Device-A knows laying
and Device-B walking; Device-B learns Device-A's rows one by one, or merges them. Since a merge is
exact, both are the same model once all rows are learned: the loss of the sequential one comes down
to the merged one's, and how early depends on what counts as there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import Array, Basis
from elmgrove_papers.data import Labelled, har_scaled
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.ito2021.settings import HAR
from elmgrove_papers.networks import Task, begin, fitted
from elmgrove_papers.networks import losses as network_losses
from elmgrove_papers.pairs import TRAINING_SHARE

A, B, MERGED = "Device-A", "Device-B", "merged"
SITTING, LAYING, WALKING = "SITTING", "LAYING", "WALKING"
#: Updates between two losses.
EVERY = 50
#: "As low as": within such shares of the merged model's loss.
WITHIN = (0.5, 0.1, 0.05, 0.01, 0.0)
#: Where the paper's lines meet, approximately.
PAPER_UPDATES = 650


def two_devices(basis: Basis, own: Array, other: Array) -> Fleet:
    """Lets Device-A learn its own rows and Device-B the other ones; nothing is merged yet."""
    fleet = Fleet(basis)
    for name, rows in ((A, own), (B, other)):
        fleet.learn(name, rows)
    return fleet


def before_and_after(fleet: Fleet, tested: Mapping[str, Array]) -> dict[str, Numbers]:
    """Gives the mean loss of both devices on each pattern, and after the cooperative update.

    After it both have the same model, to rounding; Device-B's is taken.
    """
    before = {name: _losses(fleet, name, tested) for name in (A, B)}
    fleet.sync()
    after = _losses(fleet, B, tested)
    return {
        pattern: {A: before[A][pattern], B: before[B][pattern], MERGED: after[pattern]}
        for pattern in tested
    }


def _losses(fleet: Fleet, name: str, tested: Mapping[str, Array]) -> dict[str, float]:
    score = fleet.detector(name).score_many
    return {pattern: float(score(rows).mean()) for pattern, rows in tested.items()}


def activities(run: Run) -> Labelled:
    """Gives HAR in [0, 1], with 80 % of its rows to learn from; quick: half as many."""
    share = TRAINING_SHARE / run.at_most(1, 2)
    return har_scaled(run.data).shuffled(share, np.random.default_rng(SEED))


def learned(data: Labelled, name: str) -> Array:
    """Gives the rows of an activity to learn from."""
    rows: Array = data.train[data.train_label == data.names.index(name)]
    return rows


def tested(data: Labelled, name: str) -> Array:
    """Gives the rows of an activity to test with."""
    rows: Array = data.test[data.test_label == data.names.index(name)]
    return rows


def figure7(run: Run) -> Numbers:
    """Gives mean losses of both devices, of the merged model and of BP-NN3; needs PyTorch."""
    data = activities(run)
    sitting, laying = learned(data, SITTING), learned(data, LAYING)
    tests = {name: tested(data, name) for name in data.names}
    fleet = two_devices(HAR.basis(data.width), sitting, laying)
    network = _bp_nn3(np.vstack([sitting, laying]), run)
    rows = before_and_after(fleet, tests)
    for name, row in rows.items():
        row["BP-NN3"] = float(network_losses(network, tests[name]).mean())
    return {"loss": rows, "features": data.width}


def _bp_nn3(X: Array, run: Run) -> list[Any]:
    task = Task(begin(X.shape[1], HAR.bp_nn3, (SEED,)), np.arange(len(X)), (SEED,))
    with run.ticking(HAR.bp_nn3.epochs, "BP-NN3") as tick:
        return fitted(X.astype(np.float32), [task], HAR.bp_nn3, tick)[0]


def figure18(run: Run) -> Numbers:
    """Gives the loss on laying at Device-B, every 50 updates, and where it is the merged one's."""
    data = activities(run)
    new, known, tests = learned(data, LAYING), learned(data, WALKING), tested(data, LAYING)
    basis = HAR.basis(data.width)
    fleet = two_devices(basis, new, known)
    fleet.sync()
    merged = float(fleet.detector(B).score_many(tests).mean())

    device = two_devices(basis, new, known).detector(B)
    found = {0: float(device.score_many(tests).mean())}
    for start in run.track(range(0, len(new), EVERY), "Sequential updates"):
        for row in new[start : start + EVERY]:
            device.learn_one(row)
        found[min(start + EVERY, len(new))] = float(device.score_many(tests).mean())
    return {
        "crossing": {
            f"within {share:.0%}" if share else "not above": {
                "updates": first_at(list(found.items()), (1.0 + share) * merged),
                "paper": PAPER_UPDATES,
            }
            for share in WITHIN
        },
        "loss": [
            {"updates": updates, "sequential": loss, "merged": merged}
            for updates, loss in found.items()
        ],
        "features": data.width,
    }


def first_at(losses: Sequence[tuple[int, float]], limit: float) -> int | None:
    """Says after how many updates the loss is first that low; None where it never is."""
    # At the end both models rest on the same rows: rounding must not keep them apart.
    return next((updates for updates, loss in losses if loss <= limit * (1.0 + 1e-6)), None)
