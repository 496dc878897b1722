"""Draws scores, thresholds, events and the sensors that caused them."""

from collections.abc import Sequence
from io import BytesIO
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np

from elmgrove.algebra.rows import Array
from elmgrove.detector.frames import times_of
from elmgrove.detector.replay import TIME, Interval, Replay
from elmgrove.detector.verdict import Cause
from elmgrove.errors import BadInput, require_extra
from elmgrove.reading.times import format_time

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector


#: Parts of a line of which the highest and the lowest point are drawn; a picture has fewer columns.
PARTS = 1500


def thinned(values: Array, parts: int = PARTS) -> Array:
    """Chooses places of which a line looks like that of all: each part's highest and lowest.

    The first and the last are among them. What is no number counts as nothing.

    >>> thinned(np.array([0.0, 0, 9, 0, 0, 0, -7, 0]), parts=2).tolist()
    [0, 2, 4, 6, 7]
    """
    count = len(values)
    if count <= 2 * parts:
        return np.arange(count)
    size = -(-count // parts)
    padded = np.full(size * -(-count // size), np.nan)
    padded[:count] = values
    table = padded.reshape(-1, size)
    starts = np.arange(0, count, size)
    highest = starts + np.where(np.isnan(table), -np.inf, table).argmax(axis=1)
    lowest = starts + np.where(np.isnan(table), np.inf, table).argmin(axis=1)
    return np.unique(np.concatenate([[0], highest, lowest, [count - 1]]))


def broken(places: Array, gaps: Sequence[int], *values: Array) -> list[Array]:
    """Puts a NaN into lines through these places wherever a gap lies between two of them.

    >>> broken(np.array([0, 1, 2, 3]), [2], np.array([5.0, 6.0, 7.0, 8.0]))[0].tolist()
    [5.0, 6.0, nan, 7.0, 8.0]
    """
    cuts = np.unique(np.searchsorted(places, np.asarray(gaps, int)))
    cuts = cuts[(cuts > 0) & (cuts < len(places))]
    return [np.insert(np.asarray(one, np.float64), cuts, np.nan) for one in values]


def title(replay: Replay) -> str:
    """What the figure shows, in words."""
    name = f"{replay.name}: " if replay.name else ""
    said = _of_state(replay) if replay.waiting is not None else _of_rows(replay)
    return name + said + (f" ({replay.remark})" if replay.remark else "")


def when(replay: Replay, place: int) -> str:
    """Where a row is: its time, its line or its number."""
    value = float(replay.where[place])
    if replay.axis != TIME:
        return f"{replay.axis} {value:,.0f}"
    return format_time(value)


def because(cause: Cause) -> str:
    """What a sensor has shown, and what it should have."""
    return f"{cause.feature} was {cause.seen:.4g}, not {cause.expected:.4g}"


def _of_state(replay: Replay) -> str:
    learned = replay.waiting or 0
    waiting = len(replay.scores) - learned
    kept = f"the last {_counted(learned, replay)} it learned"
    if not waiting:
        return f"{kept}; nothing waits in quarantine"
    those, are = ("one", "waits") if waiting == 1 else ("ones", "wait")
    return f"{kept}, and {waiting:,} anomalous {those} that {are} in quarantine"


def _of_rows(replay: Replay) -> str:
    anomalous, count = int(replay.anomalous.sum()), len(replay.scores)
    rows = _counted(count, replay)
    if not anomalous:
        if not np.isfinite(replay.thresholds).any():
            return f"{rows}"
        highest = float(replay.times[replay.worst])
        return f"nothing anomalous in {rows}; the highest score is {highest:.2g} × the threshold"
    share = f"{anomalous:,} of {rows} {'is' if anomalous == 1 else 'are'} anomalous"
    if 2 * anomalous > count > 1:
        return f"{share}: another machine, or a new normal?{_worst(replay, ' The most anomalous:')}"
    if not len(replay.intervals):
        return f"{share}, too few together for an event"
    events = "1 event" if len(replay.intervals) == 1 else f"{len(replay.intervals):,} events"
    which = "" if len(replay.intervals) == 1 else " the worst"
    return f"{events} in {rows},{which} at {when(replay, _peak(replay))}{_worst(replay, ':')}"


def _worst(replay: Replay, before: str) -> str:
    [causes] = replay.sensors.causes([_peak(replay)])
    return f"{before} {because(causes[0])}" if causes else ""


def _peak(replay: Replay) -> int:
    if not len(replay.peaks):
        return replay.worst
    return int(replay.peaks[replay.times[replay.peaks].argmax()])


def _counted(count: int, replay: Replay) -> str:
    return f"{count:,} {replay.counted if count != 1 else replay.counted.removesuffix('s')}"


# Okabe and Ito's colours, which colour-blind people can tell apart.
BLUE, RED, ORANGE, GREY = "#0072B2", "#D55E00", "#E69F00", "#555555"
_SECONDS_A_DAY = 86400.0
# The half step of a row that is alone: a minute where it has a time.
_ALONE = 1.0 / 1440.0


def across(replay: Replay) -> Array:
    """The places of rows on the axis: of times days since 1970, as matplotlib has them."""
    return replay.where / _SECONDS_A_DAY if replay.axis == TIME else replay.where


def half_step(x: Array) -> float:
    """Half the usual step between two rows."""
    steps = np.diff(x)
    steps = steps[steps > 0.0]
    return float(np.median(steps)) / 2.0 if len(steps) else _ALONE


def margin_of(x: Array) -> float:
    """The room beside the first and the last row."""
    return max(0.005 * float(x[-1] - x[0]), half_step(x))


def finish(axes: Any, replay: Replay, first: int, end: int) -> None:
    """Sets what is the same for all panels: how far they go, their ticks and grid."""
    x = across(replay)[first:end]
    margin = margin_of(x)
    axes.set_xlim(x[0] - margin, x[-1] + margin)
    axes.grid(alpha=0.25, lw=0.5)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if replay.axis == TIME:
        dates = require_extra("matplotlib.dates", "plot")
        locator = dates.AutoDateLocator(minticks=3, maxticks=9)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def shade(axes: Any, replay: Replay, first: int, end: int, *, label: bool) -> None:
    """Shades the events between two places."""
    x = across(replay)
    half = half_step(x)
    bars = [
        (x[max(one.first, first)] - half, x[min(one.last, end - 1)] - x[max(one.first, first)])
        for one in replay.intervals
        if one.first < end and one.last >= first
    ]
    if not bars:
        return
    wide = [(left, width + 2 * half) for left, width in bars]
    # With an edge, so that a short one in a long replay is to be seen.
    axes.broken_barh(
        wide,
        (0, 1),
        transform=axes.get_xaxis_transform(),
        facecolor=RED,
        edgecolor=RED,
        alpha=0.16,
        lw=0.8,
        zorder=0,
        label=("event" if replay.waiting is None else "in quarantine") if label else None,
    )


def legend(axes: Any) -> None:
    """Explains lines and shades above the panel, where they hide nothing."""
    place = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.97)}
    axes.legend(**place, fontsize=7.5, ncols=4, frameon=False)


def marker(places: Array) -> dict[str, str]:
    """The style of a line through these places: one place alone needs a point."""
    return {"marker": ".", "markersize": "4"} if len(places) == 1 else {}


def plain(text: str) -> str:
    """Escapes text that is to be shown as it is: two dollars would else enclose a formula."""
    return text.replace("$", r"\$")


#: How many usual deviations the band around what was expected has on either side.
BAND = 3.0
_WIDTH, _SCORE_HEIGHT, _SENSOR_HEIGHT = 11.0, 3.1, 1.45
# A replay of more rows than this shows its sensors around one event.
_WHOLE = 1500
# A sensor that explains a smaller share of what is shown is not shown.
_MATTERS = 0.05
# Rows shown before and after an event: a multiple of its length, with a least and a most.
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


def draw(replay: Replay, *, event: int | None = None, most: int = 4, window: bool = False) -> Any:
    """Draws a replay as a figure of matplotlib's, with ``most`` sensors at most.

    ``event`` is the number of the event that the sensors are shown around (from 1 on); without it
    a short replay is shown as a whole, and of a long one what is around its worst event. With
    ``window`` the figure is pyplot's, which shows it in windows and notebooks.
    """
    shown = _shown(replay, event)
    names = _causing(replay, shown, most)
    height = _SCORE_HEIGHT + _SENSOR_HEIGHT * len(names)
    settings = {"figsize": (_WIDTH, height), "layout": "constrained"}
    if window:
        figure = require_extra("matplotlib.pyplot", "plot").figure(**settings)
    else:
        figure = require_extra("matplotlib.figure", "plot").Figure(**settings)
    ratios = [_SCORE_HEIGHT - 0.6, *[_SENSOR_HEIGHT] * len(names)]
    axes = figure.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
    figure.suptitle(plain(fill(title(replay), 115)), x=0.01, ha="left", fontsize=11, weight="bold")
    draw_scores(axes[0], replay)
    if replay.history:
        said = plain("\n".join(replay.history))
        axes[0].set_title(said, loc="left", fontsize=8, color=GREY, pad=18)
    whole = shown.end - shown.first == len(replay.scores)
    if not whole and names:
        _frame(axes[0], replay, shown)
    for panel, (name, share) in zip(axes[1:], names, strict=True):
        _sensor(panel, replay, name, share, shown)
    for panel in axes[1:-1]:
        panel.tick_params(labelbottom=False)
    if whole and names:
        axes[0].tick_params(labelbottom=False)
        axes[0].set_xlabel("")
    if names:
        axes[-1].set_xlabel(plain(replay.axis if whole else f"{replay.axis}, {shown.around}"))
        legend(axes[1])
    return figure


def draw_scores(axes: Any, replay: Replay) -> None:
    """Draws scores and threshold, and shades events."""
    places = thinned(replay.scores)
    x, heights = across(replay), np.maximum(replay.scores, _y_axis(axes, replay))
    lines = broken(places, replay.gaps, x[places], heights[places])
    unit = replay.counted.removesuffix("s")
    axes.plot(*lines, color=BLUE, lw=0.9, label=f"score of each {unit}", **marker(places))
    limits = np.where(np.isfinite(replay.thresholds), replay.thresholds, np.nan)
    if np.isfinite(limits).any():
        margin = margin_of(x)
        ends = np.concatenate([[x[0] - margin], x[places], [x[-1] + margin]])
        steps = limits[np.concatenate([places[:1], places, places[-1:]])]
        axes.plot(ends, steps, color="black", lw=1.1, ls="--", zorder=2.5, label=_threshold(replay))
    dots = places[replay.anomalous[places]]
    if len(dots):
        axes.plot(x[dots], heights[dots], ".", color=RED, ms=4, label="anomalous", zorder=3)
    shade(axes, replay, 0, len(x), label=True)
    _number(axes, replay)
    axes.set_ylabel("loss" if replay.loss else "score (1 = typical)")
    axes.set_xlabel(plain(replay.axis))
    finish(axes, replay, 0, len(x))
    legend(axes)


def _shown(replay: Replay, event: int | None) -> Shown:
    """Which places the sensors' panels show."""
    count = len(replay.scores)
    if event is not None and not 1 <= event <= len(replay.intervals):
        most = len(replay.intervals)
        there = f", but 1 to {most}" if most else ": nothing here is one"
        raise BadInput(f"there is no event {event}{there}")
    unit = replay.counted.removesuffix("s")
    if event is None and count <= _WHOLE:
        events = "the event" if len(replay.intervals) == 1 else "the events"
        waiting = "what waits" if replay.waiting is not None else events
        return Shown(0, count, "", waiting if len(replay.intervals) else "the highest score")
    if event is None and len(replay.intervals):
        event = int(replay.times[replay.peaks].argmax()) + 1
    if event is None:
        first = last = replay.worst
        around, explained = f"around the most anomalous {unit}", "the highest score"
    else:
        first, _, last = replay.intervals[event - 1]
        explained = f"event {event}"
        around = f"around event {event}" + (", the worst" if _is_worst(replay, event) else "")
    wide = int(np.clip(_AROUND * (last - first + 1), _LEAST, _MOST))
    return Shown(max(first - wide, 0), min(last + wide + 1, count), around, explained)


def _is_worst(replay: Replay, event: int) -> bool:
    return len(replay.intervals) > 1 and int(replay.times[replay.peaks].argmax()) == event - 1


def _causing(replay: Replay, shown: Shown, most: int) -> list[tuple[str, float]]:
    """The sensors that explain the events shown, each with its part in them, most first."""
    inside = [
        (interval, int(peak))
        for interval, peak in zip(replay.intervals, replay.peaks, strict=True)
        if interval.first < shown.end and interval.last >= shown.first
    ]
    inside.sort(key=lambda one: -float(replay.times[one[1]]))
    places = sorted({place for one in inside[:_ASKED] for place in _asked(*one)})
    if not places:
        places = [shown.first + int(replay.times[shown.first : shown.end].argmax())]
    shares, weight = dict[str, float](), 0.0
    for place, causes in zip(places, replay.sensors.causes(places), strict=True):
        # Of an event, the rows that are far off tell what it is: that of others is by chance.
        weight += float(replay.times[place])
        for one in causes:
            part = float(replay.times[place]) * max(one.share, 0.0)
            shares[one.feature] = shares.get(one.feature, 0.0) + part
    ranked = sorted(shares, key=lambda name: -shares[name])[:most]
    found = [(name, shares[name] / (weight or 1.0)) for name in ranked]
    # Those that hardly matter only take room from those that do.
    return [one for one in found if one[1] > _MATTERS] or found[:1]


def _asked(interval: Interval, peak: int) -> list[int]:
    """Places of an event that say what caused it: its peak, and some all over it."""
    evenly = np.linspace(interval.first, interval.last, _ROWS_ASKED).astype(int)
    return [peak, *evenly.tolist()]


def _sensor(axes: Any, replay: Replay, name: str, share: float, shown: Shown) -> None:
    """Draws what a sensor has shown, and what it should have by all others."""
    x, values = across(replay), replay.sensors.values(name)
    part = values[shown.first : shown.end]
    peaks = thinned(replay.scores[shown.first : shown.end])
    places = shown.first + np.union1d(thinned(part), peaks)
    expected, deviation = replay.sensors.expected(name, places)
    if np.isfinite(part).sum() < len(part) and not np.isfinite(deviation).any():
        known = places[np.isfinite(values[places])]
        axes.plot(x[known], values[known], ".", color=BLUE, ms=5, label="seen")
        axes.plot(x[places], expected, "_", color=ORANGE, ms=6, mew=2, label="expected")
        axes.vlines(x[places], values[places], expected, color=GREY, lw=0.5)
    else:
        low, high = expected - BAND * deviation, expected + BAND * deviation
        when, seen, middle, low, high = broken(
            places, replay.gaps, x[places], values[places], expected, low, high
        )
        if np.isfinite(low).any():
            _band(axes, when, low, high)
        alone = marker(places)
        axes.plot(when, middle, color=ORANGE, lw=1.3, label="expected by the others", **alone)
        axes.plot(when, seen, color=BLUE, lw=0.9, label="seen", **alone)
        dots = places[replay.anomalous[places]]
        axes.plot(x[dots], values[dots], ".", color=RED, ms=3, zorder=3)
    shade(axes, replay, shown.first, shown.end, label=False)
    explains = f"explains {100 * share:.0f} % of {shown.explained}"
    axes.set_title(plain(f"{name}: {explains}"), loc="left", fontsize=8.5, pad=3)
    finish(axes, replay, shown.first, shown.end)


def _band(axes: Any, when: Array, low: Array, high: Array) -> None:
    style = {"color": ORANGE, "alpha": 0.25, "label": f"± {BAND:g} deviations"}
    if len(when) == 1:
        axes.vlines(when, low, high, lw=9, **style)
    else:
        axes.fill_between(when, low, high, lw=0, **style)


def _number(axes: Any, replay: Replay) -> None:
    """Numbers the worst events, where there is room for a number."""
    if replay.waiting is not None or len(replay.intervals) < 2:
        return
    x = across(replay)
    room = 0.02 * max(x[-1] - x[0], half_step(x))
    taken = list[float]()
    for number in np.argsort(-replay.times[replay.peaks])[:_NUMBERED].tolist():
        at = float(x[replay.peaks[number]])
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


def _frame(axes: Any, replay: Replay, shown: Shown) -> None:
    """Marks the part of the replay that the panels below show."""
    x = across(replay)
    for place in (shown.first, shown.end - 1):
        axes.axvline(x[place], color=GREY, lw=0.7, ls=":")


def _y_axis(axes: Any, replay: Replay) -> float:
    """Chooses between a linear and a logarithmic axis; gives the least height that it shows."""
    finite = replay.thresholds[np.isfinite(replay.thresholds)]
    usual = float(np.median(finite)) if len(finite) else float(np.median(replay.scores))
    highest = float(replay.scores.max())
    if not usual > 0.0 or highest <= _WIDE * usual:
        top = max(highest, float(finite.max(initial=0.0)))
        axes.set_ylim(0.0, 1.15 * top if top > 0.0 else 1.0)
        return 0.0
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    least = min(max(float(replay.scores.min()), usual / _DEEP), usual)
    # Room above, for the numbers of events.
    axes.set_ylim(0.8 * least, highest * (highest / least) ** 0.12)
    return least


def _threshold(replay: Replay) -> str:
    limits = np.unique(replay.thresholds[np.isfinite(replay.thresholds)])
    return f"threshold {limits[0]:.4g}" if len(limits) == 1 else "threshold"


# Colours of a PNG file.
_COLOURS = 128


def plotted(
    detector: "Detector", rows: Any, path: Any = None, *, times: Any = None, name: str = ""
) -> Any:
    """Draws what ``Detector.plot`` does."""
    if times is None:
        times = times_of(rows, detector.basis.features)
    figure = draw(Replay.of_rows(detector, rows, times, name=name), window=path is None)
    if path is not None:
        save_picture(figure, path)
    return figure


def save_picture(figure: Any, path: Any) -> None:
    """Saves a figure, in the format that the file's name ends with."""
    png = str(path).lower().endswith(".png")
    drawn = BytesIO() if png else path
    with catch_warnings():
        # Of a sensor's name in a script that the font lacks.
        simplefilter("ignore", UserWarning)
        try:
            figure.savefig(drawn, dpi=110)
        except ValueError as error:
            raise BadInput(f"{path}: {error}") from error
    if png:
        # A third of the size, and nobody sees a difference.
        images = require_extra("PIL.Image", "plot")
        images.open(drawn).convert("RGB").quantize(_COLOURS, dither=0).save(path, optimize=True)
