"""What came out of a contest: a table, an object for JSON, and a picture."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.table import Table as Grid

from elmgrove.algebra import Array
from elmgrove.cli.evaluation.contest import LEARNING_ON, OWN, STREAM, Contest, Measured
from elmgrove.cli.evaluation.metrics import Found, Ranking
from elmgrove.cli.options import percent
from elmgrove.detector import TIME, Course, draw_scores, save_picture
from elmgrove.errors import require_extra

# Okabe and Ito's colours, which colour-blind people can tell apart; the first is the detector's.
_COLOURS = ("#0072B2", "#000000", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_GREEN = "#009E73"
# Points of a curve that are drawn.
_POINTS = 1000


def grid_of(lines: Sequence[Measured]) -> Grid:
    """Makes the table: a line for each method; delays are medians."""
    headings = [
        "AUC",
        "average\nprecision",
        "recall",
        "false\nalarms",
        "events\nfound",
        "false\nevents",
        "alarmed\noutside",
        "delay",
    ]
    grid = Grid(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    grid.add_column("\nmethod", no_wrap=True)
    for heading in headings:
        grid.add_column(heading if "\n" in heading else f"\n{heading}", justify="right")
    for one in lines:
        found = one.found
        grid.add_row(
            one.name,
            f"{one.ranking.auc:.3f}",
            f"{one.ranking.average_precision:.3f}",
            percent(one.recall),
            percent(one.false_alarms),
            f"{found.found} of {found.stretches}",
            f"{found.false_events:,}",
            percent(found.alarmed_outside),
            _delay(found),
            style="bold" if one.name == OWN else None,
        )
    return grid


def numbers_of(measured: Measured) -> dict[str, Any]:
    """Makes what was measured of a method an object for JSON."""
    return {
        "method": measured.name,
        "auc": measured.ranking.auc,
        "average_precision": measured.ranking.average_precision,
        "threshold": measured.threshold if np.isfinite(measured.threshold) else None,
        "recall": measured.recall,
        "precision": measured.precision,
        "false_alarms": measured.false_alarms,
        **asdict(measured.found),
    }


def draw_contest(contest: Contest, lines: Sequence[Measured], path: Path) -> None:
    """Draws how well rows are told apart, and below it the score with what was labelled."""
    figure = require_extra("matplotlib.figure", "plot").Figure(
        figsize=(11.0, 8.0), layout="constrained"
    )
    upper, lower = figure.subfigures(2, 1, height_ratios=(1.25, 1.0))
    left, right = upper.subplots(1, 2)
    for number, one in enumerate(_best(lines)):
        _curves(left, right, one, number)
    left.plot([0, 1], [0, 1], color="#bbbbbb", lw=0.8, ls=":")
    _frame(left, "false alarms: share of normal rows", "recall: share of labelled rows")
    _frame(right, "recall: share of labelled rows", "precision: share of flagged rows")
    left.set_title("Found against false alarms (ROC); points: at the threshold", fontsize=9)
    right.set_title("How many of the flagged are labelled", fontsize=9)
    right.axhline(float(contest.labels.mean()), color="#bbbbbb", lw=0.8, ls=":")
    left.legend(loc="lower right", fontsize=7.5, title="area below the curve", title_fontsize=7.5)
    axes, course = lower.subplots(), contest.course
    draw_scores(axes, course)
    _labelled(axes, course, contest)
    figure.suptitle(_title(contest, lines[0]), x=0.01, ha="left", fontsize=11, weight="bold")
    save_picture(figure, path)


def _delay(found: Found) -> str:
    if not found.delays:
        return "-"
    if found.seconds is not None:
        return _duration(median(found.seconds))
    rows = median(found.delays)
    return f"{rows:g} row{'s' * (rows != 1)}"


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.3g} s"


def _title(contest: Contest, own: Measured) -> str:
    found = own.found
    rows = f"{int(contest.labels.sum()):,} of {len(contest.labels):,} {contest.course.counted}"
    false = f"{found.false_events:,} event{'s' * (found.false_events != 1)}"
    return (
        f"{rows} are labelled anomalous: Elmgrove flags {percent(own.recall)} of them, and "
        f"{percent(own.false_alarms)} of the others;\nfinds {found.found} of {found.stretches} "
        f"labelled stretches, and tells of {false} beside them"
    )


def _best(lines: Sequence[Measured]) -> list[Measured]:
    """The detector as it is, and of each other method the better of its tries."""
    best = dict[str, Measured]()
    for one in lines:
        method = one.name.partition(" ×")[0]
        if method not in best or one.ranking.auc > best[method].ranking.auc:
            best[method] = one
    return [one for one in best.values() if one.name not in (LEARNING_ON, STREAM)]


def _curves(left: Any, right: Any, measured: Measured, number: int) -> None:
    ranking, own = measured.ranking, measured.name == OWN
    places = _places(ranking)
    style = {
        "color": _COLOURS[number % len(_COLOURS)],
        "lw": 2.2 if own else 1.1,
        "zorder": 3 if own else 2,
    }
    label = f"{measured.name} {ranking.auc:.3f}"
    false, recall = ranking.false_alarms, ranking.recall
    left.plot([0.0, *false[places]], [0.0, *recall[places]], label=label, **style)
    left.plot(measured.false_alarms, measured.recall, "o", ms=6 if own else 4, **style)
    right.step(recall[places], ranking.precision[places], where="pre", **style)
    if measured.precision is not None:
        right.plot(measured.recall, measured.precision, "o", ms=6 if own else 4, **style)


def _places(ranking: Ranking) -> Array:
    count = len(ranking.found)
    last = max(count - 1, 1)
    # Dense at its begin too: that is where thresholds lie.
    both = np.concatenate([np.linspace(0, last, _POINTS), np.geomspace(1, last, _POINTS)])
    return np.unique(np.minimum(both.astype(int), count - 1))


def _frame(axes: Any, across: str, up: str) -> None:
    axes.set(xlabel=across, ylabel=up, xlim=(-0.01, 1.01), ylim=(-0.01, 1.03))
    axes.grid(alpha=0.25, lw=0.5)
    axes.tick_params(labelsize=8)


def _labelled(axes: Any, course: Course, contest: Contest) -> None:
    """Marks labelled stretches by a strip below the scores."""
    x = course.where[contest.places] / (86400.0 if course.axis == TIME else 1.0)
    bars = [(x[one.start], x[one.stop - 1] - x[one.start]) for one in contest.stretches]
    style = {"facecolor": _GREEN, "edgecolor": _GREEN, "lw": 1.2, "zorder": 4}
    transform = axes.get_xaxis_transform()
    axes.broken_barh(bars, (0.0, 0.035), transform=transform, label="labelled anomalous", **style)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), fontsize=7.5, ncols=5, frameon=False)
