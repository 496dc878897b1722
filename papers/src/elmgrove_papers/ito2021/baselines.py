"""The baselines' ROC-AUC for all pairs of a trial: BP-NN3, BP-NN5, BP-NN3-FL, and DAEF."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.backpropagation import Weights
from elmgrove_papers.daef import DaefDevice, DaefFleet
from elmgrove_papers.federated import averaged
from elmgrove_papers.figure import SEED, Run
from elmgrove_papers.ito2021.settings import ROUND_EPOCHS, ROUNDS
from elmgrove_papers.ito2021.trial import BP_NN3, BP_NN3_FL, BP_NN5, DAEF, Maps, PairsTrial
from elmgrove_papers.networks import AT_ONCE, Task, Training, begin, fitted, losses
from elmgrove_papers.pairs import Pair

Tick = Callable[[], None]
Learn = Callable[[Sequence[Pair], Tick], list[Weights]]
#: Of a trial the numbers of the rows that two devices have.
Shares = Callable[[PairsTrial, Pair], Sequence[Array]]


def bp_nn3(trial: PairsTrial, run: Run) -> Maps:
    """Maps BP-NN3, of three layers; each network learns both patterns in one place."""
    return _networks(trial, run, BP_NN3, trial.setting.bp_nn3)


def bp_nn5(trial: PairsTrial, run: Run) -> Maps:
    """Maps BP-NN5, of five layers; each network learns both patterns in one place."""
    return _networks(trial, run, BP_NN5, trial.setting.bp_nn5)


def _networks(trial: PairsTrial, run: Run, model: str, training: Training) -> Maps:
    def learn(pairs: Sequence[Pair], tick: Tick) -> list[Weights]:
        both = [
            task(trial, training, pair, np.concatenate(a_pattern_each(trial, pair)), 0)
            for pair in pairs
        ]
        return fitted(trial.single, both, training, tick)

    return _tested(trial, run, model, learn, training.epochs)


def bp_nn3_fl(trial: PairsTrial, run: Run) -> Maps:
    """Maps BP-NN3-FL: two devices learn a pattern each and average their networks in rounds."""
    training = replace(trial.setting.bp_nn3, epochs=ROUND_EPOCHS)

    def learn(pairs: Sequence[Pair], tick: Tick) -> list[Weights]:
        dealt = tasks(trial, pairs, training, a_pattern_each)
        return averaged(trial.single, dealt, training, ROUNDS, lambda number, state: tick())

    return _tested(trial, run, BP_NN3_FL, learn, ROUNDS)


def daef(trial: PairsTrial, run: Run) -> Maps:
    """Maps DAEF in both shapes; both devices have the same model, as after a merge of ours."""
    maps, devices = {name: trial.empty() for name in DAEF}, dict[str, DaefDevice]()
    for pair in run.track(trial.pairs, trial.text("DAEF", run)):
        for name, rows in zip(pair.names, a_pattern_each(trial, pair), strict=True):
            if name not in devices:
                devices[name] = DaefDevice(trial.data.train[rows])
        fleet, tested = DaefFleet([devices[name] for name in pair.names]), pair.tested(trial.data)
        for name, model in fleet.both(trial.setting.units, SEED + trial.number).items():
            maps[name][pair] = maps[name][pair[::-1]] = tested.auc(model.losses)
    return {name: found.tolist() for name, found in maps.items()}


def a_pattern_each(trial: PairsTrial, pair: Pair) -> Sequence[Array]:
    """Gives each device the rows of its pattern, as in the paper."""
    return pair.learned(trial.data, trial.most)


def tasks(
    trial: PairsTrial, pairs: Sequence[Pair], training: Training, shares: Shares
) -> dict[str, list[Task]]:
    """Lists what each of two devices trains: a network for each pair, on its own rows."""
    return {
        name: [task(trial, training, pair, shares(trial, pair)[device], device) for pair in pairs]
        for device, name in enumerate("AB")
    }


def task(trial: PairsTrial, training: Training, pair: Pair, rows: Array, device: int) -> Task:
    """Makes a device's task: both begin with the same network, and have an order of rows each."""
    seed = (SEED, trial.number, *pair)
    return Task(begin(trial.data.width, training, seed), rows, (*seed, device))


def in_groups(pairs: Sequence[Pair]) -> list[Sequence[Pair]]:
    """Divides the pairs into groups whose networks are trained in one computation."""
    return [pairs[start : start + AT_ONCE] for start in range(0, len(pairs), AT_ONCE)]


def _tested(trial: PairsTrial, run: Run, model: str, learn: Learn, ticks: int) -> Maps:
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
