"""Figures 8 to 17 by their names; and all maps of a data set in one picture, ours as well."""

from functools import partial

from elmgrove.papers.figure import Figure
from elmgrove.papers.ito2021.heat_maps import FIVE, har_maps, mnist_maps, only
from elmgrove.papers.ito2021.map_drawing import maps

_SETS = (("HAR", har_maps, 8, 4.0), ("MNIST", mnist_maps, 13, 5.0))

HEAT_MAPS = tuple(
    Figure(
        f"figure{number}",
        f"Figure {number}: ROC-AUC of all pairs, {name}, {model}",
        partial(only, found, model),
        maps,
        (1.5 * side, 1.4 * side),
        repeats=True,
    )
    for name, found, first, side in _SETS
    for number, model in enumerate(FIVE, start=first)
) + tuple(
    Figure(
        f"{name.lower()}-pairs",
        f"Figures {first} to {first + 4} on {name}, and with patterns",
        found,
        maps,
        (3 * side, 2 * side),
        repeats=True,
    )
    for name, found, first, side in _SETS
)
