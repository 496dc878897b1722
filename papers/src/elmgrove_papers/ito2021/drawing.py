"""The pictures of Ito's losses, latencies, sequential updates and bytes, from their numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmgrove_papers.figure import Numbers
from elmgrove_papers.ito2021.losses import MERGED, A, B

#: The colours of the paper's Figures 6 and 7.
_COLOURS = {A: "tab:green", B: "tab:blue", MERGED: "tab:red", "BP-NN3": "tab:gray"}

#: Along a vertical line, below the upper edge of the axes.
_AT_THE_TOP = {
    **{"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "xytext": (-9, -4)},
    **{"rotation": 90, "va": "top", "fontsize": 7},
}


def losses(found: Numbers, canvas: Any) -> None:
    """A group of bars for each pattern; BP-NN3's have a scale of their own, as in the paper."""
    axis, rows = canvas.subplots(), found["loss"]
    kinds = list(next(iter(rows.values())))
    _bars(axis, rows, kinds, [kind for kind in kinds if kind != "BP-NN3"])
    axis.set_ylabel("mean loss")
    if "BP-NN3" in kinds:
        right = axis.twinx()
        _bars(right, rows, kinds, ["BP-NN3"])
        right.set_ylabel("mean loss of BP-NN3")
        right.get_legend().set_loc("upper left")


def latencies(found: Numbers, canvas: Any) -> None:
    """A group of bars for each step, beside the paper's, for each number of hidden units."""
    axes = canvas.subplots(1, len(found["milliseconds"]), sharey=True, squeeze=False)[0]
    kinds = ["OS-ELM", "BP-NN3-FL", "OS-ELM, paper", "BP-NN3-FL, paper"]
    for axis, (units, rows) in zip(axes, found["milliseconds"].items(), strict=True):
        _bars(axis, rows, kinds, kinds)
        axis.set_title(units)
    axes[0].set_ylabel("ms")


def sequential(found: Numbers, canvas: Any) -> None:
    """The loss over the number of sequential updates, and the merged model's as a line."""
    axis = canvas.subplots()
    for kind, colour in (("sequential", "tab:blue"), ("merged", "tab:red")):
        points = [(row["updates"], row[kind]) for row in found["loss"]]
        axis.plot(*zip(*points, strict=True), color=colour, label=kind)
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
    """A line for each choice; what needs no rounds is level."""
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
    """Bytes in all, up and down, for each data set."""
    axes = canvas.subplots(1, len(found["bytes a device"]), sharey=True, squeeze=False)[0]
    for axis, (name, rows) in zip(axes, found["bytes a device"].items(), strict=True):
        _bars(axis, rows, ["up", "down"], ["up", "down"])
        axis.set_title(name)
    axes[0].set_ylabel(f"bytes a device; R = {found['rounds']} rounds")


def _bars(
    axis: Any, rows: Mapping[str, Numbers], kinds: Sequence[str], drawn: Sequence[str]
) -> None:
    """A place for each kind in each row's group, a bar for those that are drawn."""
    width = 0.8 / len(kinds)
    for kind in drawn:
        places = np.arange(len(rows)) + (kinds.index(kind) - (len(kinds) - 1) / 2) * width
        heights = [row[kind] for row in rows.values()]
        axis.bar(places, heights, width, label=kind, color=_COLOURS.get(kind))
    axis.set_xticks(range(len(rows)), list(rows), fontsize=8)
    axis.set_yscale("log")
    axis.legend(fontsize=8)
