"""Draws a replay: scores, threshold, events, and the sensors that caused them."""

from textwrap import fill
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np

from elmgrove.algebra.rows import Array
from elmgrove.detector.dataframes import times_of
from elmgrove.detector.replay import TIME, Replay
from elmgrove.errors import BadInput, require_extra
from elmgrove.reading.times import format_time

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector

# Okabe and Ito's colours, which colour-blind people can tell apart.
_BLUE, _RED, _ORANGE, _GREY = "#0072B2", "#D55E00", "#E69F00", "#555555"


def plotted(
    detector: "Detector", rows: Any, path: Any = None, *, times: Any = None, name: str = ""
) -> Any:
    if times is None:
        times = times_of(rows, detector.basis.features)
    figure = draw(Replay.of_rows(detector, rows, times, name=name), window=path is None)
    if path is not None:
        save_picture(figure, path)
    return figure


def draw(replay: Replay, *, event: int | None = None, most: int = 4, window: bool = False) -> Any:
    """Draw a replay as a figure of matplotlib's, with ``most`` sensors at most.

    ``event`` is the number of the event that the sensors are shown around (from 1 on); without it
    a short replay is shown as a whole, and of a long one what is around its worst event. With
    ``window`` the figure is pyplot's, which shows it in windows and notebooks.
    """
    return _Picture(replay, event).figure(most, window)


def save_picture(figure: Any, path: Any) -> None:
    """Save a figure, in the format that the file's name ends with."""
    with catch_warnings():
        # Of a sensor's name in a script that the font lacks.
        simplefilter("ignore", UserWarning)
        try:
            figure.savefig(path, dpi=110)
        except ValueError as error:
            raise BadInput(f"{path}: {error}") from error


