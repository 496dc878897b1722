"""Groups of patterns for people: a table, a reason, and a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table as Grid

from elmgrove.errors import require_extra
from elmgrove.federation import (
    Contribution,
    Grouping,
    LocalPattern,
    judge,
    local_models,
    parameters,
)

Matrix = NDArray[Any]


def grid_of(found: Grouping) -> Grid:
    """One line for each group."""
    grid = Grid(title=f"Patterns that are of one kind, by {found.distance}")
    grid.add_column("group", justify="right")
    grid.add_column("device (pattern)")
    grid.add_column("rows", justify="right")
    if found.steps:
        grid.add_column("error grew by", justify="right")
    for number in found.numbers:
        members = found.members(number)
        rows = sum(model.evidence.count for model in members)
        line = [str(number), ", ".join(map(name_of, members)), f"{rows:,.0f}"]
        if found.steps:
            line.append(f"{found.loss_within(number):.2%}" if len(members) > 1 else "")
        grid.add_row(*line)
    return grid


def standing_of(told: dict[str, Any], contributions: Sequence[Contribution]) -> Grouping:
    """The groups that a server keeps, of the patterns that are still there."""
    models = {model.name: model for model in local_models(contributions)}
    groups = {(one["origin"], one["pattern"]): one["group"] for one in told["models"]}
    known = [name for name in models if name in groups]
    labels = tuple(groups[name] for name in known)
    return Grouping(told["distance"], tuple(models[name] for name in known), labels)


def reason_of(found: Grouping) -> str:
    """Why there are as many groups as there are."""
    if found.refused is not None:
        sides = (found.refused.first, found.refused.second)
        one, other = (found.labels[side[0]] for side in sides)
        loss = found.refused.loss
        return f"Groups {one} and {other} would be next: somebody's error would grow by {loss:.2%}."
    if found.silhouettes:
        tried = ", ".join(f"{n}: {score:.3f}" for n, score in found.silhouettes.items())
        return f"Silhouettes of so many groups: {tried}."
    return "All is one group." if found.count == 1 else "The number of groups was given."


def draw(found: Grouping, ridge: float, path: Path) -> None:
    """The matrix of all patterns, ordered by group, with a border around each group."""
    require_extra("matplotlib", "demo").use("Agg")
    pyplot = require_extra("matplotlib.pyplot", "demo")
    order = np.argsort(found.labels, kind="stable")
    models = [found.models[index] for index in order]
    values, label, title = _matrix(found, models, ridge)
    side = max(4.0, 0.25 * len(models) + 2.0)
    figure, axes = pyplot.subplots(figsize=(min(side, 40.0) + 1.0, min(side, 40.0)))
    image = axes.imshow(values, cmap="viridis")
    names = [name_of(model) for model in models]
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    axes.set_title(title)
    start = 0
    for number in found.numbers:
        size = len(found.members(number))
        corner = (start - 0.5, start - 0.5)
        axes.add_patch(pyplot.Rectangle(corner, size, size, fill=False, color="red", linewidth=2))
        start += size
    figure.colorbar(image, label=label)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def name_of(model: LocalPattern) -> str:
    """A device and its pattern."""
    return f"{model.origin} ({model.pattern})"


def _matrix(found: Grouping, models: list[LocalPattern], ridge: float) -> tuple[Matrix, str, str]:
    """What the groups were made by, as far as it can be had for all pairs at once."""
    if found.distance == "parameters":
        betas = np.array([parameters(model.evidence, ridge) for model in models])
        distances = np.array([np.linalg.norm(betas - beta, axis=1) for beta in betas])
        return distances, "distance of the parameters", "Whose models are close"
    errors = judge([Contribution("one", 0, (model.evidence,)) for model in models], ridge).error
    own = np.maximum(errors.diagonal(), np.finfo(np.float64).tiny)
    # What overflows is clipped: it is only drawn.
    with np.errstate(over="ignore"):
        worse = np.log10(np.clip(errors / own, 1e-300, 1e300))
    label = "log₁₀ of how many times worse than its own model"
    return worse, label, "Each model (row) on each pattern's rows (column)"
