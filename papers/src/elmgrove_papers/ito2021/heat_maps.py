"""Figures 8 to 17: ROC-AUC for all pairs of patterns, HAR's and MNIST's.

What differs from the paper: networks get a tenth of the trials unless told otherwise, and the best
of a cell is that of the means over as many as each has. HAR's rows are scaled to [0, 1], for every
model alike, since the networks end in a sigmoid. Not stated there, and chosen here: BP-NN3-FL's
epochs a round (one), Adam's rate, and what the devices have where both know the same pattern (half
of its rows each). Means are over pairs of different patterns. Two models more are ours: with a
model, and with three, for each pattern; two more are DAEF's, of another paper. The paper has its
values in pictures only, and prints no means.

Results of trials are kept on disk, so that an interrupted run goes on where it was.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

import numpy as np

from elmgrove import __version__
from elmgrove.algebra import Array
from elmgrove.errors import BadFile
from elmgrove.storage import write
from elmgrove_papers import require_package
from elmgrove_papers.data import Labelled, har_scaled, mnist
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.fleet import in_memory
from elmgrove_papers.ito2021.baselines import bp_nn3, bp_nn3_fl, bp_nn5, daef
from elmgrove_papers.ito2021.comparison import best, difference, means, named
from elmgrove_papers.ito2021.os_elm import os_elm, three_patterns
from elmgrove_papers.ito2021.settings import (
    EQUAL,
    HAR,
    MNIST,
    ROUND_EPOCHS,
    ROUNDS,
    THREE,
    PairsSetting,
)
from elmgrove_papers.ito2021.trial import (
    AFTER,
    BEFORE,
    BP_NN3,
    BP_NN3_FL,
    BP_NN5,
    DAEF,
    OURS,
    THREE_PATTERNS,
    Maps,
    PairsTrial,
)
from elmgrove_papers.pairs import ANOMALY_SHARE, TRAINING_SHARE

#: In the order of the figures.
FIVE = (BEFORE, AFTER, BP_NN3, BP_NN5, BP_NN3_FL)
ALL = (*FIVE, *OURS, *DAEF)
#: The paper's: the first of two is far above the second, or about as good; then ours: above; then
#: both beside DAEF.
CLAIMS = (
    *((AFTER, other) for other in FIVE if other != AFTER),
    *((ours, other) for ours in OURS for other in (AFTER, BP_NN3, BP_NN5, BP_NN3_FL)),
    *((one, other) for one in (AFTER, *OURS) for other in DAEF),
)
OS_ELM, BY_LAYERS = "OS-ELM", "DAEF"
_MERGING = (OS_ELM, THREE_PATTERNS)
#: Rows of a pattern in a quick run: enough for a pattern to become three, and for networks.
QUICK_HAR, QUICK_MNIST = 800, 1000
#: What is fast enough for every trial.
_FAST, _NETWORKS = (*_MERGING, BY_LAYERS), (BP_NN3, BP_NN5, BP_NN3_FL)
_RUNS: Mapping[str, Callable[[PairsTrial, Run], Maps]] = {
    OS_ELM: os_elm,
    THREE_PATTERNS: three_patterns,
    BY_LAYERS: daef,
    BP_NN3: bp_nn3,
    BP_NN5: bp_nn5,
    BP_NN3_FL: bp_nn3_fl,
}


def har_maps(run: Run) -> Numbers:
    """Maps all nine models on HAR; quick: four activities, 800 rows of each."""
    data, most = har_data(run)
    return _maps(run, data, HAR, most)


def har_data(run: Run) -> tuple[Labelled, int]:
    """Gives HAR in [0, 1], and how many rows of a pattern are learned at most."""
    return _fewer(run, har_scaled(run.data)), run.at_most(10**6, QUICK_HAR)


def mnist_maps(run: Run) -> Numbers:
    """Maps all nine models on MNIST; quick: four digits, 1000 rows of each."""
    data, most = mnist_data(run)
    return _maps(run, data, MNIST, most)


def mnist_data(run: Run) -> tuple[Labelled, int]:
    """Gives MNIST, and how many rows of a pattern are learned at most."""
    return _fewer(run, mnist(run.data)), run.at_most(10**6, QUICK_MNIST)


def _fewer(run: Run, data: Labelled) -> Labelled:
    return data.first(run.at_most(len(data.names), 4))


def only(maps: Callable[[Run], Numbers], model: str, run: Run) -> Numbers:
    """Gives one model's map, as the paper shows it, and all means."""
    found = maps(run)
    return found | {"auc": {model: found["auc"][model]}}


