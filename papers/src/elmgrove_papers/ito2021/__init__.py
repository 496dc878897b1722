"""Ito 2021: an on-device federated learning approach for cooperative model update.

The figure of Ito 2020, which shows the same update on driving alone, is here as well.
"""

from collections.abc import Callable, Iterator
from functools import partial

from elmgrove_papers.figure import Figure, Numbers, Run
from elmgrove_papers.ito2021 import drawing
from elmgrove_papers.ito2021.beside_daef import beside_daef
from elmgrove_papers.ito2021.costs import communication, table4
from elmgrove_papers.ito2021.driving import figure5_of_2020, figure6
from elmgrove_papers.ito2021.hardware import hardware
from elmgrove_papers.ito2021.heat_maps import FIVE, har_maps, mnist_maps, only
from elmgrove_papers.ito2021.losses import figure7, figure18
from elmgrove_papers.ito2021.one_digit_each import digits
from elmgrove_papers.ito2021.round_by_round import rounds
from elmgrove_papers.ito2021.tuning import har_tuning, mnist_tuning

_TUNING = {"HAR": har_tuning, "MNIST": mnist_tuning}


def _maps(name: str, found: Callable[[Run], Numbers], first: int, side: float) -> Iterator[Figure]:
    """All maps of a data set in one picture, ours as well; and Figures 8 to 17, one of them each.

    ``first`` is the number of the first figure, ``side`` the length of one map.
    """
    tuning = Figure(
        f"{name.lower()}-tuning",
        f"Units and activation by 10-fold cross-validation, {name}",
        _TUNING[name],
        drawing.tuning,
        repeats=True,
    )
    yield Figure(
        f"{name.lower()}-pairs",
        f"Figures {first} to {first + 4} on {name}, and with patterns",
        found,
        drawing.maps,
        (4 * side, 3.3 * side),
        repeats=True,
        tuning=tuning,
    )
    for number, model in enumerate(FIVE, start=first):
        yield Figure(
            f"figure{number}",
            f"Figure {number}: ROC-AUC of all pairs, {name}, {model}",
            partial(only, found, model),
            drawing.maps,
            (1.6 * side, 1.4 * side),
            repeats=True,
            tuning=tuning,
        )


FIGURES = (
    Figure("figure6", "Figure 6: losses before and after, driving", figure6, drawing.driving),
    Figure("figure7", "Figure 7: losses before and after, HAR", figure7, drawing.losses),
    *_maps("HAR", har_maps, 8, 4.0),
    *_maps("MNIST", mnist_maps, 13, 5.0),
    Figure("daef", "DAEF beside one merge", beside_daef, drawing.beside_daef, repeats=True),
    Figure("rounds", "BP-NN3-FL round by round, HAR", rounds, drawing.rounds),
    Figure("table4", "Table 4: latencies", table4, drawing.latencies, (13, 5), reads_data=False),
    Figure(
        "hardware",
        "Operations and memory by n and Ñ",
        hardware,
        drawing.hardware,
        (16, 4),
        reads_data=False,
    ),
    Figure("figure18", "Figure 18: merging or sequential updates", figure18, drawing.sequential),
    Figure(
        "communication",
        "§5.4: bytes up and down",
        communication,
        drawing.communication,
        reads_data=False,
    ),
    Figure(
        "digits",
        "One digit each: before and after one merge",
        digits,
        drawing.one_digit_each,
        reads_data=False,
    ),
)
FIGURES_2020 = (
    Figure(
        "figure5",
        "Figure 5: before and after, driving",
        figure5_of_2020,
        partial(drawing.driving, colours=drawing.COLOURS_2020),
    ),
)
