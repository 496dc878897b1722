"""The picture: ROC-AUC by set and method, and the faults that are flagged."""

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.quality import fleets
from benchmarks.quality.battery import ORACLE
from benchmarks.quality.methods import DEFAULT, OTHERS, OWN
from benchmarks.quality.runs import Results
from benchmarks.quality.summary import batteries, lines

_OURS, _THEIRS = "#1b6ca8", "#9a9a9a"


def draw(results: Results, path: Path) -> None:
    """Draws a panel for each set, AUC with its spread over devices, and one for the faults."""
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = import_module("matplotlib.pyplot")
    known = dict.fromkeys(one.set for one in results.records)
    sets = [name for name in known if name not in fleets.TITLES]
    shown = [name for name in fleets.FLEETS if fleets.fleet_title(name, None) in known]
    panels = len(sets) + len(shown) + bool(results.battery)
    if not panels:
        return
    columns = min(panels, 4)
    rows = -(-panels // columns)
    size = (4.2 * columns, 4.6 * rows)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="tight")
    flat = list(axes.flat)
    for name, axis in zip(sets, flat, strict=False):
        _set(results, name, axis)
    for name, axis in zip(shown, flat[len(sets) :], strict=False):
        _fleet(results, name, axis)
    if results.battery:
        _faults(results, flat[panels - 1])
    for axis in flat[panels:]:
        axis.axis("off")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _set(results: Results, name: str, axis: Any) -> None:
    known = {one.method: one for one in lines(results.records) if one.set == name}
    shown = [entry.name for entry in OWN + OTHERS if entry.name in known][::-1]
    aucs = [known[method].auc for method in shown]
    spreads = [known[method].devices_spread for method in shown]
    colours = [_OURS if method.startswith(DEFAULT) else _THEIRS for method in shown]
    axis.barh(shown, aucs, xerr=spreads, color=colours, ecolor="#555555")
    axis.set_xlim(max(0.0, min(0.5, min(aucs) - 0.05)), 1.0)
    axis.set_title(f"{name}: AUC (± over devices)", fontsize=10)
    axis.tick_params(labelsize=7)


def _fleet(results: Results, name: str, axis: Any) -> None:
    titles = [title for title, (fleet, _) in fleets.TITLES.items() if fleet == name]
    known = {(one.set, one.method): one.auc for one in lines(results.records)}
    titles = [title for title in titles if (title, fleets.ALONE) in known]
    labels = [str(fleets.TITLES[title][1] or "all") for title in titles]
    for way in fleets.WAYS:
        strong = 2 if way == fleets.LOAN else 1
        aucs = [known[title, way] for title in titles]
        axis.plot(labels, aucs, marker="o", markersize=3, label=way, lw=strong)
    axis.set_title(f"{name} as a fleet: AUC by own rows", fontsize=10)
    axis.legend(fontsize=6)
    axis.tick_params(labelsize=7)


def _faults(results: Results, axis: Any) -> None:
    found = batteries(results.battery)
    there = {one.method for one in found}
    for entry in [ORACLE, *(one.name for one in OWN + OTHERS)]:
        if entry in there:
            widths = sorted({one.sensors for one in found if one.method == entry})
            alike = [[o for o in found if (o.method, o.sensors) == (entry, n)] for n in widths]
            shares = [sum(one.mean["block"] for one in part) / len(part) for part in alike]
            strong = entry in (DEFAULT, ORACLE)
            axis.plot(widths, shares, marker="o", markersize=3, label=entry, lw=2 if strong else 1)
    axis.set_xscale("log", base=2)
    axis.set_ylim(0, 1.02)
    axis.set_title("simulated faults of 6 σ in blocks: rows flagged", fontsize=10)
    axis.set_xlabel("sensors", fontsize=8)
    axis.legend(fontsize=5, ncols=2)
    axis.tick_params(labelsize=7)
