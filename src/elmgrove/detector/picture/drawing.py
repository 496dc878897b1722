"""Draws a course: the score and its threshold, events, and the sensors that caused them."""

from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector.picture.course import Course, Spell
from elmgrove.detector.picture.panel import (
    BLUE,
    GREY,
    ORANGE,
    RED,
    across,
    finish,
    half_step,
    legend,
    margin_of,
    marker,
    plain,
    shade,
)
from elmgrove.detector.picture.thinning import broken, thinned
from elmgrove.detector.picture.words import title
from elmgrove.errors import BadInput, require_extra

#: How many usual deviations the band around what was expected has on either side.
BAND = 3.0
_WIDTH, _SCORE_HEIGHT, _SENSOR_HEIGHT = 11.0, 3.1, 1.45
# A course of more rows than this shows its sensors around one event.
_WHOLE = 1500
# A sensor that explains a smaller share of what is shown is not shown.
_MATTERS = 0.05
# Rows shown before and after an event: so many times its length, and at least and at most so many.
_AROUND, _LEAST, _MOST = 1.5, 60, 1000
# Events that say which sensors to show, and rows of each; events that are numbered.
_ASKED, _ROWS_ASKED, _NUMBERED = 12, 6, 15
# Scores that lie farther apart than this are drawn by their logarithm.
_WIDE = 12.0
# How far below the threshold the logarithm goes: what normal scores do there says little.
_DEEP = 30.0


class Shown(NamedTuple):
    """The places that the sensors' panels show, what they are around, and what sensors explain."""

    first: int
    end: int
    around: str
    explained: str


def draw(course: Course, *, event: int | None = None, most: int = 4, window: bool = False) -> Any:
    """Draws a course as a figure of matplotlib's, with at most so many sensors.

    ``event`` is the number of the event that the sensors are shown around (from 1 on); without it
    a short course is shown as a whole, and of a long one what is around its worst event. With
    ``window`` the figure is pyplot's, which shows it in windows and notebooks.
    """
    shown = _shown(course, event)
    names = _causing(course, shown, most)
    height = _SCORE_HEIGHT + _SENSOR_HEIGHT * len(names)
    settings = {"figsize": (_WIDTH, height), "layout": "constrained"}
    if window:
        figure = require_extra("matplotlib.pyplot", "plot").figure(**settings)
    else:
        figure = require_extra("matplotlib.figure", "plot").Figure(**settings)
    ratios = [_SCORE_HEIGHT - 0.6, *[_SENSOR_HEIGHT] * len(names)]
    axes = figure.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
    figure.suptitle(plain(fill(title(course), 115)), x=0.01, ha="left", fontsize=11, weight="bold")
    draw_scores(axes[0], course)
    if course.history:
        said = plain("\n".join(course.history))
        axes[0].set_title(said, loc="left", fontsize=8, color=GREY, pad=18)
    whole = shown.end - shown.first == len(course.scores)
    if not whole and names:
        _frame(axes[0], course, shown)
    for panel, (name, share) in zip(axes[1:], names, strict=True):
        _sensor(panel, course, name, share, shown)
    for panel in axes[1:-1]:
        panel.tick_params(labelbottom=False)
    if whole and names:
        axes[0].tick_params(labelbottom=False)
        axes[0].set_xlabel("")
    if names:
        axes[-1].set_xlabel(plain(course.axis if whole else f"{course.axis}, {shown.around}"))
        legend(axes[1])
    return figure


def draw_scores(axes: Any, course: Course) -> None:
    """Draws scores and threshold, and shades events."""
    places = thinned(course.scores)
    x, heights = across(course), np.maximum(course.scores, _y_axis(axes, course))
    lines = broken(places, course.gaps, x[places], heights[places])
    unit = course.counted.removesuffix("s")
    axes.plot(*lines, color=BLUE, lw=0.9, label=f"score of each {unit}", **marker(places))
    limits = np.where(np.isfinite(course.thresholds), course.thresholds, np.nan)
    if np.isfinite(limits).any():
        margin = margin_of(x)
        ends = np.concatenate([[x[0] - margin], x[places], [x[-1] + margin]])
        steps = limits[np.concatenate([places[:1], places, places[-1:]])]
        axes.plot(ends, steps, color="black", lw=1.1, ls="--", zorder=2.5, label=_threshold(course))
    dots = places[course.anomalous[places]]
    if len(dots):
        axes.plot(x[dots], heights[dots], ".", color=RED, ms=4, label="strange", zorder=3)
    shade(axes, course, 0, len(x), label=True)
    _number(axes, course)
    axes.set_ylabel("loss" if course.loss else "score (1 = typical)")
    axes.set_xlabel(plain(course.axis))
    finish(axes, course, 0, len(x))
    legend(axes)


def _shown(course: Course, event: int | None) -> Shown:
    """Which places the sensors' panels show."""
    count = len(course.scores)
    if event is not None and not 1 <= event <= len(course.spells):
        there = f", but 1 to {len(course.spells)}" if course.spells else ": nothing here is one"
        raise BadInput(f"there is no event {event}{there}")
    unit = course.counted.removesuffix("s")
    if event is None and count <= _WHOLE:
        events = "the event" if len(course.spells) == 1 else "the events"
        waiting = "what waits" if course.waiting is not None else events
        return Shown(0, count, "", waiting if len(course.spells) else "the highest score")
    if event is None and len(course.spells):
        event = int(course.times[course.peaks].argmax()) + 1
    if event is None:
        first = last = course.worst
        around, explained = f"around the strangest {unit}", "the highest score"
    else:
        first, _, last = course.spells[event - 1]
        explained = f"event {event}"
        around = f"around event {event}" + (", the worst" if _is_worst(course, event) else "")
    wide = int(np.clip(_AROUND * (last - first + 1), _LEAST, _MOST))
    return Shown(max(first - wide, 0), min(last + wide + 1, count), around, explained)


