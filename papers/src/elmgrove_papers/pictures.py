"""What all pictures have in common: colours that everybody tells apart, legends beside the axes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: Okabe and Ito's, without yellow, which is hard to see on white; in the order of drawing.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
BLUE, ORANGE, GREEN, PINK, SKY, RED, BLACK = COLOURS
GREY = "#999999"


def legend(canvas: Any, *axes: Any, size: int = 8) -> None:
    """Puts one legend beside the axes, where it covers nothing; a name stands in it once."""
    named = dict[str, Any]()
    for axis in axes:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(name, handle)
    canvas.legend(named.values(), named.keys(), loc="outside right upper", fontsize=size)


def bars(
    axis: Any,
    rows: Mapping[str, Mapping[str, Any]],
    keys: Sequence[str],
    colours: Mapping[str, str] | None = None,
    drawn: Sequence[str] | None = None,
) -> None:
    """Draws a group of bars for each row: a place for each key, a bar for those that are drawn."""
    width = 0.8 / len(keys)
    for key in keys if drawn is None else drawn:
        place = keys.index(key)
        places = np.arange(len(rows)) + (place - (len(keys) - 1) / 2) * width
        colour = (colours or {}).get(key, COLOURS[place % len(COLOURS)])
        heights = [row[key] for row in rows.values()]
        axis.bar(places, heights, width, label=key.replace("_", " "), color=colour)
    names = [name.replace("_", " ").lower() if name.isupper() else name for name in rows]
    axis.set_xticks(range(len(rows)), names, fontsize=8)
