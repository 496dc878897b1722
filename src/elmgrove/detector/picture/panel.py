"""What all panels of a picture share: the axis across, shades, legends and colours."""

from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector.picture.course import TIME, Course
from elmgrove.errors import require_extra

# Okabe and Ito's colours, which colour-blind people can tell apart.
BLUE, RED, ORANGE, GREY = "#0072B2", "#D55E00", "#E69F00", "#555555"
_SECONDS_A_DAY = 86400.0
# The half step of a row that is alone: a minute where it has a time.
_ALONE = 1.0 / 1440.0


def across(course: Course) -> Array:
    """Gives the places of rows on the axis: of times days since 1970, as matplotlib has them."""
    return course.where / _SECONDS_A_DAY if course.axis == TIME else course.where


def half_step(x: Array) -> float:
    """Gives half the usual step between two rows."""
    steps = np.diff(x)
    steps = steps[steps > 0.0]
    return float(np.median(steps)) / 2.0 if len(steps) else _ALONE


def margin_of(x: Array) -> float:
    """Gives the room beside the first and the last row."""
    return max(0.005 * float(x[-1] - x[0]), half_step(x))


def finish(axes: Any, course: Course, first: int, end: int) -> None:
    """Sets what is the same for all panels: how far they go, their ticks and grid."""
    x = across(course)[first:end]
    margin = margin_of(x)
    axes.set_xlim(x[0] - margin, x[-1] + margin)
    axes.grid(alpha=0.25, lw=0.5)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if course.axis == TIME:
        dates = require_extra("matplotlib.dates", "plot")
        locator = dates.AutoDateLocator(minticks=3, maxticks=9)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def shade(axes: Any, course: Course, first: int, end: int, *, label: bool) -> None:
    """Shades the events between two places."""
    x = across(course)
    half = half_step(x)
    bars = [
        (x[max(one.first, first)] - half, x[min(one.last, end - 1)] - x[max(one.first, first)])
        for one in course.spells
        if one.first < end and one.last >= first
    ]
    if not bars:
        return
    wide = [(left, width + 2 * half) for left, width in bars]
    # With an edge, so that a short one in a long course is to be seen.
    axes.broken_barh(
        wide,
        (0, 1),
        transform=axes.get_xaxis_transform(),
        facecolor=RED,
        edgecolor=RED,
        alpha=0.16,
        lw=0.8,
        zorder=0,
        label=("event" if course.waiting is None else "in quarantine") if label else None,
    )


def legend(axes: Any) -> None:
    """Explains lines and shades above the panel, where they hide nothing."""
    place = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.97)}
    axes.legend(**place, fontsize=7.5, ncols=4, frameon=False)


def marker(places: Array) -> dict[str, str]:
    """Gives the look of a line through these places: one place alone needs a point."""
    return {"marker": ".", "markersize": "4"} if len(places) == 1 else {}


def plain(text: str) -> str:
    """Escapes text that is to be shown as it is: two dollars would else enclose a formula."""
    return text.replace("$", r"\$")
