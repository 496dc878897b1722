"""Imbalanced clients and classes, which the paper stresses: Fed-ELMS, exact and balanced sums.

The paper states no sizes but two blocks of 500. Here they are thinned, by a factor for each client
and one for each digit. The server's initial batch, which Fed-ELMS begins with, is in the sums as
well, as one more client: all have the same rows.
"""

from collections.abc import Callable
from statistics import fmean
from typing import Any

import numpy as np

from elmgrove import OSELM, Basis, Evidence, HiddenLayer
from elmgrove.algebra import Array, first_model
from elmgrove_papers.data import mnist
from elmgrove_papers.fed_elms.digits import Digits, divided
from elmgrove_papers.fed_elms.settings import CLIENTS, ROUNDS, SEED, SEEDS, layer
from elmgrove_papers.fed_elms.trial import averaged, on_one_thread
from elmgrove_papers.figure import Numbers, Run

UNITS = 200
#: From so few clients that some digits have no rows but the server's, to all that MNIST allows.
SIZES = (5, 7, 10, 14, 20, 28, 40, CLIENTS)
#: So that a quick run ends within a minute; in it Fed-ELMS is still ahead of the plain sum.
QUICK_SIZES = (5, 14, 28)
BATCH, FED_ELMS, EXACT, BALANCED = "initial batch alone", "Fed-ELMS", "exact sum", "balanced sums"
#: How well the test rows are told: as they are, each digit alike, and each by its learned rows.
MEASURES = ("accuracy", "mean recall", "recall of the rarest", "accuracy at learned frequencies")
SPREAD: dict[str, Callable[[list[float]], float]] = {"": fmean, ", lowest": min, ", highest": max}

#: A measure's value by the way to learn.
ByWay = dict[str, float]


def imbalanced(run: Run) -> Numbers:
    """Compares the three over the number of clients, whose rows and classes are unequal.

    Weights of the balanced sums follow from counts alone, and the ridge is the default of every
    model here: nothing is chosen by the test rows. Over several seeds of division, sizes and
    layer: the mean, the lowest and the highest.
    """
    data, seeds = mnist(run.data), run.at_most(SEEDS, 2)
    sizes = QUICK_SIZES if run.quick else SIZES
    found = dict[int, list[dict[str, ByWay]]]()
    rows = dict[int, list[ByWay]]()
    for seed in run.track(range(seeds), "Seeds"):
        for clients in sizes:
            whole = divided(data, clients, SEED + seed)
            digits = whole.thinned(np.random.default_rng([SEED + seed, clients]))
            made = layer(digits.X.shape[1], UNITS, SEED + seed)
            found.setdefault(clients, []).append(measured(digits, made))
            rows.setdefault(clients, []).append(_sizes(digits))
    numbers: Numbers = {
        f"{measure}{name}": {
            f"{clients} clients": {"clients": clients} | _over([one[measure] for one in some], over)
            for clients, some in found.items()
        }
        for measure in MEASURES
        for name, over in SPREAD.items()
    }
    numbers["rows, mean"] = {f"{clients} clients": _over(rows[clients], fmean) for clients in sizes}
    return numbers | {"units": UNITS, "rounds": ROUNDS, "seeds": seeds}


def measured(digits: Digits, made: HiddenLayer) -> dict[str, ByWay]:
    """Gives each measure of each way to learn, on the test rows."""
    with on_one_thread():
        outputs = {way: made(digits.test) @ beta for way, beta in learned(digits, made).items()}
    counts = digits.T[digits.learned].sum(axis=0)
    seen = np.where(counts > 0, counts, np.inf)
    found = dict[str, ByWay]()
    for way, one in outputs.items():
        each = digits.recalls(one)
        values = (
            digits.accuracy(one),
            float(each.mean()),
            # Of digits that some client has.
            float(each[seen.argmin()]),
            float(each @ counts / counts.sum()),
        )
        for measure, value in zip(MEASURES, values, strict=True):
            found.setdefault(measure, {})[way] = value
    return {measure: by_way | _differences(by_way) for measure, by_way in found.items()}


def _differences(found: ByWay) -> ByWay:
    """What each sum is ahead by, with one seed: of the same rows, layer and sizes."""
    return {
        "balanced − Fed-ELMS": found[BALANCED] - found[FED_ELMS],
        "exact − Fed-ELMS": found[EXACT] - found[FED_ELMS],
        "balanced − exact": found[BALANCED] - found[EXACT],
    }


def learned(digits: Digits, made: HiddenLayer) -> dict[str, Array]:
    """Gives the output weights of each way to learn."""
    basis, ridge = Basis(made, digits.outputs), OSELM(made, digits.outputs).ridge
    first = digits.rows(digits.initial)
    batch = by_class(basis, *first)
    theirs = (by_class(basis, *digits.rows(rows)) for rows in digits.clients.values())
    # (8), class by class
    total = [Evidence.sum(parts) for parts in zip(batch, *theirs, strict=True)]
    return {
        BATCH: Evidence.sum(batch).solve(ridge),
        FED_ELMS: averaged(digits, made, first_model(made, *first), ROUNDS).beta,
        EXACT: Evidence.sum(total).solve(ridge),
        BALANCED: balanced(total).solve(ridge),
    }


def by_class(basis: Basis, X: Array, T: Array) -> list[Evidence]:
    """Sums up the rows of each class by themselves."""
    found = []
    for rows in T.astype(bool).T:
        model = OSELM(basis.layer, basis.outputs, basis=basis)
        model.learn_many(X[rows], T[rows])
        found.append(model.evidence)
    return found


def balanced(parts: list[Evidence]) -> Evidence:
    """Adds up classes so that all that have rows count alike: w_c = N/(C·N_c).

    The weights of all rows still add up to N.
    """
    seen = [part for part in parts if part.count]
    N = sum(part.count for part in seen)
    return Evidence.sum(part.weighted(N / (len(seen) * part.count)) for part in seen)


def _sizes(digits: Digits) -> ByWay:
    counts = digits.T[digits.learned].sum(axis=0)
    clients = [len(rows) for rows in digits.clients.values()]
    return {
        "initial batch": float(len(digits.initial)),
        "clients together": float(sum(clients)),
        "smallest client": float(min(clients)),
        "largest client": float(max(clients)),
        "digits without rows": float((counts == 0).sum()),
        "rarest digit that has rows": float(counts[counts > 0].min()),
        "commonest digit": float(counts.max()),
    }


def _over(rows: list[ByWay], over: Callable[[list[float]], float]) -> dict[str, Any]:
    return {name: over([row[name] for row in rows]) for name in rows[0]}