def _maps(run: Run, data: Labelled, setting: PairsSetting, most: int) -> Numbers:
    # Said before minutes of work are lost.
    require_package("torch")
    found, seconds = trials(run, data, setting, most)
    maps = {model: np.mean(trials, axis=0) for model, trials in found.items()}
    return {
        "mean": means(found, ALL),
        "difference": {f"{a} − {b}": difference(found, a, b) for a, b in CLAIMS},
        "auc": {model: named(maps[model], data.names) for model in ALL},
        "best of the five": best({model: maps[model] for model in FIVE}, data.names),
        "processor seconds": seconds,
        "features": data.width,
        "trials of OS-ELM": run.size["trials"],
        "trials of networks": run.size["networks"],
        "rows a pattern, at most": most if run.quick else "all",
        "through a server": run.meeting is not in_memory,
    }


def trials(
    run: Run,
    data: Labelled,
    setting: PairsSetting,
    most: int,
    fast: Sequence[str] = _FAST,
    slow: Sequence[str] = _NETWORKS,
) -> tuple[dict[str, list[Array]], dict[str, Numbers]]:
    """Gives each model's map in each trial, computed or as it was kept; and what they took.

    What is ``slow`` is part of a tenth of the trials.
    """
    everything = (data.train, data.train_label, data.test, data.test_label)
    key = {
        "data": digest(*everything),
        "seed": SEED,
        "most": most,
        **asdict(setting),
        "shares": (TRAINING_SHARE, ANOMALY_SHARE),
        "rounds": (ROUNDS, ROUND_EPOCHS),
    }
    found, seconds = dict[str, list[Array]](), dict[str, list[float]]()
    for number in range(run.trials):
        # Not before something is to be computed: a split takes a while.
        trial = cache(partial(PairsTrial.of, data, setting, number, most))
        for method in (*fast, *slow) if number < run.size["networks"] else fast:
            server = method in _MERGING and run.meeting is not in_memory
            rule = asdict(THREE if method == THREE_PATTERNS else EQUAL)
            of_one = {"kind": method, "trial": number, "server": server, "patterns": rule}
            computed = kept(run.cache, key | of_one, partial(_computed, method, trial, run))
            seconds.setdefault(method, []).append(computed["seconds"])
            for model, one in computed["maps"].items():
                found.setdefault(model, []).append(np.array(one))
    return found, {
        method: {"a trial": float(np.mean(took)), "all trials": float(np.sum(took))}
        for method, took in seconds.items()
    }


def _computed(method: str, trial: Callable[[], PairsTrial], run: Run) -> Numbers:
    split = trial()
    started = time.process_time()
    maps = _RUNS[method](split, run)
    return {"maps": maps, "seconds": time.process_time() - started}


def kept(folder: Path | None, key: Numbers, compute: Callable[[], Numbers]) -> Numbers:
    """Gives what was computed once for this key, or computes it; always, without a folder.

    The key must name everything that the result follows from (settings, seed, ``digest`` of the
    data), in what JSON can hold; it is kept beside the result. This release is part of it; remove
    the folder after a change to the code.
    """
    if folder is None:
        return compute()
    key = key | {"release": __version__}
    text = json.dumps(key, sort_keys=True)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    if path.exists():
        return _read(path)
    result = compute()
    folder.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps({"key": key, "result": result}, indent=1).encode())
    return result


def _read(path: Path) -> Numbers:
    try:
        found: Numbers = json.loads(path.read_bytes())["result"]
    except (ValueError, KeyError, TypeError) as error:
        raise BadFile(f"{path} holds no trial; remove it, and it is run again") from error
    return found


def digest(*arrays: Array) -> str:
    """Gives a fingerprint of data: other values, shapes or types have another."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()[:16]