def thinned(values: Array, parts: int = 1500) -> Array:
    """Choose places of which a line looks like that of all: each part's highest and lowest.

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


def title(replay: Replay) -> str:
    waiting, events = int(replay.anomalous.sum()), len(replay.intervals)
    if replay.waiting is not None:
        rows = _counted(replay.waiting, replay)
        said = f"the last {rows} it learned, and {waiting:,} that wait in quarantine"
    elif not events:
        said = f"no event in {_counted(len(replay.scores), replay)}, {waiting:,} anomalous"
    else:
        peak = int(replay.peaks[replay.times[replay.peaks].argmax()])
        place = float(replay.where[peak])
        at = format_time(place) if replay.axis == TIME else f"{replay.axis} {place:,.0f}"
        said = "1 event" if events == 1 else f"{events:,} events"
        said += f" in {_counted(len(replay.scores), replay)}, {'the worst ' * (events > 1)}at {at}"
        [causes] = replay.sensors.causes([peak])
        for first in causes[:1]:
            said += f": {first.feature} was {first.seen:.4g}, not {first.expected:.4g}"
    name = f"{replay.name}: " if replay.name else ""
    return name + said + (f" ({replay.remark})" if replay.remark else "")


def _counted(count: int, replay: Replay) -> str:
    return f"{count:,} {replay.counted if count != 1 else replay.counted.removesuffix('s')}"


def _plain(text: str) -> str:
    """Escape text that is to be shown as it is: two dollars would else enclose a formula."""
    return text.replace("$", r"\$")


def _marker(places: Array) -> dict[str, str]:
    """The style of a line through these places: one place alone needs a point."""
    return {"marker": ".", "markersize": "4"} if len(places) == 1 else {}


def _explain_lines(axes: Any) -> None:
    # Above the panel, where it hides nothing.
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), fontsize=7.5, ncols=4, frameon=False)


class _Picture:
    """A panel of scores, and below it one for each sensor, from place ``first`` to ``end``."""

    def __init__(self, replay: Replay, event: int | None) -> None:
        self.replay = replay
        self.unit = replay.counted.removesuffix("s")
        # Of times days since 1970, as matplotlib has them.
        self.x: Array = replay.where / 86400.0 if replay.axis == TIME else replay.where
        steps = np.diff(self.x)
        steps = steps[steps > 0.0]
        # Of a row that is alone a minute, where it has a time.
        self.half_step = float(np.median(steps)) / 2.0 if len(steps) else 1.0 / 1440.0
        self.around = ""
        self.first, self.end, self.explained = self._shown(event)

    def _shown(self, event: int | None) -> tuple[int, int, str]:
        """Which places the sensors' panels show, and what sensors explain there."""
        replay, count = self.replay, len(self.replay.scores)
        most = len(replay.intervals)
        if event is not None and not 1 <= event <= most:
            there = f", but 1 to {most}" if most else ": nothing here is one"
            raise BadInput(f"there is no event {event}{there}")
        if event is None and count <= 1500:
            events = "the event" if most == 1 else "the events"
            waiting = "what waits" if replay.waiting is not None else events
            return 0, count, waiting if most else "the highest score"
        worst = int(replay.times[replay.peaks].argmax()) + 1 if most else None
        event = event or worst
        if event is None:
            first = last = replay.worst
            explained, self.around = "the highest score", f"around the most anomalous {self.unit}"
        else:
            first, _, last = replay.intervals[event - 1]
            explained, self.around = f"event {event}", f"around event {event}"
            if event == worst and most > 1:
                self.around += ", the worst"
        wide = int(np.clip(1.5 * (last - first + 1), 60, 1000))
        return max(first - wide, 0), min(last + wide + 1, count), explained

    def figure(self, most: int, window: bool) -> Any:
        replay, names = self.replay, self._causing(most)
        ratios = [2.5, *[1.45] * len(names)]
        settings = {"figsize": (11.0, sum(ratios) + 0.6), "layout": "constrained"}
        if window:
            figure = require_extra("matplotlib.pyplot", "plot").figure(**settings)
        else:
            figure = require_extra("matplotlib.figure", "plot").Figure(**settings)
        axes = figure.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
        said = _plain(fill(title(replay), 115))
        figure.suptitle(said, x=0.01, ha="left", fontsize=11, weight="bold")
        self._draw_scores(axes[0])
        if replay.history:
            said = _plain("\n".join(replay.history))
            axes[0].set_title(said, loc="left", fontsize=8, color=_GREY, pad=18)
        for panel, (name, share) in zip(axes[1:], names, strict=True):
            self._draw_sensor(panel, name, share)
        for panel in axes[1:-1]:
            panel.tick_params(labelbottom=False)
        if names:
            axis = replay.axis
            if self.end - self.first == len(replay.scores):
                axes[0].tick_params(labelbottom=False)
                axes[0].set_xlabel("")
            else:
                # The part of the replay that the panels below show.
                for place in (self.first, self.end - 1):
                    axes[0].axvline(self.x[place], color=_GREY, lw=0.7, ls=":")
                axis += f", {self.around}"
            axes[-1].set_xlabel(_plain(axis))
            _explain_lines(axes[1])
        return figure

    def _draw_scores(self, axes: Any) -> None:
        replay, x = self.replay, self.x
        places = thinned(replay.scores)
        heights = np.maximum(replay.scores, self._choose_y_axis(axes))
        lines = self._broken(places, x[places], heights[places])
        axes.plot(
            *lines, color=_BLUE, lw=0.9, label=f"score of each {self.unit}", **_marker(places)
        )
        limits = np.where(np.isfinite(replay.thresholds), replay.thresholds, np.nan)
        if len(known := np.unique(limits[np.isfinite(limits)])):
            label = f"threshold {known[0]:.4g}" if len(known) == 1 else "threshold"
            style = {"color": "black", "lw": 1.1, "ls": "--", "zorder": 2.5} | _marker(places)
            axes.plot(x[places], limits[places], label=label, **style)
        dots = places[replay.anomalous[places]]
        if len(dots):
            axes.plot(x[dots], heights[dots], ".", color=_RED, ms=4, label="anomalous", zorder=3)
        self._shade(axes, 0, len(x), label="event" if replay.waiting is None else "in quarantine")
        if replay.waiting is None and len(replay.intervals) > 1:
            self._number_events(axes)
        axes.set_ylabel("loss" if replay.loss else "score (1 = typical)")
        axes.set_xlabel(_plain(replay.axis))
        self._finish(axes, 0, len(x))
        _explain_lines(axes)

    def _draw_sensor(self, axes: Any, name: str, share: float) -> None:
        """Draw what a sensor has shown, and what it should have by all others."""
        replay, x = self.replay, self.x
        values = replay.sensors.values(name)
        part = values[self.first : self.end]
        peaks = thinned(replay.scores[self.first : self.end])
        places = self.first + np.union1d(thinned(part), peaks)
        expected, deviation = replay.sensors.expected(name, places)
        if np.isfinite(part).sum() < len(part) and not np.isfinite(deviation).any():
            known = places[np.isfinite(values[places])]
            axes.plot(x[known], values[known], ".", color=_BLUE, ms=5, label="seen")
            axes.plot(x[places], expected, "_", color=_ORANGE, ms=6, mew=2, label="expected")
            axes.vlines(x[places], values[places], expected, color=_GREY, lw=0.5)
        else:
            band = expected - 3.0 * deviation, expected + 3.0 * deviation
            when, seen, middle, low, high = self._broken(
                places, x[places], values[places], expected, *band
            )
            if np.isfinite(low).any():
                style = {"color": _ORANGE, "alpha": 0.25, "label": "± 3 deviations"}
                if len(when) == 1:
                    axes.vlines(when, low, high, lw=9, **style)
                else:
                    axes.fill_between(when, low, high, lw=0, **style)
            alone = _marker(places)
            axes.plot(when, middle, color=_ORANGE, lw=1.3, label="expected by the others", **alone)
            axes.plot(when, seen, color=_BLUE, lw=0.9, label="seen", **alone)
            dots = places[replay.anomalous[places]]
            axes.plot(x[dots], values[dots], ".", color=_RED, ms=3, zorder=3)
        self._shade(axes, self.first, self.end)
        said = _plain(f"{name}: explains {100 * share:.0f} % of {self.explained}")
        axes.set_title(said, loc="left", fontsize=8.5, pad=3)
        self._finish(axes, self.first, self.end)

    def _causing(self, most: int) -> list[tuple[str, float]]:
        """The sensors that explain the events shown, each with its part in them, most first."""
        replay = self.replay
        inside = [
            (interval, int(peak))
            for interval, peak in zip(replay.intervals, replay.peaks, strict=True)
            if interval.first < self.end and interval.last >= self.first
        ]
        inside.sort(key=lambda one: -float(replay.times[one[1]]))
        places = set[int]()
        # The peak of an event says what caused it, and some places all over it do.
        for one, peak in inside[:12]:
            places |= {peak, *np.linspace(one.first, one.last, 6).astype(int).tolist()}
        if not places:
            places = {self.first + int(replay.times[self.first : self.end].argmax())}
        shares, weight = dict[str, float](), 0.0
        for place, causes in zip(
            sorted(places), replay.sensors.causes(sorted(places)), strict=True
        ):
            # Of an event, the rows that are far off tell what it is: that of others is by chance.
            weight += float(replay.times[place])
            for cause in causes:
                part = float(replay.times[place]) * max(cause.share, 0.0)
                shares[cause.feature] = shares.get(cause.feature, 0.0) + part
        ranked = sorted(shares, key=lambda name: -shares[name])[:most]
        found = [(name, shares[name] / (weight or 1.0)) for name in ranked]
        # Those that hardly matter only take room from those that do.
        return [one for one in found if one[1] > 0.05] or found[:1]

    def _shade(self, axes: Any, first: int, end: int, label: str | None = None) -> None:
        x, half = self.x, self.half_step
        bars = list[tuple[float, float]]()
        for one in self.replay.intervals:
            if one.first < end and one.last >= first:
                left = x[max(one.first, first)]
                bars.append((left - half, x[min(one.last, end - 1)] - left + 2 * half))
        # With an edge, so that a short one in a long replay is to be seen.
        style = {"facecolor": _RED, "edgecolor": _RED, "alpha": 0.16, "lw": 0.8, "zorder": 0}
        if bars:
            everywhere = axes.get_xaxis_transform()
            axes.broken_barh(bars, (0, 1), transform=everywhere, label=label, **style)

    def _number_events(self, axes: Any) -> None:
        replay, x = self.replay, self.x
        room = 0.02 * max(x[-1] - x[0], self.half_step)
        style = {"ha": "center", "va": "top", "fontsize": 7, "color": _RED}
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        taken = list[float]()
        for number in np.argsort(-replay.times[replay.peaks])[:15].tolist():
            at = float(x[replay.peaks[number]])
            if all(abs(at - other) > room for other in taken):
                taken.append(at)
                everywhere = axes.get_xaxis_transform()
                axes.text(at, 0.99, str(number + 1), transform=everywhere, bbox=box, **style)

    def _choose_y_axis(self, axes: Any) -> float:
        """Choose a linear or a logarithmic axis; return the least height that it shows."""
        replay = self.replay
        finite = replay.thresholds[np.isfinite(replay.thresholds)]
        usual = float(np.median(finite)) if len(finite) else float(np.median(replay.scores))
        highest = float(replay.scores.max())
        if not usual > 0.0 or highest <= 12.0 * usual:
            top = max(highest, float(finite.max(initial=0.0)))
            axes.set_ylim(0.0, 1.15 * top if top > 0.0 else 1.0)
            return 0.0
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        # What normal scores do far below the threshold says little.
        least = min(max(float(replay.scores.min()), usual / 30.0), usual)
        # Room above, for the numbers of events.
        axes.set_ylim(0.8 * least, highest * (highest / least) ** 0.12)
        return least

    def _broken(self, places: Array, *values: Array) -> list[Array]:
        """Lines through these places, with a NaN wherever a gap lies between two of them."""
        cuts = np.unique(np.searchsorted(places, np.asarray(self.replay.gaps, int)))
        cuts = cuts[(cuts > 0) & (cuts < len(places))]
        return [np.insert(np.asarray(one, np.float64), cuts, np.nan) for one in values]

    def _finish(self, axes: Any, first: int, end: int) -> None:
        """Set what is the same for all panels: how far they go, their ticks and grid."""
        x = self.x[first:end]
        margin = max(0.005 * float(x[-1] - x[0]), self.half_step)
        axes.set_xlim(x[0] - margin, x[-1] + margin)
        axes.grid(alpha=0.25, lw=0.5)
        axes.tick_params(labelsize=8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        if self.replay.axis == TIME:
            dates = require_extra("matplotlib.dates", "plot")
            locator = dates.AutoDateLocator(minticks=3, maxticks=9)
            axes.xaxis.set_major_locator(locator)
            axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
