"""Table 4 and §5.4: what OS-ELM and BP-NN3-FL cost a device, in time and in bytes.

Table 4 has the times of training, prediction and merging. Rows are random, with the paper's 561
features: the times do not depend on the values. Both are asked in turns, so that what else the
machine does hits both alike. §5.4 has the bytes that a device sends and receives, for one merge
and for R rounds of BP-NN3-FL.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from elmgrove.algebra import OSELM, Array, weighted_mean
from elmgrove.exchange import MemoryExchange
from elmgrove.federation import Charter, Contribution, entry_from_bytes
from elmgrove.storage import seal, unseal
from elmgrove_papers import require_package
from elmgrove_papers.backpropagation import Weights, one_thread
from elmgrove_papers.data.har import FEATURES
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.ito2021.losses import A, B
from elmgrove_papers.ito2021.settings import HAR, MNIST, ROUNDS, PairsSetting
from elmgrove_papers.networks import Training, begin, losses

TRAINING, PREDICTION, MERGING = "training", "prediction", "merging"
OS_ELM, BP = "OS-ELM", "BP-NN3-FL"
#: The same prediction without PyTorch, whose calls take longer than the arithmetic.
IN_NUMPY = "BP-NN3-FL in NumPy"
#: Milliseconds: OS-ELM's and BP-NN3-FL's, where merging is a round's.
PAPER = {
    64: {TRAINING: (0.471, 0.588), PREDICTION: (0.089, 0.290), MERGING: (5.78, 1.95)},
    128: {TRAINING: (0.794, 0.980), PREDICTION: (0.106, 0.364), MERGING: (21.8, 2.42)},
}
TURNS = 20
#: Rows that the messages are of: they count for no more than the digits of their number.
ROWS = 1000
#: Of BP-NN3-FL's messages.
FORMAT = "bp-nn3"


def table4(run: Run) -> Numbers:
    """Gives medians in ms at both sizes; quick: a tenth of the calls. Needs PyTorch."""
    calls = run.at_most(100, 10)
    # Not where there is no such thing (Windows).
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return {
        "milliseconds": {
            f"Ñ = {units}": _compared(units, calls) for units in run.track(list(PAPER), "Latencies")
        },
        "features": FEATURES,
        "load of the machine before": load,
        "calls": TURNS * calls,
        "merges": TURNS * max(calls // 10, 1),
    }


def _compared(units: int, calls: int) -> dict[str, Numbers]:
    X = np.random.default_rng(SEED).uniform(size=(calls, FEATURES))
    cases = [_os_elm(units, X), *_bp_nn3_fl(units, X.astype(np.float32))]
    found: dict[str, Numbers] = {}
    for step, printed in PAPER[units].items():
        few = calls if step != MERGING else max(calls // 10, 1)
        chosen = [case[step] for case in cases if step in case]
        # As PyTorch: with two threads small matrices take longer, and vary more.
        with threadpool_limits(1, "blas"), one_thread():
            medians = _medians(chosen, few)
        found[step] = _row(medians, printed)
        if step == PREDICTION:
            found[step][IN_NUMPY] = medians[2]
        if step == MERGING:
            found[step + ", all rounds"] = _row(_all(medians), _all(printed))
    return found


def _all(pair: Sequence[float]) -> tuple[float, float]:
    """OS-ELM's merge is one-shot, BP-NN3-FL's comes each round."""
    return pair[0], ROUNDS * pair[1]


def _row(found: Sequence[float], printed: Sequence[float]) -> Numbers:
    return {
        OS_ELM: found[0],
        BP: found[1],
        "ratio": found[1] / found[0],
        f"{OS_ELM}, paper": printed[0],
        f"{BP}, paper": printed[1],
        "ratio, paper": printed[1] / printed[0],
    }


def _medians(cases: Sequence[Callable[[int], Any]], calls: int) -> list[float]:
    """Milliseconds of a call. What a case returns, if it can be called, puts things back."""
    times: list[list[float]] = [[] for _ in cases]
    for _ in range(TURNS):
        for case, taken in zip(cases, times, strict=True):
            for number in range(calls):
                started = perf_counter_ns()
                undo = case(number)
                taken.append((perf_counter_ns() - started) / 1e6)
                if callable(undo):
                    undo()
    return [float(np.median(taken)) for taken in times]


def _os_elm(units: int, X: Any) -> dict[str, Callable[[int], Any]]:
    """Times the paper's steps alone: a detector counts alarms besides, before it learns."""
    basis = replace(HAR, units=units).basis(FEATURES)
    model, member = OSELM(basis.layer, FEATURES), Charter("paper", basis, merged=True).start("b")
    model.learn_many(X, X)
    member.detector.learn_many(X)
    blob = member.contribution().to_bytes()

    def predict(number: int) -> float:
        x = X[number]
        return float(np.square(x - model.predict_one(x)).mean())

    def merge(_: int) -> Callable[[], Any]:
        entry = entry_from_bytes(blob)
        assert isinstance(entry, Contribution)
        model.prior = entry.evidence
        # The model is solved for when it is needed: that is part of it.
        predict(0)
        return lambda: model.use_prior(None)

    return {
        TRAINING: lambda number: model.learn_one(X[number], X[number]),
        PREDICTION: predict,
        MERGING: merge,
    }


