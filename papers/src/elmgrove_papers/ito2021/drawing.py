"""The pictures of Ito's figures and tables, from their numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.figure import Numbers
from elmgrove_papers.ito2021.losses import MERGED, A, B
from elmgrove_papers.ito2021.one_digit_each import AFTER, AUC, BEFORE, PEERS, UNKNOWN
from elmgrove_papers.ito2021.trial import DAEF, OURS
from elmgrove_papers.pictures import BLUE, GREEN, GREY, ORANGE, RED, SKY, bars, legend

#: The colours of the paper's Figures 6 and 7, in shades that everybody tells apart.
_COLOURS = {A: GREEN, B: BLUE, MERGED: RED, "BP-NN3": GREY}

#: Those of Figure 5 of Ito 2020.
COLOURS_2020 = {A: GREY, B: BLUE, MERGED: ORANGE}
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
    bars(axis, rows, models, _COLOURS, [model for model in models if model != "BP-NN3"])
    axis.set(xlabel="tested with", ylabel="mean loss", yscale="log")
    if "BP-NN3" not in models:
        legend(canvas, axis)
        return
    right = axis.twinx()
    bars(right, rows, models, _COLOURS, ["BP-NN3"])
    right.set(ylabel="mean loss of BP-NN3", yscale="log")
    legend(canvas, axis, right)


def one_digit_each(found: Numbers, canvas: Any) -> None:
    """Draws losses on the peers' digits and ROC-AUC as bars, before and after the merge."""
    rows = found["loss and AUC"]
    for axis, measure in zip(canvas.subplots(1, 2), (PEERS, AUC), strict=True):
        columns = [f"{measure} {when}" for when in (BEFORE, AFTER)]
        bars(axis, rows, columns, dict(zip(columns, (GREY, BLUE), strict=True)))
        axis.set_ylabel("ROC-AUC" if measure == AUC else f"mean loss on {measure}")
        chance = np.mean([row[f"{UNKNOWN} {AFTER}"] for row in rows.values()])
        label = "chance" if measure == AUC else f"on {UNKNOWN}, after"
        axis.axhline(0.5 if measure == AUC else chance, color=RED, linestyle="--", label=label)
        axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3)


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
        bars(axis, rows, [A, B, MERGED], colours)
        for place, (driver, row) in enumerate(rows.items()):
            times = f"÷ {falls[driver][f'{style} at {device}']:.3g}"
            axis.annotate(times, (place, max(row.values())), **_ABOVE)
        axis.set_title(f"{style} driving (÷: by how much {device}'s loss falls)", fontsize=9)
        axis.set(xlabel="tested driver", yscale="log")
        axis.margins(y=0.1)
    axes[0].set_ylabel("mean loss")
    learned = {device: f"{device} learned {text}" for device, text in found["learned"].items()}
    handles, names = axes[0].get_legend_handles_labels()
    texts = [learned.get(name, f"{name}: after the cooperative update") for name in names]
    canvas.legend(handles, texts, loc="outside lower center", fontsize=8, ncols=2)


def latencies(found: Numbers, canvas: Any) -> None:
    """Draws a group of bars for each step, beside the paper's, for each number of hidden units."""
    axes = canvas.subplots(1, len(found["milliseconds"]), sharey=True, squeeze=False)[0]
    colours = dict(zip(("OS-ELM", "BP-NN3-FL"), (BLUE, ORANGE), strict=True))
    colours |= dict(zip(("OS-ELM, paper", "BP-NN3-FL, paper"), (SKY, "#F3D08A"), strict=True))
    for axis, (units, rows) in zip(axes, found["milliseconds"].items(), strict=True):
        bars(axis, rows, list(colours), colours)
        axis.set(title=units, xlabel="step", yscale="log")
    axes[0].set_ylabel("time of a call, ms")
    legend(canvas, axes[0])


def sequential(found: Numbers, canvas: Any) -> None:
    """Draws the loss over the number of sequential updates, and the merged model's as a line."""
    axis = canvas.subplots()
    for model, colour in (("sequential", BLUE), ("merged", RED)):
        points = [(row["updates"], row[model]) for row in found["loss"]]
        axis.plot(*zip(*points, strict=True), color=colour, label=model)
    reached = {row["updates"]: text for text, row in found["crossing"].items()}
    # Where two are reached at once, the nearer one is named.
    for updates, text in reached.items():
        if updates is not None:
            axis.axvline(updates, color=GREY, linewidth=0.8)
            axis.annotate(text, (updates, 1.0), **_AT_THE_TOP)
    paper = next(iter(found["crossing"].values()))["paper"]
    axis.axvline(paper, color="black", linestyle=":", label="the paper's lines meet")
    axis.set(xlabel="sequential updates", ylabel="mean loss on laying", yscale="log")
    legend(canvas, axis)


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
    legend(canvas, axis)


