"""Ito 2021, §5.3: two devices that know one pattern each, for all pairs of patterns."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, starmap
from typing import Any

import numpy as np

from elmgrove.algebra import Basis
from elmgrove.detector import PatternRule
from elmgrove_papers.data import Labelled, har, mnist
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.ito2021.pair import Pair
from elmgrove_papers.ito2021.settings import TRAINING_SHARE
from elmgrove_papers.measures import auc
from elmgrove_papers.mlmg.settings import RULE, basis

#: Both patterns count as normal, so the other's is no less so: no handicap.
EQUAL = replace(RULE, patterns=1, handicap=0.0)
VARIANTS: dict[str, PatternRule | None] = {
    "before": None,
    "merged": None,
    "patterns": EQUAL,
    "patterns, split further": replace(EQUAL, patterns=3),
    "patterns, handicap 0.8": replace(EQUAL, handicap=0.8),
}


def mnist_pairs(run: Run) -> Numbers:
    """All 45 pairs of digits; quick: 5 pairs, 400 rows a digit."""
    data = mnist(run.data)
    pairs = list(starmap(Pair, combinations(range(10), 2)))[:: run.at_most(1, 9)]
    return _pairs(data, "mnist", pairs, run, run.at_most(10**6, 400))


def har_pairs(run: Run) -> Numbers:
    """All 15 pairs of activities; quick: 5 pairs."""
    data = har(run.data)
    pairs = list(starmap(Pair, combinations(range(len(data.names)), 2)))[:: run.at_most(1, 3)]
    return _pairs(data, "har", pairs, run, 10**6)


def _pairs(data: Labelled, name: str, pairs: Sequence[Pair], run: Run, most: int) -> Numbers:
    rng = np.random.default_rng(SEED)
    split, made = data.shuffled(TRAINING_SHARE, rng), basis(name, data.width)
    rows = list[dict[str, Any]]()
    for pair in run.track(pairs, f"Pairs of {name}"):
        found = {variant: _tested(split, made, pair, variant, most) for variant in VARIANTS}
        rows.append({"pair": [data.names[label] for label in pair], **found})
    means = {
        variant: {key: float(np.mean([row[variant][key] for row in rows])) for key in _MEASURED}
        for variant in VARIANTS
    }
    return {"features": data.width, "mean": means, "pairs": rows}


_MEASURED = ("auc", "auc_own", "auc_peers")


def _tested(data: Labelled, basis: Basis, pair: Pair, variant: str, most: int) -> dict[str, float]:
    """ROC-AUC at device A: on both patterns, on its own and on the other's."""
    fleet = Fleet(basis, VARIANTS[variant])
    for name, rows in zip("AB", pair.learned(data, most), strict=True):
        fleet.learn(name, data.train[rows])
    if variant != "before":
        fleet.sync()
    own, peers, anomalies = map(fleet.detector("A").score_many, pair.tested(data))
    values = (
        auc(np.concatenate([own, peers]), anomalies),
        auc(own, anomalies),
        auc(peers, anomalies),
    )
    return dict(zip(_MEASURED, values, strict=True))
