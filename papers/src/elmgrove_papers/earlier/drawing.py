"""The pictures of the earlier papers' figures, from their numbers."""

from collections.abc import Mapping
from typing import Any

from elmgrove_papers.earlier.forgetting import NEWEST, PHASES, SCORE, SO_FAR
from elmgrove_papers.earlier.rooms import FORGETTING
from elmgrove_papers.figure import Numbers
from elmgrove_papers.pictures import COLOURS

#: Outside of the axes, on their right.
_BESIDE = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "fontsize": 8}
#: What a device does in a new room; each has its colour, by loss and by distance.
_WAYS = (
    "one model",
    "an instance a speed",
    f"forgetting {FORGETTING}",
    "new room alone",
    "one merge",
    "asks the peer",
    "the peer itself",
)
_BY_SCORE = {
    "loss": {"linestyle": "-", "marker": "o"},
    "distance": {"linestyle": "--", "marker": "s"},
}


def instances(found: Numbers, canvas: Any) -> None:
    """Draws the number of models and the ROC-AUC over rows; a column for each stream."""
    patterns = found["patterns"]
    grid = canvas.subplots(2, len(patterns), sharex="col", squeeze=False)
    for column, (name, count) in zip(grid.T, patterns.items(), strict=True):
        for axis, key in zip(column, ("models", "auc"), strict=True):
            for text, points in found[f"{key} over time"].items():
                stream, _, model = text.partition(", ")
                if stream == name:
                    _line(axis, points, model)
            _changes(axis, 2 * count)
        column[0].axhline(count, color="black", linestyle=":", label="patterns in the stream")
        column[0].set_title(name)
        column[1].set_xlabel("rows (grey: another pattern comes; black: all come again)")
    grid[0, 0].set_ylabel("models")
    grid[1, 0].set_ylabel("ROC-AUC, all patterns so far are normal")
    grid[0, -1].legend(**_BESIDE)


def forgetting(found: Numbers, canvas: Any) -> None:
    """Draws ROC-AUC over rows in both meanings of a change, and the loss on the newest pattern."""
    axes = canvas.subplots(3, 1, sharex=True)
    for axis, key in zip(axes, (NEWEST, SO_FAR, SCORE), strict=True):
        for text, points in found["over time"].items():
            model = text.removesuffix(f", {key}")
            # Distances are in units of their own.
            if model != text and not (key == SCORE and model.startswith("distance")):
                _line(axis, points, model)
        _changes(axis, PHASES)
        axis.set_ylabel("median loss\nof the newest" if key == SCORE else f"ROC-AUC,\n{key}")
        axis.set_yscale("log" if key == SCORE else "linear")
    axes[-1].set_xlabel("rows (grey: another activity becomes normal)")
    axes[0].legend(**_BESIDE)


def rooms(found: Numbers, canvas: Any) -> None:
    """Draws ROC-AUC over rows of retraining for each move; before it, on the left."""
    axes = canvas.subplots(1, len(found["auc"]), sharey=True, squeeze=False)[0]
    for axis, (move, table) in zip(axes, found["auc"].items(), strict=True):
        steps = list(next(iter(table.values())))
        for model, row in table.items():
            marks = {steps.index(key): value for key, value in row.items() if value is not None}
            later = {mark: value for mark, value in marks.items() if mark}
            score, _, way = model.partition(", ")
            colour = COLOURS[_WAYS.index(way or "one model")]
            style = _BY_SCORE[score] | {"color": colour}
            if 0 in marks:
                axis.plot([0], [marks[0]], markersize=5, **style)
            axis.plot(list(later), list(later.values()), markersize=4, label=model, **style)
        axis.axvline(0.5, color="black", linewidth=0.8)
        axis.set_xticks(range(len(steps)), steps, fontsize=8)
        axis.set(title=move, xlabel="rows of retraining in the new room (0: none)")
    axes[0].set_ylabel("ROC-AUC, damaged or normal")
    axes[-1].legend(**_BESIDE)


def _line(axis: Any, points: Mapping[str, float], label: str) -> None:
    style = {"linestyle": "--", "linewidth": 2.0} if "distance" in label else {}
    axis.plot([int(rows) for rows in points], list(points.values()), label=label, **style)


def _changes(axis: Any, phases: int) -> None:
    """Lines where a phase begins, up to where the drawn ones end; black in the middle of all."""
    total = max(axis.lines[0].get_xdata())
    for phase in range(1, phases):
        again = 2 * phase == phases
        axis.axvline(total * phase / phases, color="black" if again else "silver", linewidth=0.8)