def communication(found: Numbers, canvas: Any) -> None:
    """Draws the bytes in all, up and down, for each data set."""
    axes = canvas.subplots(1, len(found["bytes a device"]), sharey=True, squeeze=False)[0]
    for axis, (name, rows) in zip(axes, found["bytes a device"].items(), strict=True):
        bars(axis, rows, ["up", "down"])
        axis.set(title=name, xlabel="what is sent", yscale="log")
    axes[0].set_ylabel(f"bytes a device; R = {found['rounds']} rounds")
    legend(canvas, axes[0])


def beside_daef(found: Numbers, canvas: Any) -> None:
    """Draws each model's mean ROC-AUC and its worst pair, and the numbers that a device sends."""
    left, right = canvas.subplots(1, 2)
    for name, marker in (("HAR", "o"), ("MNIST", "s")):
        rows = found[f"{name}, mean"]
        for key, fill in (("auc", "full"), ("worst pair", "none")):
            values = [row[key] for row in rows.values()]
            left.plot(values, list(rows), marker, fillstyle=fill, label=f"{name}, {key}")
    left.set_xlabel("ROC-AUC, mean over trials")
    costs = found["cost a device"]
    right.barh(list(costs), [row["numbers sent"] / 1000 for row in costs.values()], color="silver")
    right.set_xlabel("thousands of numbers that a device sends")
    for axis in (left, right):
        axis.invert_yaxis()
    legend(canvas, left)


def hardware(found: Numbers, canvas: Any) -> None:
    """Draws what was measured over what was counted: times of each step, and bytes held."""
    *steps, last = canvas.subplots(1, 5)
    sizes = {name: name.rpartition(", ")[2] for name in found["microseconds"]}
    styles = dict(zip(dict.fromkeys(sizes.values()), "os^", strict=True))
    for way, marker in styles.items():
        mine = [name for name, its in sizes.items() if its == way]
        for axis, step in zip(steps, found["microseconds"][mine[0]], strict=True):
            counts = [found["multiplications"][name][step] for name in mine]
            times = [found["microseconds"][name][step] for name in mine]
            axis.plot(counts, times, marker, label=way)
            axis.set(yscale="log", title=step, xlabel="multiplications, counted")
            # To give may be to copy: no multiplication at all.
            axis.set_xscale("symlog", linthresh=100)
        held = [found["bytes held"][name] for name in mine]
        last.plot([row["counted"] for row in held], [row["measured"] for row in held], marker)
    last.axline((1e5, 1e5), (1e6, 1e6), color="gray", linewidth=0.8)
    last.set(xscale="log", yscale="log", title="memory", xlabel="bytes, counted")
    last.set_ylabel("bytes, measured")
    for axis in steps[1:]:
        axis.sharey(steps[0])
    steps[0].set_ylabel("µs, measured")
    legend(canvas, steps[0])


def maps(found: Numbers, canvas: Any) -> None:
    """Draws a map for each model. Bold: the best of the paper's five, and others above it."""
    shown, best = found["auc"], _rows(found["best of the five"])
    columns = min(_COLUMNS, len(shown))
    axes = canvas.subplots(-(-len(shown) // columns), columns, squeeze=False).ravel()
    for axis in axes[len(shown) :]:
        axis.remove()
    others = (*OURS, *DAEF)
    highest = np.max([_rows(rows) for model, rows in shown.items() if model not in others], axis=0)
    for axis, (model, rows) in zip(axes, shown.items(), strict=False):
        values = np.array(_rows(rows))
        chosen = np.array([[model in cell for cell in row] for row in best])
        bold = values > highest if model in others else chosen
        _map(axis, list(rows), values, bold, 6 if len(shown) > 1 else 8)
        mean = found["mean"][model]
        axis.set_title(
            f"{model}\nmean beside the diagonal {mean['auc']:.3f}, trials: {mean['trials']}",
            fontsize=8,
        )
    canvas.colorbar(axis.images[0], ax=canvas.axes, label="ROC-AUC", shrink=0.6, extend="min")
    more = "; of the others: above all five" if len(shown) > 1 else ""
    canvas.supxlabel(f"{found['features']} features. Bold: best of the five models{more}", size=8)


def tuning(found: Numbers, canvas: Any) -> None:
    """Draws the 10-fold ROC-AUC of each candidate by its units; Table 3's has a ring."""
    axis = canvas.subplots()
    candidates = found["candidates"]
    for activation in dict.fromkeys(row["activation"] for row in candidates):
        rows = [row for row in candidates if row["activation"] == activation]
        units, aucs = ([row[key] for row in rows] for key in ("units", "auc, 10-fold"))
        axis.plot(units, aucs, "o-", label=activation)
    for row in candidates:
        if row["Table 3's"]:
            place = (row["units"], row["auc, 10-fold"])
            axis.plot(*place, "o", markersize=14, fillstyle="none", color="black", label="Table 3")
    axis.set_xscale("log", base=2)
    sizes = sorted({row["units"] for row in candidates})
    axis.set_xticks(sizes, sizes)
    axis.set_xlabel("hidden units")
    axis.set_ylabel("mean ROC-AUC over ten folds of the rows to learn from")
    legend(canvas, axis)


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
