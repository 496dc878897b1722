"""The pictures of MLMG's figures, from their numbers."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from elmgrove_papers.figure import Numbers
from elmgrove_papers.mlmg.others import ITEMS


def table(found: Numbers, canvas: Any) -> None:
    """Draws each approach's F-score and ROC-AUC, side by side; the paper's F-score as a line."""
    _bars({name: part for name, part in found.items() if name != ITEMS}, canvas)


def fans(found: Numbers, canvas: Any) -> None:
    """Draws the table, and below it each device's ROC-AUC step by step, in each story."""
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
    grid[0, 0].legend(fontsize=7)


def comparison(found: Numbers, canvas: Any) -> None:
    """Draws bars for each paradigm and number of groups; the choice has a dark edge."""
    cases = {name: part for name, part in found.items() if name != ITEMS}
    grid = canvas.subplots(len(cases), 2, squeeze=False)
    for line, (case, paradigms) in zip(grid, cases.items(), strict=True):
        for axis, measure in zip(line, ("auc_own", "accuracy"), strict=True):
            bars = list(_paradigm_bars(paradigms))
            for place, (_, numbers, chosen) in enumerate(bars):
                for shift, rule, colour in ((-0.2, "FedAvg", "silver"), (0.2, "E²LM", "gold")):
                    edge = {"edgecolor": "black", "linewidth": 2} if chosen else {}
                    axis.bar(place + shift, numbers[rule][measure], 0.4, color=colour, **edge)
            axis.set_xticks(range(len(bars)), [text for text, *_ in bars], rotation=90, fontsize=7)
            axis.set_title(f"{case}: {measure.replace('_', ' ')} (grey FedAvg, yellow E²LM)")


def pairs(found: Numbers, canvas: Any) -> None:
    """Draws the mean ROC-AUC of each variant, and the pairs' values as dots."""
    axis = canvas.subplots()
    for place, (variant, means) in enumerate(found["mean"].items()):
        axis.bar(place, means["auc"], 0.6, color="silver")
        dots = [row[variant]["auc"] for row in found["pairs"]]
        axis.plot(np.full(len(dots), place), dots, ".", color="black", alpha=0.4)
        axis.text(place, 1.01, f"{means['auc']:.3f}", ha="center")
    names = [variant.replace(", ", ",\n") for variant in found["mean"]]
    axis.set_xticks(range(len(names)), names, fontsize=8)
    axis.set_ylabel("ROC-AUC, both patterns normal")
    axis.set_ylim(0, 1.1)


def settings(found: Numbers, canvas: Any) -> None:
    """Draws own and peers' ROC-AUC of each setting, for each data set."""
    grid = canvas.subplots(1, len(found), sharey=True, squeeze=False)
    for axis, (name, rows) in zip(grid[0], found.items(), strict=True):
        count = list(rows[0]).index("patterns found")
        texts = [", ".join(map(str, list(row.values())[:count])) for row in rows]
        for key, style in (("auc_own", "o-"), ("auc_own_alone", "o:"), ("auc_peers", "s-")):
            axis.plot([row[key] for row in rows], style, label=key.replace("_", " "))
        axis.set_xticks(range(len(rows)), texts, rotation=90, fontsize=7)
        axis.set_title(name)
    grid[0][0].legend(fontsize=7)


def _bars(tables: Numbers, canvas: Any) -> None:
    axes = canvas.subplots(1, len(tables), squeeze=False, sharey=True)[0]
    for axis, (title, rows) in zip(axes, tables.items(), strict=True):
        keys = ("f_score", "auc_own", "auc_peers")
        for shift, key in zip((-0.27, 0.0, 0.27), keys, strict=True):
            values = [row[key] for row in rows.values()]
            axis.bar(np.arange(len(rows)) + shift, values, 0.27, label=key.replace("_", " "))
        for place, row in enumerate(rows.values()):
            if "paper" in row:
                axis.hlines(row["paper"]["f_score"], place - 0.4, place - 0.14, color="black")
        axis.set_xticks(range(len(rows)), list(rows), rotation=60, ha="right", fontsize=8)
        printed = any("paper" in row for row in rows.values())
        axis.set_title(f"{title} (line: F-score in the paper)" if printed else title)
    axes[0].legend(fontsize=8, loc="lower left")


def _paradigm_bars(paradigms: Numbers) -> Iterator[tuple[str, Any, bool]]:
    for name, paradigm in paradigms.items():
        for count, numbers in paradigm["groups"].items():
            chosen = int(count) == paradigm["chosen"] and len(paradigm["groups"]) > 1
            yield f"{name} {count}", numbers, chosen