def _is_worst(course: Course, event: int) -> bool:
    return len(course.spells) > 1 and int(course.times[course.peaks].argmax()) == event - 1


def _causing(course: Course, shown: Shown, most: int) -> list[tuple[str, float]]:
    """The sensors that explain the events shown, each with its part in them, most first."""
    inside = [
        (spell, int(peak))
        for spell, peak in zip(course.spells, course.peaks, strict=True)
        if spell.first < shown.end and spell.last >= shown.first
    ]
    inside.sort(key=lambda one: -float(course.times[one[1]]))
    places = sorted({place for one in inside[:_ASKED] for place in _asked(*one)})
    if not places:
        places = [shown.first + int(course.times[shown.first : shown.end].argmax())]
    shares, weight = dict[str, float](), 0.0
    for place, causes in zip(places, course.sensors.causes(places), strict=True):
        # Of an event, the rows that are far off tell what it is: that of others is by chance.
        weight += float(course.times[place])
        for one in causes:
            part = float(course.times[place]) * max(one.share, 0.0)
            shares[one.feature] = shares.get(one.feature, 0.0) + part
    ranked = sorted(shares, key=lambda name: -shares[name])[:most]
    found = [(name, shares[name] / (weight or 1.0)) for name in ranked]
    # Those that hardly matter only take room from those that do.
    return [one for one in found if one[1] > _MATTERS] or found[:1]


def _asked(spell: Spell, peak: int) -> list[int]:
    """Places of an event that say what caused it: its peak, and some all over it."""
    evenly = np.linspace(spell.first, spell.last, _ROWS_ASKED).astype(int)
    return [peak, *evenly.tolist()]


def _sensor(axes: Any, course: Course, name: str, share: float, shown: Shown) -> None:
    """Draws what a sensor has shown, and what it should have by all others."""
    x, values = across(course), course.sensors.values(name)
    part = values[shown.first : shown.end]
    peaks = thinned(course.scores[shown.first : shown.end])
    places = shown.first + np.union1d(thinned(part), peaks)
    expected, deviation = course.sensors.expected(name, places)
    if np.isfinite(part).sum() < len(part) and not np.isfinite(deviation).any():
        known = places[np.isfinite(values[places])]
        axes.plot(x[known], values[known], ".", color=BLUE, ms=5, label="seen")
        axes.plot(x[places], expected, "_", color=ORANGE, ms=6, mew=2, label="expected")
        axes.vlines(x[places], values[places], expected, color=GREY, lw=0.5)
    else:
        low, high = expected - BAND * deviation, expected + BAND * deviation
        when, seen, middle, low, high = broken(
            places, course.gaps, x[places], values[places], expected, low, high
        )
        if np.isfinite(low).any():
            _band(axes, when, low, high)
        alone = marker(places)
        axes.plot(when, middle, color=ORANGE, lw=1.3, label="expected by the others", **alone)
        axes.plot(when, seen, color=BLUE, lw=0.9, label="seen", **alone)
        dots = places[course.anomalous[places]]
        axes.plot(x[dots], values[dots], ".", color=RED, ms=3, zorder=3)
    shade(axes, course, shown.first, shown.end, label=False)
    explains = f"explains {100 * share:.0f} % of {shown.explained}"
    axes.set_title(plain(f"{name}: {explains}"), loc="left", fontsize=8.5, pad=3)
    finish(axes, course, shown.first, shown.end)


def _band(axes: Any, when: Array, low: Array, high: Array) -> None:
    style = {"color": ORANGE, "alpha": 0.25, "label": f"± {BAND:g} deviations"}
    if len(when) == 1:
        axes.vlines(when, low, high, lw=9, **style)
    else:
        axes.fill_between(when, low, high, lw=0, **style)


def _number(axes: Any, course: Course) -> None:
    """Numbers the worst events, where there is room for a number."""
    if course.waiting is not None or len(course.spells) < 2:
        return
    x = across(course)
    room = 0.02 * max(x[-1] - x[0], half_step(x))
    taken = list[float]()
    for number in np.argsort(-course.times[course.peaks])[:_NUMBERED].tolist():
        at = float(x[course.peaks[number]])
        if all(abs(at - other) > room for other in taken):
            taken.append(at)
            axes.text(
                at,
                0.99,
                str(number + 1),
                transform=axes.get_xaxis_transform(),
                ha="center",
                va="top",
                fontsize=7,
                color=RED,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            )


def _frame(axes: Any, course: Course, shown: Shown) -> None:
    """Marks the part of the course that the panels below show."""
    x = across(course)
    for place in (shown.first, shown.end - 1):
        axes.axvline(x[place], color=GREY, lw=0.7, ls=":")


def _y_axis(axes: Any, course: Course) -> float:
    """Chooses between a linear and a logarithmic axis; gives the least height that it shows."""
    finite = course.thresholds[np.isfinite(course.thresholds)]
    usual = float(np.median(finite)) if len(finite) else float(np.median(course.scores))
    highest = float(course.scores.max())
    if not usual > 0.0 or highest <= _WIDE * usual:
        top = max(highest, float(finite.max(initial=0.0)))
        axes.set_ylim(0.0, 1.15 * top if top > 0.0 else 1.0)
        return 0.0
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    least = min(max(float(course.scores.min()), usual / _DEEP), usual)
    # Room above, for the numbers of events.
    axes.set_ylim(0.8 * least, highest * (highest / least) ** 0.12)
    return least


def _threshold(course: Course) -> str:
    limits = np.unique(course.thresholds[np.isfinite(course.thresholds)])
    return f"threshold {limits[0]:.4g}" if len(limits) == 1 else "threshold"
