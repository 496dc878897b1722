"""Figure 7: losses on six activities; Device-A knows sitting, Device-B laying, BP-NN3 both."""

from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.data import Labelled, har_scaled
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.ito2021.losses import before_and_after, two_devices
from elmgrove_papers.ito2021.networks import Task, begin, fitted, losses
from elmgrove_papers.ito2021.settings import HAR, TRAINING_SHARE

SITTING, LAYING = "SITTING", "LAYING"


def activities(run: Run) -> Labelled:
    """HAR in [0, 1], with 80 % of its rows to learn from; quick: half as many."""
    share = TRAINING_SHARE / run.at_most(1, 2)
    return har_scaled(run.data).shuffled(share, np.random.default_rng(SEED))


def learned(data: Labelled, name: str) -> Array:
    """The rows of an activity to learn from."""
    rows: Array = data.train[data.train_label == data.names.index(name)]
    return rows


def tested(data: Labelled, name: str) -> Array:
    """The rows of an activity to test with."""
    rows: Array = data.test[data.test_label == data.names.index(name)]
    return rows


def figure7(run: Run) -> Numbers:
    """Mean losses of both devices, of the merged model and of BP-NN3; needs PyTorch."""
    data = activities(run)
    sitting, laying = learned(data, SITTING), learned(data, LAYING)
    tests = {name: tested(data, name) for name in data.names}
    fleet = two_devices(HAR.basis(data.width), sitting, laying)
    network = _bp_nn3(np.vstack([sitting, laying]), run)
    rows = before_and_after(fleet, tests)
    for name, row in rows.items():
        row["BP-NN3"] = float(losses(network, tests[name]).mean())
    return {"loss": rows, "features": data.width}


def _bp_nn3(X: Array, run: Run) -> list[Any]:
    task = Task(begin(X.shape[1], HAR.bp_nn3, (SEED,)), np.arange(len(X)), (SEED,))
    with run.ticking(HAR.bp_nn3.epochs, "BP-NN3") as tick:
        return fitted(X.astype(np.float32), [task], HAR.bp_nn3, tick)[0]
