"""The demo's picture: what the agents said of the day, beside what an engineer would look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.algebra.rows import Array
from elmgrove.cli.demo.pumps import BREAKS, LATE, LEAVES, MOVES, SENSORS, WARMS, PumpRow
from elmgrove.errors import require_extra

# Of rows that are normal, that others know, and that nobody knows; they differ in lightness, too.
_NORMAL, _KNOWN, _FLAGGED = "#9a9a9a", "#0072B2", "#D55E00"
_LABELS = {
    _NORMAL: "normal here",
    _KNOWN: "anomalous here, normal at another pump",
    _FLAGGED: "anomalous here, normal nowhere",
}
# Rows of a cold start that are shown.
_START = 85


@dataclass(frozen=True)
class Material:
    """What the picture is made of: rows learned, rows and verdicts after that, and alarms.

    ``onsets`` says since which minute each is another.
    """

    learned: Mapping[str, Sequence[PumpRow]]
    rows: Mapping[str, Sequence[PumpRow]]
    verdicts: Mapping[str, Sequence[Mapping[str, Any]]]
    alarms: Mapping[str, int]
    onsets: Mapping[str, int]


def draw(found: Material, path: Path) -> None:
    """Draws a line of two panels for each pump to which something happened."""
    require_extra("matplotlib", "demo").use("Agg")
    pyplot = require_extra("matplotlib.pyplot", "demo")
    figure, panels = pyplot.subplots(4, 2, figsize=(12, 12.5), layout="constrained")
    lines = (
        (MOVES, f"moves to where {LEAVES} has been", _curve),
        (WARMS, f"starts cold, as {LEAVES} does before each batch", _warming),
        (BREAKS, "has a bearing that wears", _wearing),
        (LATE, "is new, and its impeller clogs", _clogging),
    )
    for (left, right), (name, what, beside) in zip(panels, lines, strict=True):
        _scores(left, found, name)
        alarms = {0: "no alarm", 1: "an alarm"}.get(found.alarms[name], "alarms")
        left.set_title(f"{name} {what}: {alarms}", loc="left", fontsize=11, fontweight="bold")
        beside(right, found)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(alpha=0.25)
    handles = [_dots(panels[0, 0], [], [], colour, label) for colour, label in _LABELS.items()]
    legend = figure.legend(
        handles=handles, loc="outside upper center", ncols=3, markerscale=3, fontsize=11
    )
    # Its title is the figure's: one of the figure itself would lie behind it.
    legend.set_title("A day of simulated pumps, as their agents judged it", {"size": 14})
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _scores(axes: Any, found: Material, name: str) -> None:
    """Each row's score over its threshold, by what the agent made of it."""
    said, hours = found.verdicts[name], _hours(found.rows[name])
    shown = [(one["score"] or 0.0) / (one["threshold"] or np.inf) for one in said]
    for colour, chosen in _by_colour(said).items():
        _dots(axes, hours[chosen], np.array(shown)[chosen], colour)
    axes.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
    axes.set_yscale("log")
    axes.set_ylim(0.1, None)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set(xlabel="hour of the day", ylabel="score, × threshold")


def _curve(axes: Any, found: Material) -> None:
    """Pressure over flow, the pump's own curve, with all that another pump has shown of it."""
    known = _by_colour(found.verdicts[MOVES])[_KNOWN]
    clouds = (
        (_values(found.learned[LEAVES]), "#d5d5d5", f"{LEAVES}, learned"),
        (_values(found.learned[MOVES]), "#707070", f"{MOVES}, learned"),
        (_values(found.rows[MOVES])[known], _KNOWN, f"{MOVES} after its move"),
    )
    for rows, colour, label in clouds:
        flow, pressure = _columns(rows, "flow", "pressure")
        _dots(axes, flow, pressure, colour, label)
    axes.set(xlabel="flow, m³/h", ylabel="pressure, bar")
    axes.legend(fontsize=9, markerscale=3)


def _warming(axes: Any, found: Material) -> None:
    """The temperature above that of the air since a start, here and at a pump that knows it."""
    learned = found.learned[LEAVES]
    starts = [0, *(np.flatnonzero(np.diff([one.minute for one in learned]) > 1) + 1)]
    for number, start in enumerate(starts):
        label = f"{LEAVES}, starts learned" if number == 0 else None
        axes.plot(_above(learned[start : start + _START]), color="#d5d5d5", label=label)
    first = [one.minute for one in found.rows[WARMS]].index(found.onsets[WARMS])
    axes.plot(_above(found.rows[WARMS][first : first + _START]), color=_KNOWN, label=WARMS)
    usual = _above(found.learned[WARMS])
    band = np.quantile(usual, [0.01, 0.99])
    axes.axhspan(*band, color="#707070", alpha=0.3, label=f"{WARMS}, usually")
    axes.set(xlabel="minutes since the start", ylabel="above the air, °C")
    axes.legend(fontsize=9, loc="lower right")


def _wearing(axes: Any, found: Material) -> None:
    """Vibration over the day, and where it was among the rows learned."""
    hours, rows = _hours(found.rows[BREAKS]), _values(found.rows[BREAKS])
    learned = _columns(_values(found.learned[BREAKS]), "vibration")[0]
    for colour, chosen in _by_colour(found.verdicts[BREAKS]).items():
        _dots(axes, hours[chosen], _columns(rows[chosen], "vibration")[0], colour)
    usual = np.quantile(learned, [0.01, 0.99])
    axes.axhspan(*usual, color="#707070", alpha=0.3, label=f"{BREAKS}, usually")
    begin = found.onsets[BREAKS] % 1440 / 60
    axes.axvline(begin, color="black", linewidth=0.8, linestyle=":", label="wear begins")
    axes.set(xlabel="hour of the day", ylabel="vibration, mm/s")
    axes.legend(fontsize=9, loc="upper left")


def _clogging(axes: Any, found: Material) -> None:
    """Pressure over flow, among the few rows that it learned."""
    flow, pressure = _columns(_values(found.learned[LATE]), "flow", "pressure")
    _dots(axes, flow, pressure, "#d5d5d5", f"{LATE}, learned")
    rows = _values(found.rows[LATE])
    for colour, chosen in _by_colour(found.verdicts[LATE]).items():
        flow, pressure = _columns(rows[chosen], "flow", "pressure")
        _dots(axes, flow, pressure, colour)
    axes.set(xlabel="flow, m³/h", ylabel="pressure, bar")
    axes.legend(fontsize=9, markerscale=3)


def _dots(axes: Any, x: Any, y: Any, colour: str, label: str | None = None) -> Any:
    [dots] = axes.plot(x, y, ".", color=colour, markersize=3, label=label)
    return dots


def _by_colour(said: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    flagged, known = (np.array([bool(one[key]) for one in said]) for key in ("anomalous", "known"))
    return {_NORMAL: ~flagged, _KNOWN: flagged & known, _FLAGGED: flagged & ~known}


def _hours(rows: Sequence[PumpRow]) -> Array:
    return np.array([row.minute % 1440 / 60 for row in rows])


def _values(rows: Sequence[PumpRow]) -> Array:
    return np.array([row.values for row in rows])


def _columns(values: Array, *sensors: str) -> list[Array]:
    return [values[:, list(SENSORS).index(sensor)] for sensor in sensors]


def _above(rows: Sequence[PumpRow]) -> Array:
    temperature, ambient = _columns(_values(rows), "temperature", "ambient")
    return np.asarray(temperature - ambient)
