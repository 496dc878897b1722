"""Heat maps, from their numbers."""

from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.figure import Numbers
from elmgrove_papers.ito2021.trial import OURS

#: Maps side by side.
_COLUMNS = 4
#: Where colours begin: few cells are worse than chance.
_LOWEST = 0.4


def maps(found: Numbers, canvas: Any) -> None:
    """A map for each model. Bold: the best of the paper's five, and of ours what is above it."""
    shown, best = found["auc"], _rows(found["best of the five"])
    columns = min(_COLUMNS, len(shown))
    axes = canvas.subplots(-(-len(shown) // columns), columns, squeeze=False).ravel()
    for axis in axes[len(shown) :]:
        axis.remove()
    highest = np.max([_rows(rows) for model, rows in shown.items() if model not in OURS], axis=0)
    for axis, (model, rows) in zip(axes, shown.items(), strict=False):
        values = np.array(_rows(rows))
        chosen = np.array([[model in cell for cell in row] for row in best])
        bold = values > highest if model in OURS else chosen
        _map(axis, list(rows), values, bold, 6 if len(shown) > 1 else 8)
        mean = found["mean"][model]
        axis.set_title(
            f"{model}\nmean beside the diagonal {mean['auc']:.3f}, trials: {mean['trials']}",
            fontsize=8,
        )
    canvas.colorbar(axis.images[0], ax=canvas.axes, label="ROC-AUC", shrink=0.6, extend="min")
    ours = "; of ours: above all five" if len(shown) > 1 else ""
    canvas.supxlabel(f"{found['features']} features. Bold: best of the five models{ours}", size=8)


def _rows(table: Numbers) -> list[list[Any]]:
    return [list(row.values()) for row in table.values()]


def _map(axis: Any, names: list[str], values: Array, bold: Array, size: int) -> None:
    axis.imshow(values, vmin=_LOWEST, vmax=1.0, cmap="YlGnBu")
    for (row, column), value in np.ndenumerate(values):
        axis.text(
            *(column, row, f"{value:.3f}"),
            **{"ha": "center", "va": "center", "fontsize": size},
            weight="bold" if bold[row, column] else "normal",
            color="white" if value > 0.75 else "black",
        )
    short = [name.replace("_", "\n").lower() for name in names]
    axis.set_xticks(range(len(names)), short, fontsize=size)
    axis.set_yticks(range(len(names)), short, fontsize=size)
    axis.set_xlabel("device B", fontsize=size + 1)
    axis.set_ylabel("device A", fontsize=size + 1)
