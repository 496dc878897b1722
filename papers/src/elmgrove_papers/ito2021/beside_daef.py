"""DAEF beside one merge of OS-ELM: the ROC-AUC of all pairs over trials, and what either costs.

Both shapes are fixed by the paper's Ñ, and no other is chosen by what comes of them. No network is
trained, so this takes minutes where the maps take hours; their trials are the same.
"""

import numpy as np

from elmgrove_papers.daef import DaefDevice, DaefFleet
from elmgrove_papers.data import har_scaled, mnist
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.ito2021.comparison import difference, means
from elmgrove_papers.ito2021.heat_maps import BY_LAYERS, OS_ELM, trials
from elmgrove_papers.ito2021.settings import HAR, MNIST
from elmgrove_papers.ito2021.trial import AFTER, BEFORE, DAEF, PATTERNS

MODELS = (BEFORE, AFTER, PATTERNS, *DAEF)
ONE_MERGE = "one merge"


def beside_daef(run: Run) -> Numbers:
    """Maps both on HAR and MNIST; quick: four patterns of each, 1000 rows of a pattern."""
    sources = {"HAR": (har_scaled, HAR), "MNIST": (mnist, MNIST)}
    found: Numbers = {"cost a device": {}}
    most = run.at_most(10**6, 1000)
    for name, (read, setting) in sources.items():
        data = read(run.data)
        data = data.first(run.at_most(len(data.names), 4))
        maps, seconds = trials(run, data, setting, most, (OS_ELM, BY_LAYERS), ())
        found[f"{name}, mean"] = means(maps, MODELS)
        found[f"{name}, difference"] = {
            f"{other} − {one}": difference(maps, other, one)
            for other in DAEF
            for one in (AFTER, PATTERNS)
        }
        found[f"{name}, processor seconds"] = seconds
        found["cost a device"] |= {
            f"{name}, {way}": row for way, row in _costs(data.width, setting.units).items()
        }
    return found


def _costs(width: int, units: int) -> dict[str, Numbers]:
    """What a device sends, how often all must be there at once, and whether it may drop its rows.

    Of rows there are more than features, as in the data.
    """
    X = np.random.default_rng(SEED).uniform(size=(2 * width, width))
    # One triangle of U, and V.
    rows = {ONE_MERGE: _cost(units * (units + 1) // 2 + units * width, 0, "no")}
    for name, model in DaefFleet([DaefDevice(X)]).both(units, SEED).items():
        rows[name] = _cost(model.sent, len(model.layers), "yes")
    return rows


def _cost(sent: int, together: int, kept: str) -> Numbers:
    return {
        "numbers sent": sent,
        "messages": max(together, 1),
        "times that all must be there": together,
        "rows must be kept": kept,
    }
