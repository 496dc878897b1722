"""Table 3's choice made again: units and activation by 10-fold cross-validation for ROC-AUC.

What differs from the paper: it does not say which candidates it had, nor what was in a fold; here
they are Table 3's activations with numbers of units around its own, and a fold has a tenth of the
rows to learn from, of which one pattern is normal and all others anomalous, each in turn. Only
OS-ELM is tuned. Rows to test with decide nothing. Beside it stands the choice that needs no
anomalies, by values that are left out, with Table 3's activation.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmgrove import Basis, Evidence
from elmgrove.algebra import Array
from elmgrove_papers.data import Labelled
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.ito2021.comparison import mean
from elmgrove_papers.ito2021.heat_maps import har_data, mnist_data
from elmgrove_papers.ito2021.os_elm import os_elm
from elmgrove_papers.ito2021.settings import HAR, MNIST, PairsSetting
from elmgrove_papers.ito2021.trial import AFTER, BEFORE, PairsTrial
from elmgrove_papers.measures import auc

FOLDS = 10
UNITS = (16, 32, 64, 128, 256)
ACTIVATIONS = ("identity", "sigmoid", "relu")
RIDGE = 1e-3
#: How much each hidden output changes with what goes in, from the output: G' by G.
SLOPES: dict[str, Callable[[Array], Array]] = {
    "identity": np.ones_like,
    "sigmoid": lambda H: H * (1.0 - H),
    "relu": lambda H: (H > 0.0).astype(np.float64),
}
#: Rows of a pattern that are looked at, at most: they only serve to choose.
MOST = 1000
TABLE_3, TEN_FOLD, LEFT_OUT = "Table 3", "10-fold", "leave-one-out"


def har_tuning(run: Run) -> Numbers:
    """Chooses on HAR; quick: four activities, 800 rows of each."""
    data, most = har_data(run)
    return _chosen(run, data, HAR, most)


def mnist_tuning(run: Run) -> Numbers:
    """Chooses on MNIST; quick: four digits, 1000 rows of each."""
    data, most = mnist_data(run)
    return _chosen(run, data, MNIST, most)


def _chosen(run: Run, data: Labelled, table_3: PairsSetting, most: int) -> Numbers:
    candidates = [
        replace(table_3, activation=activation, units=units)
        for activation in ACTIVATIONS
        for units in UNITS
    ]
    choices = dict[str, list[PairsSetting]]()
    maps = dict[str, list[dict[str, float]]]()
    folds, left_out = list[list[float]](), list[list[float]]()
    for number in range(run.trials):
        trial = PairsTrial.of(data, table_3, number, most)
        rows = _rows_by_pattern(trial)
        tried = run.track(candidates, trial.text(TEN_FOLD, run))
        folds.append([ten_fold(one, rows, number) for one in tried])
        alike = [one for one in candidates if one.activation == table_3.activation]
        left_out.append([values_left_out(one, rows, number) for one in alike])
        found = {
            TABLE_3: table_3,
            TEN_FOLD: candidates[int(np.argmax(folds[-1]))],
            LEFT_OUT: alike[int(np.argmin(left_out[-1]))],
        }
        for name, setting in found.items():
            choices.setdefault(name, []).append(setting)
            maps.setdefault(name, []).append(_tested(replace(trial, setting=setting), run))
    errors = dict(zip(map(_text, alike), np.mean(left_out, axis=0).tolist(), strict=True))
    return {
        "chosen": {
            name: {
                "by trial": [_text(setting) for setting in choices[name]],
                **{key: float(np.mean([one[key] for one in tested])) for key in (BEFORE, AFTER)},
            }
            for name, tested in maps.items()
        },
        "candidates": [
            {
                "activation": one.activation,
                "units": one.units,
                "auc, 10-fold": value,
                "error of values left out": errors.get(_text(one)),
                "Table 3's": one == table_3,
            }
            for one, value in zip(candidates, np.mean(folds, axis=0).tolist(), strict=True)
        ],
        "features": data.width,
    }


def ten_fold(setting: PairsSetting, rows: Sequence[Array], number: int) -> float:
    """Gives the mean ROC-AUC over folds and patterns, each pattern once the normal one.

    A model of nine folds is a sum without the tenth's part, so each fold is summed up once.
    """
    basis = setting.basis(rows[0].shape[1], SEED + number)
    rng = np.random.default_rng((SEED, number, FOLDS))
    parts = [np.array_split(rng.permutation(one), FOLDS) for one in rows]
    hidden = [[basis.layer(part) for part in folds] for folds in parts]
    sums = [
        [(H.T @ H, H.T @ X) for H, X in zip(*both, strict=True)]
        for both in zip(hidden, parts, strict=True)
    ]
    found = []
    for normal, of_folds in enumerate(sums):
        U, V = (np.sum(side, axis=0) for side in zip(*of_folds, strict=True))
        for fold, (U_fold, V_fold) in enumerate(of_folds):
            # β = (U + λI)⁻¹V, equation (6), without the fold
            beta = np.linalg.solve(U - U_fold + RIDGE * np.eye(len(U)), V - V_fold)
            losses = [
                np.square(part[fold] - H[fold] @ beta).mean(axis=1)
                for part, H in zip(parts, hidden, strict=True)
            ]
            others = np.concatenate([loss for one, loss in enumerate(losses) if one != normal])
            found.append(auc(losses[normal], others))
    return float(np.mean(found))


def values_left_out(setting: PairsSetting, rows: Sequence[Array], number: int) -> float:
    """Gives the mean error of values that are left out, over patterns: no anomaly is needed."""
    basis = setting.basis(rows[0].shape[1], SEED + number)
    return float(np.mean([error_of_values(basis, one, RIDGE) for one in rows]))


def error_of_values(basis: Basis, X: Array, ridge: float) -> float:
    """Gives the error of predicting each value from the others of its row, never learned.

    It is a share of the column's variance, in the median of the columns that move: a mean would be
    about the few columns that a model nearly copies. All rows are left out in turn by one solution
    (PRESS): e = residual/(1 − leverage). A value is predicted by what the model would give back as
    it is, (y − a x)/(1 − a), where a is how far the value decides its own reconstruction: exact for
    the identity, of first order for other activations.
    """
    layer = basis.layer
    H = layer(X)
    evidence = Evidence(basis, H.T @ H, H.T @ X, float(np.vdot(X, X)), len(X))
    factor = evidence.factor(ridge)
    beta, W = factor.solve(evidence.V), factor.solve(H.T).T
    E = (X - H @ beta) / (1.0 - np.einsum("ij,ij->i", H, W))[:, np.newaxis]
    slope = SLOPES[layer.activation](H)
    # a = Σ_k α_jk G'(xα + b)_k β_kj; without the row, β is β − w e
    own = slope @ (layer.alpha.T * beta) - ((slope * W) @ layer.alpha.T) * E
    with np.errstate(divide="ignore", over="ignore"):
        errors = np.square(E / (1.0 - own)).mean(axis=0)
    variance = X.var(axis=0)
    moves = variance > 0.0
    return float(np.median(errors[moves] / variance[moves])) if moves.any() else 0.0


def _rows_by_pattern(trial: PairsTrial) -> list[Array]:
    data, most = trial.data, min(trial.most, MOST)
    return [data.train[data.train_label == label][:most] for label in range(len(data.names))]


def _tested(trial: PairsTrial, run: Run) -> dict[str, float]:
    """The mean ROC-AUC on the rows to test with, before and after the cooperative update."""
    found: dict[str, Any] = os_elm(trial, run)
    return {key: mean(found[key]) for key in (BEFORE, AFTER)}


def _text(setting: PairsSetting) -> str:
    return f"{setting.activation} {setting.units}"
