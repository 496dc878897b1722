"""Ito 2021's pairs, with other rules for patterns: one trial, at device A of each pair."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, starmap
from typing import Any

import numpy as np

from elmgrove.detector import PatternRule
from elmgrove_papers.data import Labelled, har, mnist
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.mlmg.clients import RULE, basis
from elmgrove_papers.pairs import TRAINING_SHARE, Pair, PatternDevices

#: What a device has after the merge; before it, it has one model.
RULES: dict[str, PatternRule | None] = {
    "merged": None,
    "patterns": replace(RULE, patterns=1),
    "patterns, split further": replace(RULE, patterns=3),
}


def mnist_pairs(run: Run) -> Numbers:
    """Tries all 45 pairs of digits; quick: 5 pairs, 400 rows a digit."""
    data = mnist(run.data)
    pairs = list(starmap(Pair, combinations(range(10), 2)))[:: run.at_most(1, 9)]
    return _pairs(data, "mnist", pairs, run, run.at_most(10**6, 400))


def har_pairs(run: Run) -> Numbers:
    """Tries all 15 pairs of activities; quick: 5 pairs."""
    data = har(run.data)
    pairs = list(starmap(Pair, combinations(range(len(data.names)), 2)))[:: run.at_most(1, 3)]
    return _pairs(data, "har", pairs, run, 10**6)


def _pairs(data: Labelled, name: str, pairs: Sequence[Pair], run: Run, most: int) -> Numbers:
    split = data.shuffled(TRAINING_SHARE, np.random.default_rng(SEED))
    made = basis(name, data.width)
    devices = {variant: PatternDevices(split, most, made, rule) for variant, rule in RULES.items()}
    rows = list[dict[str, Any]]()
    for pair in run.track(pairs, f"Pairs of {name}"):
        tested, found = pair.tested(split), dict[str, dict[str, float]]()
        for variant, known in devices.items():
            with known.met(pair) as two:
                if variant == "merged":
                    found["before"] = tested.aucs(two.alone()[0])
                found[variant] = tested.aucs(two.merged())
        rows.append({"pair": [data.names[label] for label in pair], **found})
    return {"features": data.width, "mean": _means(rows), "pairs": rows}


def _means(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    return {
        variant: {key: float(np.mean([row[variant][key] for row in rows])) for key in measured}
        for variant, measured in rows[0].items()
        if variant != "pair"
    }
