"""BP-NN3-FL round by round, on HAR: what its distance from BP-NN3 comes from.

Not in the paper, in which both are alike. The same rounds, from the same beginnings, where each
device has one pattern, and where each has half of both; and with other choices of what the paper
leaves open. One trial, means over pairs of different patterns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers import require_package
from elmgrove_papers.backpropagation import Weights
from elmgrove_papers.data import Labelled, har_scaled
from elmgrove_papers.federated import averaged
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.ito2021.baselines import Shares, a_pattern_each, bp_nn3, in_groups, tasks
from elmgrove_papers.ito2021.comparison import mean
from elmgrove_papers.ito2021.os_elm import os_elm
from elmgrove_papers.ito2021.settings import HAR, ROUND_EPOCHS, ROUNDS
from elmgrove_papers.ito2021.trial import AFTER, BP_NN3, BP_NN3_FL, PairsTrial
from elmgrove_papers.networks import Training, losses
from elmgrove_papers.pairs import Pair

#: After which a network is tested.
MARKS = (1, 2, 5, 10, 20, ROUNDS)
#: A quick run's activities, and how many rows of each are learned.
QUICK, QUICK_ROWS = ("WALKING", "SITTING", "LAYING"), 1000


def half_of_both(trial: PairsTrial, pair: Pair) -> Sequence[Array]:
    """Deals out the rows of both patterns to both devices."""
    rows = np.random.default_rng((SEED, *pair)).permutation(
        np.concatenate(a_pattern_each(trial, pair))
    )
    return rows[::2], rows[1::2]


@dataclass(frozen=True)
class Choice:
    """Which rows each device has, and how it trains in a round."""

    shares: Shares
    training: Training


_ROUND = replace(HAR.bp_nn3, epochs=ROUND_EPOCHS)
FIVE_EPOCHS = "a pattern each, five epochs a round"
CHOICES = {
    "a pattern each": Choice(a_pattern_each, _ROUND),
    FIVE_EPOCHS: Choice(a_pattern_each, replace(_ROUND, epochs=5)),
    "a pattern each, a tenth of the rate": Choice(
        a_pattern_each, replace(_ROUND, rate=_ROUND.rate / 10)
    ),
    "half of both each": Choice(half_of_both, _ROUND),
}


def rounds(run: Run) -> Numbers:
    """Gives the mean ROC-AUC after some rounds; quick: three activities, 1000 rows of each.

    Walking, sitting and laying are as unlike as activities are, so averages show what they lose
    there. Quick also leaves out five epochs a round, which take as long as all else.
    """
    require_package("torch")
    data, most = _data(run)
    run, trial = replace(run, trials=1), PairsTrial.of(data, HAR, 0, most)
    chosen = {name: one for name, one in CHOICES.items() if not run.quick or name != FIVE_EPOCHS}
    return {
        "mean auc": {text: _marks(trial, run, text, choice) for text, choice in chosen.items()},
        "without rounds": {
            f"{BP_NN3}, all rows in one place": {"auc": mean(bp_nn3(trial, run)[BP_NN3])},
            "OS-ELM, a pattern each, one merge": {"auc": mean(os_elm(trial, run)[AFTER])},
        },
        "features": data.width,
        "activities": list(data.names),
        "rows a pattern, at most": most if run.quick else "all",
    }


def _data(run: Run) -> tuple[Labelled, int]:
    data = har_scaled(run.data)
    return (data.only(QUICK), QUICK_ROWS) if run.quick else (data, 10**6)


def _marks(trial: PairsTrial, run: Run, text: str, choice: Choice) -> dict[str, float]:
    pairs = [pair for pair in trial.pairs if pair.a != pair.b]
    groups = in_groups(pairs)
    found = dict[int, list[float]]()
    with run.ticking(ROUNDS * len(groups), f"{BP_NN3_FL}, {text}") as tick:
        for some in groups:

            def note(number: int, states: list[Weights], some: Sequence[Pair] = some) -> None:
                if number in MARKS:
                    found.setdefault(number, []).extend(_aucs(trial, some, states))
                tick()

            averaged(
                trial.single,
                tasks(trial, some, choice.training, choice.shares),
                choice.training,
                ROUNDS,
                note,
            )
    return {f"round {number}": float(np.mean(aucs)) for number, aucs in found.items()}


def _aucs(trial: PairsTrial, pairs: Sequence[Pair], states: Sequence[Weights]) -> list[float]:
    return [
        pair.tested(trial.data).auc(partial(losses, weights))
        for pair, weights in zip(pairs, states, strict=True)
    ]
