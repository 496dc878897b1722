"""The pictures of Ito's figures and tables, from their numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.figure import Numbers
from elmgrove_papers.ito2021.losses import MERGED, A, B
from elmgrove_papers.ito2021.trial import OURS

#: The colours of the paper's Figures 6 and 7.
_COLOURS = {A: "tab:green", B: "tab:blue", MERGED: "tab:red", "BP-NN3": "tab:gray"}

#: Those of Figure 5 of Ito 2020.
COLOURS_2020 = {A: "tab:gray", B: "tab:blue", MERGED: "tab:orange"}
#: Along a vertical line, below the upper edge of the axes.
_AT_THE_TOP = {
    "xycoords": ("data", "axes fraction"),
    "textcoords": "offset points",
    "xytext": (-9, -4),
    "rotation": 90,
    "va": "top",
    "fontsize": 7,
}
#: Over a group of bars.
_ABOVE = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "fontsize": 8}
#: Maps side by side.
_COLUMNS = 4
#: Where colours begin: few cells are worse than chance.
_LOWEST = 0.4


def losses(found: Numbers, canvas: Any) -> None:
    """Draws a group of bars for each pattern; BP-NN3's have their own scale, as in the paper."""
    axis, rows = canvas.subplots(), found["loss"]
    models = list(next(iter(rows.values())))
    _bars(axis, rows, models, [model for model in models if model != "BP-NN3"])
    axis.set_ylabel("mean loss")
    if "BP-NN3" in models:
        right = axis.twinx()
        _bars(right, rows, models, ["BP-NN3"])
        right.set_ylabel("mean loss of BP-NN3")
        right.get_legend().set_loc("upper left")


def driving(found: Numbers, canvas: Any, colours: Mapping[str, str] = _COLOURS) -> None:
    """Draws a plot for each tested style: a group of bars for each tested driver, and their mean.

    Above a group: how many times lower the loss is after the merge, at the device that had not
    learned that style.
    """
    loss, falls = found["loss"], found["times lower after the merge"]
    fallen = sorted(key.split(" at ") for key in next(iter(falls.values())))
    axes = canvas.subplots(1, len(fallen), sharey=True)
    for axis, (style, device) in zip(axes, fallen, strict=True):
        rows = {driver: tested[style] for driver, tested in loss.items()}
        _bars(axis, rows, [A, B, MERGED], [A, B, MERGED], colours)
        axis.get_legend().remove()
        for place, (driver, row) in enumerate(rows.items()):
            times = f"÷ {falls[driver][f'{style} at {device}']:.3g}"
            axis.annotate(times, (place, max(row.values())), **_ABOVE)
        axis.set_title(f"{style} driving (÷: by how much {device}'s loss falls)", fontsize=9)
        axis.set_xlabel("tested driver")
        axis.margins(y=0.1)
    axes[0].set_ylabel("mean loss")
    learned = {device: f"{device} learned {text}" for device, text in found["learned"].items()}
    handles, names = axes[0].get_legend_handles_labels()
    texts = [learned.get(name, f"{name}: after the cooperative update") for name in names]
    canvas.legend(handles, texts, loc="outside lower center", fontsize=8, ncols=2)


def latencies(found: Numbers, canvas: Any) -> None:
    """Draws a group of bars for each step, beside the paper's, for each number of hidden units."""
    axes = canvas.subplots(1, len(found["milliseconds"]), sharey=True, squeeze=False)[0]
    models = ["OS-ELM", "BP-NN3-FL", "OS-ELM, paper", "BP-NN3-FL, paper"]
    for axis, (units, rows) in zip(axes, found["milliseconds"].items(), strict=True):
        _bars(axis, rows, models, models)
        axis.set_title(units)
    axes[0].set_ylabel("ms")


def sequential(found: Numbers, canvas: Any) -> None:
    """Draws the loss over the number of sequential updates, and the merged model's as a line."""
    axis = canvas.subplots()
    for model, colour in (("sequential", "tab:blue"), ("merged", "tab:red")):
        points = [(row["updates"], row[model]) for row in found["loss"]]
        axis.plot(*zip(*points, strict=True), color=colour, label=model)
    reached = {row["updates"]: text for text, row in found["crossing"].items()}
    # Where two are reached at once, the nearer one is named.
    for updates, text in reached.items():
        if updates is not None:
            axis.axvline(updates, color="tab:gray", linewidth=0.8)
            axis.annotate(text, (updates, 1.0), **_AT_THE_TOP)
    paper = next(iter(found["crossing"].values()))["paper"]
    axis.axvline(paper, color="black", linestyle=":", label="the paper's lines meet")
    axis.set(xlabel="sequential updates", ylabel="mean loss on laying", yscale="log")
    axis.legend(loc="center right")


def rounds(found: Numbers, canvas: Any) -> None:
    """Draws a line for each choice; what needs no rounds is level."""
    axis = canvas.subplots()
    for text, row in found["mean auc"].items():
        marks = [int(name.removeprefix("round ")) for name in row]
        axis.plot(marks, list(row.values()), marker="o", label=f"BP-NN3-FL, {text}")
    for (text, auc), style in zip(found["without rounds"].items(), ("--", ":"), strict=True):
        axis.axhline(auc["auc"], color="black", linestyle=style, label=text)
    axis.set(xlabel="rounds", ylabel="mean ROC-AUC", xscale="log")
    axis.set_xticks(marks, marks)
    axis.legend(fontsize=8)


def communication(found: Numbers, canvas: Any) -> None:
    """Draws the bytes in all, up and down, for each data set."""
    axes = canvas.subplots(1, len(found["bytes a device"]), sharey=True, squeeze=False)[0]
    for axis, (name, rows) in zip(axes, found["bytes a device"].items(), strict=True):
        _bars(axis, rows, ["up", "down"], ["up", "down"])
        axis.set_title(name)
    axes[0].set_ylabel(f"bytes a device; R = {found['rounds']} rounds")


def _bars(
    axis: Any,
    rows: Mapping[str, Numbers],
    models: Sequence[str],
    drawn: Sequence[str],
    colours: Mapping[str, str] = _COLOURS,
) -> None:
    """A place for each model in each row's group, a bar for those that are drawn."""
    width = 0.8 / len(models)
    for model in drawn:
        places = np.arange(len(rows)) + (models.index(model) - (len(models) - 1) / 2) * width
        heights = [row[model] for row in rows.values()]
        axis.bar(places, heights, width, label=model, color=colours.get(model))
    axis.set_xticks(range(len(rows)), list(rows), fontsize=8)
    axis.set_yscale("log")
    axis.legend(fontsize=8)


def maps(found: Numbers, canvas: Any) -> None:
    """Draws a map for each model. Bold: the best of the paper's five, and what of ours is above."""
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
            ha="center",
            va="center",
            fontsize=size,
            weight="bold" if bold[row, column] else "normal",
            color="white" if value > 0.75 else "black",
        )
    short = [name.replace("_", "\n").lower() for name in names]
    axis.set_xticks(range(len(names)), short, fontsize=size)
    axis.set_yticks(range(len(names)), short, fontsize=size)
    axis.set_xlabel("device B", fontsize=size + 1)
    axis.set_ylabel("device A", fontsize=size + 1)
