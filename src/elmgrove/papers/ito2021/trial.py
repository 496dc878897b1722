"""A trial of §5.3: each model's ROC-AUC for all pairs of patterns, on a split of its own."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations_with_replacement, starmap

import numpy as np

from elmgrove.papers.data import Labelled
from elmgrove.papers.figure import SEED, Run
from elmgrove.papers.fleet import Fleet
from elmgrove.papers.ito2021.federated import averaged
from elmgrove.papers.ito2021.networks import AT_ONCE, Task, Weights, begin, fitted, losses
from elmgrove.papers.ito2021.pair import Array, Pair, Tested
from elmgrove.papers.ito2021.settings import EQUAL, ROUNDS, TRAINING_SHARE, Setting, Training
from elmgrove.pattern import PatternRule

BEFORE, AFTER, BP_NN3, BP_NN5, BP_NN3_FL = "before", "after", "BP-NN3", "BP-NN5", "BP-NN3-FL"
#: What the paper does not have.
PATTERNS = "after, with patterns"
#: ROC-AUC by the pattern of device A (row) and of device B (column), for each model.
Maps = dict[str, list[list[float]]]


@dataclass(frozen=True)
class Trial:
    """All models of a trial learn the same rows, at most so many a pattern; they share the test."""

    data: Labelled
    setting: Setting
    number: int
    most: int

    @classmethod
    def of(cls, data: Labelled, setting: Setting, number: int, most: int) -> "Trial":
        """With 80 % of the rows, at random, to learn from."""
        split = data.shuffled(TRAINING_SHARE, np.random.default_rng((SEED, number)))
        return cls(split, setting, number, most)

    @property
    def pairs(self) -> list[Pair]:
        """All of them; one pattern on both devices is the diagonal."""
        return list(starmap(Pair, combinations_with_replacement(range(len(self.data.names)), 2)))

    def empty(self) -> Array:
        """A map to fill in."""
        return np.full((len(self.data.names),) * 2, np.nan)

    @cached_property
    def single(self) -> Array:
        """The rows in the networks' precision."""
        return self.data.train.astype(np.float32)

    def text(self, model: str) -> str:
        """What a progress bar says."""
        return f"Trial {self.number + 1}: {model}"


def os_elm(trial: Trial, run: Run) -> Maps:
    """The devices on their own; after the cooperative update; and so with a model a pattern.

    After the update both devices have the same model, so one half of the map mirrors the other.
    """
    maps = {model: trial.empty() for model in (BEFORE, AFTER, PATTERNS)}
    for pair in run.track(trial.pairs, trial.text("OS-ELM")):
        tested, back = pair.tested(trial.data), pair[::-1]
        with closing(_fleet(trial, pair, run, None)) as fleet:
            maps[BEFORE][pair], maps[BEFORE][back] = (_auc(fleet, tested, name) for name in "AB")
            fleet.sync()
            maps[AFTER][pair] = maps[AFTER][back] = _auc(fleet, tested, "A")
        with closing(_fleet(trial, pair, run, EQUAL)) as fleet:
            fleet.sync()
            maps[PATTERNS][pair] = maps[PATTERNS][back] = _auc(fleet, tested, "A")
    return {model: found.tolist() for model, found in maps.items()}


def _fleet(trial: Trial, pair: Pair, run: Run, rule: PatternRule | None) -> Fleet:
    basis = trial.setting.basis(trial.data.width, SEED + trial.number)
    fleet = Fleet(basis, rule, run.meeting)
    for name, rows in zip("AB", pair.learned(trial.data, trial.most), strict=True):
        fleet.learn(name, trial.data.train[rows])
    return fleet


def _auc(fleet: Fleet, tested: Tested, name: str) -> float:
    return tested.auc(fleet.detector(name).score_many)


def bp_nn3(trial: Trial, run: Run) -> Maps:
    """Three layers; each network learns both patterns in one place."""
    return _networks(trial, run, BP_NN3, trial.setting.bp_nn3)


def bp_nn5(trial: Trial, run: Run) -> Maps:
    """The same with five layers."""
    return _networks(trial, run, BP_NN5, trial.setting.bp_nn5)


def _networks(trial: Trial, run: Run, model: str, training: Training) -> Maps:
    def learn(pairs: Sequence[Pair]) -> list[Weights]:
        tasks = [
            _task(trial, training, pair, np.concatenate(pair.learned(trial.data, trial.most)), 0)
            for pair in pairs
        ]
        return fitted(trial.single, tasks, training)

    return _tested(trial, run, model, learn)


def bp_nn3_fl(trial: Trial, run: Run) -> Maps:
    """Two devices that learn a pattern each and average their networks in rounds."""
    training = trial.setting.bp_nn3

    def learn(pairs: Sequence[Pair]) -> list[Weights]:
        tasks = {
            name: [
                _task(trial, training, pair, pair.learned(trial.data, trial.most)[device], device)
                for pair in pairs
            ]
            for device, name in enumerate("AB")
        }
        return averaged(trial.single, tasks, training, ROUNDS)

    return _tested(trial, run, BP_NN3_FL, learn)


def _task(trial: Trial, training: Training, pair: Pair, rows: Array, device: int) -> Task:
    """Where a pair's network begins is the same on both devices, the order of rows is not."""
    seed = (SEED, trial.number, *pair)
    return Task(begin(trial.data.width, training, seed), rows, (*seed, device))


def _tested(
    trial: Trial, run: Run, model: str, learn: Callable[[Sequence[Pair]], list[Weights]]
) -> Maps:
    found = trial.empty()
    # Those with about as many rows take about as many steps.
    pairs = sorted(
        trial.pairs, key=lambda pair: sum(map(len, pair.learned(trial.data, trial.most)))
    )
    several = [pairs[start : start + AT_ONCE] for start in range(0, len(pairs), AT_ONCE)]
    for some in run.track(several, trial.text(model)):
        for pair, weights in zip(some, learn(some), strict=True):
            auc = pair.tested(trial.data).auc(partial(losses, weights))
            found[pair] = found[pair[::-1]] = auc
    return {model: found.tolist()}