def _bp_nn3_fl(units: int, X: Any) -> list[dict[str, Callable[[int], Any]]]:
    training = replace(HAR.bp_nn3, hidden=(units,))
    here, other = (OnlineNetwork(FEATURES, training, seed) for seed in (SEED, SEED + 1))
    blobs = [packed(len(X), network.weights()) for network in (here, other)]

    def merge(_: int) -> None:
        here.replace(weighted_mean(map(unpacked, blobs)))

    in_pytorch = {
        TRAINING: lambda number: here.learn_one(X[number]),
        PREDICTION: lambda number: here.score_one(X[number]),
        MERGING: merge,
    }
    weights = here.weights()
    return [in_pytorch, {PREDICTION: lambda number: losses(weights, X[number : number + 1])}]


def communication(run: Run) -> Numbers:
    """Gives the sizes of real messages, with Table 2's features; no data is read."""
    sizes = {"HAR": (HAR, FEATURES), "MNIST": (MNIST, 784)}
    return {
        "bytes a device": {
            f"{name}, {width} features": _bytes(setting, width)
            for name, (setting, width) in sizes.items()
        },
        "rounds": ROUNDS,
    }


def _bytes(setting: PairsSetting, width: int) -> dict[str, Numbers]:
    up, down = _merge(setting, width)
    # The same numbers travel both ways, in each round.
    message = len(packed(ROWS, begin(width, setting.bp_nn3, (SEED,))))
    sent = {
        "one merge": (up, down),
        "BP-NN3-FL, a round": (message, message),
        "BP-NN3-FL": (ROUNDS * message, ROUNDS * message),
    }
    return {
        way: {"up": one, "down": other, "times a merge": (one + other) / (up + down)}
        for way, (one, other) in sent.items()
    }


def _merge(setting: PairsSetting, width: int) -> tuple[int, int]:
    """What one of two devices sends, and what it gets back."""
    exchange = MemoryExchange(Charter("paper", setting.basis(width), merged=True))
    members = [exchange.charter.start(name) for name in (A, B)]
    for member, rows in zip(
        members, np.random.default_rng(SEED).uniform(size=(2, ROWS, width)), strict=True
    ):
        member.detector.learn_many(rows)
        exchange.publish(member.contribution())
    others = exchange.merged(A)
    # To a device that knows nothing yet, all is new.
    assert others is not None
    return len(members[0].contribution().to_bytes()), len(others.to_bytes())


class OnlineNetwork:
    """An autoencoder that Adam trains by batches of one row (k = 1)."""

    def __init__(self, width: int, training: Training, seed: int) -> None:
        self._torch = torch = require_package("torch")
        nn, units = torch.nn, training.hidden[0]
        self._net = nn.Sequential(
            nn.Linear(width, units), nn.ReLU(), nn.Linear(units, width), nn.Sigmoid()
        )
        self.replace(begin(width, training, (seed,)))
        # The fastest of PyTorch's own.
        self._adam = torch.optim.Adam(self._net.parameters(), lr=training.rate, fused=True)
        self._loss = nn.MSELoss()

    def learn_one(self, row: Array) -> None:
        """Takes one step of Adam."""
        x = self._torch.from_numpy(row)
        self._adam.zero_grad()
        self._loss(self._net(x), x).backward()
        self._adam.step()

    def score_one(self, row: Array) -> float:
        """Gives the mean squared error of the row's reconstruction."""
        with self._torch.inference_mode():
            x = self._torch.from_numpy(row)
            return float(self._loss(self._net(x), x))

    def weights(self) -> Weights:
        """Gives W₁ (inputs × units), b₁ (1 × units), W₂, b₂."""
        arrays = [parameter.detach().numpy() for parameter in self._net.parameters()]
        return [np.atleast_2d(array.T).copy() for array in arrays]

    def replace(self, weights: Weights) -> None:
        """Goes on from these weights."""
        with self._torch.no_grad():
            for parameter, array in zip(self._net.parameters(), weights, strict=True):
                fitting = np.ascontiguousarray(array.T.reshape(parameter.shape), np.float32)
                parameter.copy_(self._torch.from_numpy(fitting))


def packed(rows: int, weights: Sequence[Array]) -> bytes:
    """Makes a message of BP-NN3-FL: weights in float32, and how many rows they were trained on."""
    arrays = {str(place): array.astype(np.float32) for place, array in enumerate(weights)}
    return seal(FORMAT, {"rows": rows}, arrays)


def unpacked(blob: bytes) -> tuple[int, Weights]:
    """Reads the rows and the weights from a message that ``packed`` made."""
    fields, arrays = unseal(FORMAT, blob)
    return fields["rows"], [arrays[str(place)] for place in range(len(arrays))]
