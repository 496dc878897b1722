"""The networks' ROC-AUC for all pairs of a trial: BP-NN3, BP-NN5 and BP-NN3-FL."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.figure import SEED, Run
from elmgrove_papers.ito2021.federated import averaged
from elmgrove_papers.ito2021.networks import AT_ONCE, Task, begin, fitted, losses
from elmgrove_papers.ito2021.pair import Pair
from elmgrove_papers.ito2021.settings import ROUND_EPOCHS, ROUNDS, Training
from elmgrove_papers.ito2021.stack import Weights
from elmgrove_papers.ito2021.trial import BP_NN3, BP_NN3_FL, BP_NN5, Maps, Trial

Tick = Callable[[], None]
Learn = Callable[[Sequence[Pair], Tick], list[Weights]]
#: Of a trial the numbers of the rows that two devices have.
Shares = Callable[[Trial, Pair], Sequence[Array]]


def bp_nn3(trial: Trial, run: Run) -> Maps:
    """Three layers; each network learns both patterns in one place."""
    return _networks(trial, run, BP_NN3, trial.setting.bp_nn3)


def bp_nn5(trial: Trial, run: Run) -> Maps:
    """The same with five layers."""
    return _networks(trial, run, BP_NN5, trial.setting.bp_nn5)


def _networks(trial: Trial, run: Run, model: str, training: Training) -> Maps:
    def learn(pairs: Sequence[Pair], tick: Tick) -> list[Weights]:
        both = [
            task(trial, training, pair, np.concatenate(a_pattern_each(trial, pair)), 0)
            for pair in pairs
        ]
        return fitted(trial.single, both, training, tick)

    return _tested(trial, run, model, learn, training.epochs)


def bp_nn3_fl(trial: Trial, run: Run) -> Maps:
    """Two devices that learn a pattern each and average their networks in rounds."""
    training = replace(trial.setting.bp_nn3, epochs=ROUND_EPOCHS)

    def learn(pairs: Sequence[Pair], tick: Tick) -> list[Weights]:
        dealt = tasks(trial, pairs, training, a_pattern_each)
        return averaged(trial.single, dealt, training, ROUNDS, lambda number, state: tick())

    return _tested(trial, run, BP_NN3_FL, learn, ROUNDS)


def a_pattern_each(trial: Trial, pair: Pair) -> Sequence[Array]:
    """Who has which rows in the paper."""
    return pair.learned(trial.data, trial.most)


def tasks(
    trial: Trial, pairs: Sequence[Pair], training: Training, shares: Shares
) -> dict[str, list[Task]]:
    """What each of two devices trains in a round: a network for each pair, on its own rows."""
    return {
        name: [task(trial, training, pair, shares(trial, pair)[device], device) for pair in pairs]
        for device, name in enumerate("AB")
    }


def task(trial: Trial, training: Training, pair: Pair, rows: Array, device: int) -> Task:
    """Where a pair's network begins is the same on both devices, the order of rows is not."""
    seed = (SEED, trial.number, *pair)
    return Task(begin(trial.data.width, training, seed), rows, (*seed, device))


def in_groups(pairs: Sequence[Pair]) -> list[Sequence[Pair]]:
    """As many at a time as are trained in one computation."""
    return [pairs[start : start + AT_ONCE] for start in range(0, len(pairs), AT_ONCE)]


def _tested(trial: Trial, run: Run, model: str, learn: Learn, ticks: int) -> Maps:
    """The map of a model that learns some pairs at once, with so many ticks."""
    found = trial.empty()
    # Those with about as many rows take about as many steps.
    pairs = sorted(
        trial.pairs, key=lambda pair: sum(map(len, pair.learned(trial.data, trial.most)))
    )
    groups = in_groups(pairs)
    with run.ticking(ticks * len(groups), trial.text(model, run)) as tick:
        for some in groups:
            for pair, weights in zip(some, learn(some, tick), strict=True):
                auc = pair.tested(trial.data).auc(partial(losses, weights))
                found[pair] = found[pair[::-1]] = auc
    return {model: found.tolist()}
