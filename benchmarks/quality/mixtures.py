"""Mixtures of kinds: whom each rule chooses where some devices are alike and others are not.

Each device of a mixture in turn has learned some of its rows, and all others all of theirs. A rule
chooses among those, and one model is made of the device's rows and theirs (the policy ``merged``).
Who is of which kind is known, but not to the rules; ``named`` is told. In some mixtures one device
is poisoned: it has taken a fault for normal, and may lie about the number of its rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.quality.kinds import (
    COPIED,
    COPIES,
    COUNTED,
    MIXTURES,
    POISONED,
    SHARE,
    TIMES,
    Devices,
    OfKind,
)
from benchmarks.quality.measure import auc
from benchmarks.quality.windows import Matrix
from elmgrove import Basis, Detector, Evidence
from elmgrove.detector.inputs import choose_window
from elmgrove.federation import selection
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.selection import Everyone, Named, Quality, Rule, SameGroup

#: Own rows; None is all.
ROWS: tuple[int | None, ...] = (100, 1000, None)
#: Where a device's own rows begin, as a share of those there are.
START = 0.6
#: The rules; ``named`` is told who is of its kind.
RULES = ("alone", "named", "everyone", "quality", "group")
ALONE, NAMED, EVERYONE, QUALITY, GROUP = RULES
#: Those that are told nothing.
CHOOSING: dict[str, Rule] = {
    EVERYONE: Everyone(),
    QUALITY: Quality(),
    GROUP: SameGroup(),
}
#: Of the contributions' federation; a distance has no use for it.
RIDGE = 1e-3


class _Nobody(Rule):
    """Takes nobody."""

    def choose(
        self, device: str, contributions: Sequence[Contribution], ridge: float
    ) -> selection.Choice:
        return selection.Choice(frozenset())


@dataclass(frozen=True)
class Choice:
    """Whom a rule chose for one device, and the AUC of the model with those and without."""

    mixture: str
    device: str
    rows: int | None
    rule: str
    #: How many others there are of its own kind, how many of those were chosen, how many of all.
    alike: int
    right: int
    taken: int
    #: Whether the poisoned one was chosen; None where there is none.
    poisoned: bool | None
    #: None where no rows can be tested.
    auc: float | None
    alone: float | None


@dataclass(frozen=True)
class Chosen:
    """What a rule did for all devices of a mixture that had learned so many rows.

    ``taken`` is a mean; ``precision`` and ``recall`` are of choosing the own kind (None where
    nobody was chosen); ``left_out`` is how often the poisoned one was not chosen; ``changes`` are
    those of the AUC by the others, where it can be told.
    """

    taken: float
    precision: float | None
    recall: float
    left_out: float | None
    auc: float
    changes: list[float]
    devices: int


def chosen(choices: Sequence[Choice], mixture: str, rows: int | None, rule: str) -> Chosen | None:
    """Sums up what a rule chose; None where that was not tried."""
    mine = [one for one in choices if (one.mixture, one.rows, one.rule) == (mixture, rows, rule)]
    if not mine:
        return None
    taken, right = sum(one.taken for one in mine), sum(one.right for one in mine)
    poisoned = [one.poisoned for one in mine if one.poisoned is not None]
    tested = [(one.auc, one.alone) for one in mine if one.auc is not None and one.alone is not None]
    return Chosen(
        taken=taken / len(mine),
        precision=right / taken if taken else None,
        recall=right / sum(one.alike for one in mine),
        left_out=1.0 - fmean(poisoned) if poisoned else None,
        auc=fmean(auc for auc, _ in tested),
        changes=[auc - alone for auc, alone in tested],
        devices=len(mine),
    )


def compared(title: str, seed: int, folder: Path, quick: bool) -> list[Choice]:
    """Lets each rule choose for each device of a mixture, or for the first few."""
    mixture = MIXTURES[title]
    devices = mixture.devices(folder, seed)
    first = next(iter(devices.values())).train
    rows = np.vstack([one.train for one in devices.values()])
    window = mixture.window or choose_window(first).window
    basis = Basis.fitted(rows, None, scaling="standard", window=window)
    said = {name: _learned(basis, one.train).evidence for name, one in devices.items()}
    if POISONED in devices:
        said[POISONED] = _sent(mixture.poison, said, basis, devices[POISONED])
    held = [Contribution(name, int(one.count), (one,)) for name, one in said.items()]
    found = []
    for name in [name for name in devices if name != POISONED][: 2 if quick else None]:
        others = [one for one in held if one.origin != name]
        for count in ROWS:
            if count is None or count < len(devices[name].train):
                found += _chosen(title, name, count, devices, basis, others)
    return found


def _learned(basis: Basis, rows: Matrix) -> Detector:
    detector = Detector.for_basis(basis)
    detector.learn_many(rows)
    return detector


def _sent(poison: str, said: dict[str, Evidence], basis: Basis, bad: OfKind) -> Evidence:
    """What the poisoned one sends."""
    own = said[POISONED]
    if poison == COUNTED:
        return own.weighted(TIMES)
    if poison == COPIED and bad.test is not None:
        everybody = Evidence.sum(one for name, one in said.items() if name != POISONED)
        faults = _learned(basis, bad.test).evidence
        weight = SHARE / (1.0 - SHARE) * COPIES * everybody.count / faults.count
        return everybody.weighted(COPIES) + faults.weighted(weight)
    return own


def _chosen(
    title: str,
    name: str,
    count: int | None,
    devices: Devices,
    basis: Basis,
    others: Sequence[Contribution],
) -> list[Choice]:
    """Lets each rule choose for one device that has learned so many rows."""
    own, rows = devices[name], devices[name].train
    if count is not None:
        begin = int(START * (len(rows) - count))
        rows = rows[begin : begin + count]
    evidence = _learned(basis, rows).evidence
    mine = Contribution(name, int(evidence.count), (evidence,))
    alike = [one.origin for one in others if devices[one.origin].kind == own.kind]
    rules = {ALONE: _Nobody(), NAMED: Named(alike), **CHOOSING}
    chosen = {by: rule.choose(name, [mine, *others], RIDGE) for by, rule in rules.items()}
    picks = {
        by: [one for one in others if one.origin in choice.names] for by, choice in chosen.items()
    }
    aucs = dict[frozenset[str], float | None]()
    for pick in picks.values():
        key = frozenset(one.origin for one in pick)
        if key not in aucs:
            aucs[key] = _auc(basis, rows, pick, own)
    found = []
    for rule, pick in picks.items():
        taken = frozenset(one.origin for one in pick)
        found.append(
            Choice(
                *(title, name, count, rule),
                *(len(alike), len(taken & set(alike)), len(taken)),
                POISONED in taken if POISONED in devices else None,
                *(aucs[taken], aucs[frozenset()]),
            )
        )
    return found


def _auc(basis: Basis, rows: Matrix, others: Sequence[Contribution], own: OfKind) -> float | None:
    """The AUC of one model of a device's rows and those of others."""
    if own.test is None or own.labels is None:
        return None
    detector = _learned(basis, rows)
    detector.set_prior([part for other in others for part in other.parts])
    return auc(own.labels, np.asarray(detector.score_many(own.test), np.float64))
