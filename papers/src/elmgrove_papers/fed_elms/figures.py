"""Figures 4 and 5, and Table I with Figure 6: accuracies in %. Figure 5 has several seeds.

Stated by the paper: data, PCA, initial batch, clients' classes, layer, Fed-NN's settings. Not
stated: how many clients, C, the number of rounds, and how Fed-NN begins (see ``settings``).
"""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from elmgrove.algebra import HiddenLayer
from elmgrove_papers import require_package
from elmgrove_papers.data import mnist
from elmgrove_papers.fed_elms.digits import Digits, divided
from elmgrove_papers.fed_elms.fed_nn import fed_nn
from elmgrove_papers.fed_elms.settings import (
    CLIENTS,
    FED_ELMS,
    FED_NN,
    ROUNDS,
    SEED,
    SEEDS,
    equal_cost,
    formula_bits,
    layer,
)
from elmgrove_papers.fed_elms.trial import (
    Tried,
    centralized,
    compact,
    exact,
    fed_elms,
    whole_numbers,
)
from elmgrove_papers.figure import Numbers, Run

FREQUENCIES = (1, 2, 5, 10)
UNITS = (50, 100, 200, 300, 500, 700, 1000)
#: So that a quick run ends within a minute. With 14 clients some digits are rare, and an average
#: that holds the initial batch is ahead of the exact merge: that is another figure.
QUICK_CLIENTS, QUICK_UNITS = 28, 500


def figure4(run: Run) -> Numbers:
    """Gives the accuracy for each number of rounds that the clients' rows are split into."""
    digits = _digits(run)
    inputs = digits.X.shape[1]
    return {
        "accuracy": {
            f"{units} units": {"units": units}
            | {
                f"rounds: {rounds}": fed_elms(digits, layer(inputs, units), rounds).accuracy
                for rounds in FREQUENCIES
            }
            for units in run.track(_units(run, tuple(FED_ELMS)), "RoundUpdate frequency")
        },
        "clients": len(digits.clients),
    }


def figure5(run: Run) -> Numbers:
    """Compares Fed-ELMS and exact merging with one model of the same rows, and of all of MNIST's.

    Over several seeds of division and layer: the mean, the lowest and the highest of each.
    """
    data, clients = mnist(run.data), run.at_most(CLIENTS, QUICK_CLIENTS)
    found = dict[int, list[dict[str, float]]]()
    for seed in run.track(range(run.at_most(SEEDS, 1)), "Seeds"):
        digits = divided(data, clients, SEED + seed)
        for units in _units(run, UNITS):
            made = layer(digits.X.shape[1], units, SEED + seed)
            found.setdefault(units, []).append(_compared(digits, made))
    spread: dict[str, Callable[[list[float]], float]] = {
        "accuracy": fmean,
        "lowest": min,
        "highest": max,
    }
    numbers: Numbers = {
        name: {f"{units} units": _row(units, rows, over) for units, rows in found.items()}
        for name, over in spread.items()
    }
    for units in found:
        numbers["accuracy"][f"{units} units"]["Fed-ELMS, paper"] = FED_ELMS.get(units, (None,))[0]
    return numbers | {"clients": clients, "rounds": ROUNDS, "seeds": run.at_most(SEEDS, 1)}


def _compared(digits: Digits, made: HiddenLayer) -> dict[str, float]:
    everything = centralized(digits, made, np.arange(len(digits.X)))
    same = centralized(digits, made, digits.learned)
    merged = exact(digits, made).accuracy
    averaged = fed_elms(digits, made, ROUNDS).accuracy
    return {
        "centralized, all rows": everything,
        "centralized, clients' rows": same,
        "exact": merged,
        "Fed-ELMS": averaged,
        "exact − all rows": merged - everything,
        "exact − clients' rows": merged - same,
        "Fed-ELMS − all rows": averaged - everything,
        "Fed-ELMS − exact": averaged - merged,
    }


def _row(
    units: int, rows: Sequence[dict[str, float]], over: Callable[[list[float]], float]
) -> dict[str, Any]:
    ways = {way: over([row[way] for row in rows]) for way in rows[0]}
    return {"units": units} | ways


def table1(run: Run) -> Numbers:
    """Compares Fed-ELMS in float64 and in 8 bits, exact merging, and Fed-NN of the same cost."""
    # Said before minutes of work are lost.
    require_package("torch")
    digits = _digits(run)
    inputs, outputs = digits.X.shape[1], digits.outputs
    accuracy, seconds, sent, whole = {}, {}, {}, {}
    for units in run.track(_units(run, tuple(FED_ELMS)), "Table I"):
        made, hidden = layer(inputs, units), equal_cost(units, inputs, outputs)
        tried = {
            "Fed-ELMS": fed_elms(digits, made, ROUNDS),
            "Fed-ELMS, 8 bit": compact(digits, made, ROUNDS),
            "Fed-NN": fed_nn(digits, hidden, ROUNDS),
            "exact": exact(digits, made),
        }
        name, sizes = f"{units} units", {"units": units, "L_NN": hidden}
        # Of other data than MNIST the paper says nothing.
        known = FED_NN.get(hidden, (None, None))
        printed = {"Fed-ELMS, paper": FED_ELMS[units], "Fed-NN, paper": known}
        found = {way: one.accuracy for way, one in tried.items()}
        times = {way: one.seconds for way, one in tried.items()}
        accuracy[name] = sizes | found | {way: pair[0] for way, pair in printed.items()}
        seconds[name] = sizes | times | {way: pair[1] for way, pair in printed.items()}
        # A model is sent once each way in each round.
        formula = formula_bits(units, inputs, outputs) / 8 * ROUNDS
        sent[name] = sizes | _bytes(tried) | {"(14), each way": formula}
        whole[name] = {"units": units} | whole_numbers(digits, made)
    return {
        "accuracy": accuracy,
        "seconds": seconds,
        "bytes a client": sent,
        "whole numbers": whole,
        "clients": len(digits.clients),
        "rounds": ROUNDS,
    }


def _bytes(tried: dict[str, Tried]) -> dict[str, Any]:
    return {
        f"{way}, {direction}": round(count)
        for way, one in tried.items()
        for direction, count in (("up", one.bytes_up), ("down", one.bytes_down))
        if count is not None
    }


def _digits(run: Run) -> Digits:
    return divided(mnist(run.data), run.at_most(CLIENTS, QUICK_CLIENTS), SEED)


def _units(run: Run, units: tuple[int, ...]) -> list[int]:
    return [one for one in units if one <= run.at_most(max(units), QUICK_UNITS)]
