"""Ito 2021's pairs, by patterns and by policies: one trial, at both devices of each pair."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, starmap
from typing import Any

import numpy as np

from elmgrove.detector import PatternRule
from elmgrove_papers.answers import ANOMALOUS, UNKNOWN
from elmgrove_papers.daef import DaefDevice, DaefFleet
from elmgrove_papers.data import Labelled, har, mnist
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.mlmg.clients import RULE, UNITS, basis, distance_basis
from elmgrove_papers.pairs import TRAINING_SHARE, Pair, PatternDevices, Tested

#: What a device has after the merge; before it, it has one model.
RULES: dict[str, PatternRule | None] = {
    "merged": None,
    "patterns": replace(RULE, patterns=1),
    "patterns, split further": replace(RULE, patterns=3),
}
#: A device that does not know the other yet.
BEFORE = "before"
#: What variants by the distance are called beside those by the papers' loss.
BY_DISTANCE = ", by distance"
Aucs = dict[str, dict[str, float]]


def mnist_pairs(run: Run) -> Numbers:
    """Tries all 45 pairs of digits; quick: 5 pairs.

    All rows of a digit, since with fewer than some 2400 a device borrows by distance.
    """
    data = mnist(run.data)
    pairs = list(starmap(Pair, combinations(range(10), 2)))[:: run.at_most(1, 9)]
    return _pairs(data, "mnist", pairs, run)


def har_pairs(run: Run) -> Numbers:
    """Tries all 15 pairs of activities; quick: 5 pairs."""
    data = har(run.data)
    pairs = list(starmap(Pair, combinations(range(len(data.names)), 2)))[:: run.at_most(1, 3)]
    return _pairs(data, "har", pairs, run)


def _pairs(data: Labelled, name: str, pairs: Sequence[Pair], run: Run) -> Numbers:
    split = data.shuffled(TRAINING_SHARE, np.random.default_rng(SEED))
    made, every = basis(name, data.width), len(split.train)
    asking, distant = (
        PatternDevices(split, every, one, None, merged=False)
        for one in (made, distance_basis(split.train))
    )
    by_layers = [
        DaefDevice(split.train[split.train_label == label]) for label in range(len(data.names))
    ]
    merging = {variant: PatternDevices(split, every, made, rule) for variant, rule in RULES.items()}
    rows = list[dict[str, Any]]()
    for pair in run.track(pairs, f"Pairs of {name}"):
        seen = pair.tested(split)
        views = (seen, seen.seen_by_b())
        found = _answers(asking, pair, views)
        for variant, devices in merging.items():
            with devices.met(pair) as two:
                # Both devices have the same model.
                score = two.merged()
            for one, view in zip(found, views, strict=True):
                one[variant] = view.aucs(score)
        fleet = DaefFleet([by_layers[label] for label in pair])
        for variant, model in fleet.both(UNITS[name], SEED).items():
            for one, view in zip(found, views, strict=True):
                one[variant] = view.aucs(model.losses)
        for one, more in zip(found, _answers(distant, pair, views), strict=True):
            one |= {f"{key}{BY_DISTANCE}": aucs for key, aucs in more.items()}
        for labels, one in zip((pair, pair[::-1]), found, strict=True):
            rows.append({"pair": [data.names[label] for label in labels], **one})
    return {
        "features": data.width,
        f"largest change of own AUC, {ANOMALOUS}": _change(rows, ""),
        f"largest change of own AUC, {ANOMALOUS}{BY_DISTANCE}": _change(rows, BY_DISTANCE),
        "mean": _means(rows),
        "pairs": rows,
    }


def _answers(devices: PatternDevices, pair: Pair, views: Sequence[Tested]) -> list[Aucs]:
    """What each device tells alone, then by either answer: all from the same models."""
    with devices.met(pair) as two:
        before = [view.aucs(score) for view, score in zip(views, two.alone(), strict=True)]
        after = [map(view.aucs, both) for view, both in zip(views, two.answers(), strict=True)]
        names = (BEFORE, ANOMALOUS, UNKNOWN)
        return [
            dict(zip(names, (first, *later), strict=True))
            for first, later in zip(before, after, strict=True)
        ]


def _change(rows: Sequence[dict[str, Any]], suffix: str) -> float:
    """By how much a device's own AUC differs from alone, where it does most."""
    before, here = (
        np.array([row[f"{key}{suffix}"]["auc_own"] for row in rows]) for key in (BEFORE, ANOMALOUS)
    )
    return float(max(here - before, key=abs))


def _means(rows: Sequence[dict[str, Any]]) -> Aucs:
    return {
        variant: {key: float(np.mean([row[variant][key] for row in rows])) for key in measured}
        for variant, measured in rows[0].items()
        if variant != "pair"
    }
