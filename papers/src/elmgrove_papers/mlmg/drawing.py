"""The pictures of MLMG's figures, from their numbers."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from elmgrove_papers.figure import Numbers
from elmgrove_papers.mlmg.others import ITEMS
from elmgrove_papers.pictures import ORANGE, SKY, bars, legend


def table(found: Numbers, canvas: Any) -> None:
    """Draws each approach's F-score and ROC-AUC, side by side; the paper's F-score as a line."""
    _bars({name: part for name, part in found.items() if name != ITEMS}, canvas)


def fans(found: Numbers, canvas: Any) -> None:
    """Draws the table, and below it each device's ROC-AUC step by step in time, in each story."""
    upper, lower = canvas.subfigures(2, 1, height_ratios=(2, 3))
    _bars({"cooling fans": found["table"]}, upper)
    stories = {name: story for name, story in found.items() if name.startswith("story")}
    grid = lower.subplots(2, len(stories), sharex=True, sharey=True)
    for column, (name, story) in zip(grid.T, stories.items(), strict=True):
        devices = sorted({device for step in story for device in step["auc_own"]})
        for axis, key in zip(column, ("auc_own", "auc_peers"), strict=True):
            for device in devices:
                values = [step[key].get(device, np.nan) for step in story]
                axis.plot(range(len(values)), values, marker="o", label=device)
        column[0].set_title(name.partition(", ")[2] or "merged, patterns", fontsize=8)
        steps = [step["step"].replace(" has ", "\nhas ") for step in story]
        column[1].set_xticks(range(len(steps)), steps, fontsize=7, rotation=90)
    grid[0, 0].set_ylabel("ROC-AUC, own")
    grid[1, 0].set_ylabel("ROC-AUC, peers'")
    lower.supxlabel("step of the story", fontsize=8)
    legend(lower, *grid[0], size=7)


def comparison(found: Numbers, canvas: Any) -> None:
    """Draws bars for each paradigm and number of groups; the choice has a dark edge."""
    cases = {name: part for name, part in found.items() if name != ITEMS}
    grid = canvas.subplots(len(cases), 2, squeeze=False)
    named = {"auc_own": "ROC-AUC, own rows", "accuracy": "accuracy"}
    for line, (case, paradigms) in zip(grid, cases.items(), strict=True):
        for axis, (measure, text) in zip(line, named.items(), strict=True):
            _paradigm(axis, list(_paradigm_bars(paradigms)), measure)
            axis.set_title(case)
            axis.set(xlabel="paradigm, number of groups", ylabel=text)
    legend(canvas, grid[0, 0])


def _paradigm(axis: Any, groups: Sequence[tuple[str, Any, bool]], measure: str) -> None:
    chosen = np.array([chosen for *_, chosen in groups])
    edge = {"edgecolor": "black", "linewidth": 2, "label": "the number that the data suggest"}
    for shift, rule, colour in ((-0.2, "FedAvg", SKY), (0.2, "E²LM", ORANGE)):
        places = np.arange(len(groups)) + shift
        heights = np.array([row[rule][measure] for _, row, _ in groups])
        axis.bar(places, heights, 0.4, color=colour, label=rule)
        axis.bar(places[chosen], heights[chosen], 0.4, fill=False, **edge)
    axis.set_xticks(range(len(groups)), [text for text, *_ in groups], rotation=90, fontsize=7)


def pairs(found: Numbers, canvas: Any) -> None:
    """Draws the mean ROC-AUC of each variant, and the pairs' values as dots."""
    axis = canvas.subplots()
    for place, (variant, means) in enumerate(found["mean"].items()):
        axis.bar(place, means["auc"], 0.6, color="silver")
        dots = [row[variant]["auc"] for row in found["pairs"]]
        axis.plot(np.full(len(dots), place), dots, ".", color="black", alpha=0.4)
        axis.text(place, 1.04, f"{means['auc']:.3f}", ha="center")
    # A shape in brackets stays whole.
    names = [
        variant.replace(" (", "\n(") if "(" in variant else variant.replace(", ", ",\n")
        for variant in found["mean"]
    ]
    axis.set_xticks(range(len(names)), names, fontsize=8)
    axis.set(xlabel="what decides (bar: mean; dot: a device of a pair)", ylim=(0, 1.12))
    axis.set_ylabel("ROC-AUC, both patterns normal")


def settings(found: Numbers, canvas: Any) -> None:
    """Draws own and peers' ROC-AUC of each setting, for each data set."""
    grid = canvas.subplots(1, len(found), sharey=True, squeeze=False)
    for axis, (name, rows) in zip(grid[0], found.items(), strict=True):
        count = list(rows[0]).index("patterns found")
        texts = [", ".join(map(str, list(row.values())[:count])) for row in rows]
        bars(axis, dict(zip(texts, rows, strict=True)), ["auc_own_alone", "auc_own", "auc_peers"])
        axis.tick_params("x", rotation=90)
        axis.set(title=name, xlabel="what learns a row, patterns")
    grid[0][0].set_ylabel("ROC-AUC")
    legend(canvas, grid[0][0])


def _bars(tables: Numbers, canvas: Any) -> None:
    axes = canvas.subplots(1, len(tables), squeeze=False, sharey=True)[0]
    for axis, (title, rows) in zip(axes, tables.items(), strict=True):
        bars(axis, rows, ["f_score", "auc_own", "auc_peers"])
        for place, row in enumerate(rows.values()):
            if "paper" in row:
                ends, height = (place - 0.42, place - 0.12), row["paper"]["f_score"]
                axis.plot(ends, (height, height), color="black", label="f score in the paper")
        axis.set_xticks(range(len(rows)), list(rows), rotation=60, ha="right", fontsize=8)
        axis.set(title=title, xlabel="approach")
    axes[0].set_ylabel("F-score, ROC-AUC")
    legend(canvas, *axes)


def _paradigm_bars(paradigms: Numbers) -> Iterator[tuple[str, Any, bool]]:
    for name, paradigm in paradigms.items():
        for count, numbers in paradigm["groups"].items():
            chosen = int(count) == paradigm["chosen"] and len(paradigm["groups"]) > 1
            yield f"{name} {count}", numbers, chosen
