"""All maps of a data set in one picture, ours as well; and Figures 8 to 17, one of them each."""

from collections.abc import Callable, Iterator
from functools import partial

from elmgrove_papers.figure import Figure, Numbers, Run
from elmgrove_papers.ito2021.heat_maps import FIVE, har_maps, mnist_maps, only
from elmgrove_papers.ito2021.map_drawing import maps


def _of(name: str, found: Callable[[Run], Numbers], first: int, side: float) -> Iterator[Figure]:
    """The figures of a data set, from the number of its first one; a side is of one map."""
    yield Figure(
        f"{name.lower()}-pairs",
        f"Figures {first} to {first + 4} on {name}, and with patterns",
        found,
        maps,
        (4 * side, 2.3 * side),
        repeats=True,
    )
    for number, model in enumerate(FIVE, start=first):
        yield Figure(
            f"figure{number}",
            f"Figure {number}: ROC-AUC of all pairs, {name}, {model}",
            partial(only, found, model),
            maps,
            (1.6 * side, 1.4 * side),
            repeats=True,
        )


HEAT_MAPS = (*_of("HAR", har_maps, 8, 4.0), *_of("MNIST", mnist_maps, 13, 5.0))
