"""``elmgrove evaluate``: how well labelled rows are told apart, beside other detectors."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array
from elmgrove.cli.contest import LEARNING_ON, OWN, RIVALS, STREAM, Contest, Found, Measured, Ranking
from elmgrove.cli.learn import LearnRun
from elmgrove.cli.options import (
    Data,
    LabelSpans,
    SkipBad,
    labelled,
    note_window,
    notes,
    percent,
    read,
    with_layout,
)
from elmgrove.detector.detector import Detector
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.false_alarms import LEARNING
from elmgrove.detector.plot import draw_scores, save_picture
from elmgrove.detector.replay import TIME, Course
from elmgrove.detector.thresholds import FalseAlarmRate
from elmgrove.detector.tuning import too_few_scores, tune
from elmgrove.detector.windows import choose_window, require_window
from elmgrove.errors import BadInput, install_line, require_extra
from elmgrove.federation.member import Member
from elmgrove.reading.layout import LAYOUT, Layout
from elmgrove.reading.table import Table
from elmgrove.storage.disk import load

#: The share of a file that is learned where nothing else is.
FIRST = 0.4
# Fewer rows than this say nothing about what is normal.
_LEAST = 20


@dataclass(frozen=True)
class Case:
    """A device, the rows that it and others learn (None: unknown), and those that are judged.

    ``before`` are the rows that are learned together with those among them that are labelled
    anomalous, as a stream would have them.
    """

    member: Member
    learned: Table | None
    before: Table | None
    judged: Table
    about: str


@dataclass(frozen=True)
class Tried:
    """What is to be tried, where it is not as usual or as in the state."""

    rate: float | None = None
    window: int | None = None
    alarm: tuple[int, int] | None = None

    @classmethod
    def of(cls, rate: float | None, window: str, alarm: str | None) -> "Tried":
        """Reads the options."""
        size = None if require_window(window) == "auto" else int(window)
        return cls(rate, size, None if alarm is None else _k_of_n(alarm))

    def tune(self, detector: Detector) -> None:
        """Changes the threshold and the alarm rule of a detector, and notes how."""
        k, n = self.alarm or (None, None)
        for said in tune(detector, rate=self.rate, alarm_k=k, alarm_n=n):
            notes.print(f"Tried with {said}.")


def _k_of_n(text: str) -> tuple[int, int]:
    parts = text.split("/")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise BadInput(f"--alarm: K/N, like 3/5 (an alarm at 3 of 5 rows), not {text!r}")
    return int(parts[0]), int(parts[1])


def case_of(
    data: Path,
    layout: Layout,
    spans: str | None,
    state: Path | None,
    normal: Path | None,
    skip_bad: bool,
    tried: Tried,
) -> Case:
    """Reads what is judged, and learns what is to be learned, or takes a state that has."""
    member = None if state is None else load(state, Member.from_bytes)
    if member is not None and tried.window not in (None, member.detector.window):
        raise BadInput(
            f"--window: {state} has learned windows of {member.detector.window}; without --state, "
            "a new detector learns as you say"
        )
    if member is None:
        whole = read(data, None, layout, skip_bad)
    else:
        layout = layout.after(member.notes.get(LAYOUT, {}))
        whole = read(data, member.detector.basis, layout, skip_bad)
    if not len(whole.rows):
        raise BadInput(f"{data}: no rows to judge")
    whole = labelled(whole, data, spans)
    cut = 0
    before: Table | None = None
    about = ""
    if normal is not None:
        # Which may have labels, and need not.
        known = replace(layout, remembered=layout.remembered | {"label"})
        rows = read(normal, whole, known, skip_bad)
        before = rows if rows.times is None else labelled(rows, normal, spans)
        about = f"the rows of {normal.name}"
    elif member is None:
        cut = round(FIRST * len(whole.rows))
        before, whole = whole.sliced(slice(0, cut)), whole.sliced(slice(cut, None))
        about = f"those labelled normal in the first {100 * FIRST:.0f} % of {data.name}"
    learned = None if before is None else before.normal()
    assert whole.labels is not None, "it was read with its labels"
    require_both(whole.labels, str(spans or layout.label), cut > 0)
    if member is None:
        assert learned is not None
        member = _taught(data, learned, tried)
    else:
        tried.tune(member.detector)
        about = f"{member.name} as it is in {state}"
    return Case(member, learned, before, whole, about)


def require_both(labels: Array, label: str, cut: bool) -> None:
    """Raises ``BadInput`` unless there are both labelled rows and others to tell them from."""
    found = int(labels.sum())
    if 0 < found < len(labels):
        return
    rest = f" after the first {100 * FIRST:.0f} %, which are learned," if cut else ""
    which = "no row" if not found else "every row"
    hint = " (normal is said as 0, no, false, normal, ok or good)" if found else ""
    raise BadInput(
        f"{label}: {which} of {len(labels)}{rest} is labelled anomalous{hint}; to tell rows apart "
        "there must be both"
    )


def _taught(data: Path, learned: Table, tried: Tried) -> Member:
    """A new device that has learned these rows, as ``elmgrove learn`` does."""
    if len(learned.rows) < _LEAST:
        raise BadInput(
            f"{len(learned.rows)} normal rows are too few to learn from: give a file of normal "
            "rows (--normal), or a state (--state)"
        )
    rows = learned.rows[:]
    window = tried.window
    if window is None:
        choice = choose_window(rows)
        note_window(choice)
        window = choice.window
    basis = Basis.fitted(
        rows,
        learned.names,
        categories=learned.categories,
        scaling="standard",
        window=window,
    )
    policy = None if tried.rate is None else FalseAlarmRate(tried.rate)
    rule = None if tried.alarm is None else AlarmRule(*tried.alarm)
    detector = Detector.for_basis(basis, threshold=policy, alarm=rule)
    LearnRun(detector, learned, gate=False).take()
    return Member(data.stem, detector)


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


@with_layout
def evaluate(
    data: Data,
    state: Annotated[
        Path | None,
        typer.Option("--state", "-s", help="Judge by this state.", exists=True, dir_okay=False),
    ] = None,
    normal: Annotated[
        Path | None,
        typer.Option(
            help="Normal rows to learn, for a new detector (without --state) and for the others "
            f"\\[default: those labelled normal in the first {100 * FIRST:.0f} % of DATA; the "
            "rest is judged].",
            exists=True,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Try this share of normal rows that may be flagged."),
    ] = None,
    window: Annotated[
        str,
        typer.Option(help="Rows to try as one input, or auto: 10 for a time series, else 1."),
    ] = "auto",
    alarm: Annotated[
        str | None,
        typer.Option(help="Try this alarm rule: K/N, an alarm at K anomalous rows among N."),
    ] = None,
    rivals: Annotated[
        bool,
        typer.Option(
            help="Compare with a plain Mahalanobis distance and, where installed, with River's "
            "HalfSpaceTrees and PyOD's ECOD, IForest and KNN."
        ),
    ] = True,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw curves, and the score over time, into this file.", dir_okay=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
    label_spans: LabelSpans = None,
    skip_bad: SkipBad = False,
    *,
    layout: Layout,
) -> None:
    """Say how well a detector tells labelled rows from the others, and how others do.

    AUC and average precision need no threshold; recall, false alarms, events and delay come from
    it. An event finds a labelled stretch if it opened in it or a few rows before; any other is
    false. All learn the same rows. Nothing is saved.

    Example: [bold]elmgrove evaluate pump.csv --label anomaly --picture pump.png[/]

    Example: [bold]elmgrove evaluate pump.csv --label anomaly --rate 0.001 --window 1 --alarm 3/5[/]
    """
    if picture is not None:
        require_extra("matplotlib.figure", "plot")
    if layout.label is None and label_spans is None:
        raise BadInput(
            "--label names the column that says which rows were anomalous, --label-spans a file "
            "that says from when to when they were"
        )
    tried = Tried.of(rate, window, alarm)
    case = case_of(data, layout, label_spans, state, normal, skip_bad, tried)
    contest = Contest(case.member, case.judged)
    # Those that complete no window are not among them.
    require_both(contest.labels, str(label_spans or layout.label), cut=False)
    _note_rows(contest, case)
    lines = [contest.own(), contest.learning_on()]
    if case.before is not None:
        lines.append(contest.from_stream(case.before, tried.window))
    if rivals:
        _note_rivals(contest, case)
        lines += [] if case.learned is None else contest.rivals(case.learned)
    if as_json:
        Console().print_json(json.dumps(_numbers(contest, case, lines)))
    else:
        Console(markup=False, emoji=False).print(grid_of(lines))
    if picture is not None:
        draw_contest(contest, lines, picture)
        notes.print(f"Wrote {picture}.")


def _note_rows(contest: Contest, case: Case) -> None:
    counted, detector = contest.course.counted, case.member.detector
    notes.print(f"Learned: {detector.learned:,} {counted}, {case.about}.")
    waiting = contest.not_judged
    left_out = f" ({waiting} more complete no window)" if waiting else ""
    stretches = len(contest.stretches)
    notes.print(
        f"Judged: {len(contest.labels):,} {counted}{left_out}; {int(contest.labels.sum()):,} are "
        f"labelled anomalous, in {stretches:,} stretch{'es' if stretches != 1 else ''}."
    )
    short = too_few_scores(detector.gate.policy, detector.gate.recent.usable)
    if contest.limit == math.inf and short:
        notes.print(f"No threshold, so nothing is flagged: a rate of {short}.")
    elif detector.state == LEARNING:
        missing = f"{detector.rows_missing:,} more {counted}"
        notes.print(
            f"Still learning ({missing} until there are alarms): judged by the threshold that it "
            "has by now."
        )
    notes.print(f"An alarm, and with it an event: {contest.rule}.")
    notes.print(
        f"An event finds a stretch if it opens in it, or at most {contest.tolerance} {counted} "
        f"before; any other is false. Stretches up to {contest.calm} {counted} apart count as one."
    )
    notes.print(f"{LEARNING_ON}: as the agent, which goes on learning what it finds normal.")
    if case.before is not None:
        notes.print(f"{STREAM}: as an agent without elmgrove learn, which had the same rows.")


def _note_rivals(contest: Contest, case: Case) -> None:
    if case.learned is None:
        notes.print("Others are left out: they need the normal rows to learn (--normal).")
        return
    size, counted = contest.window, contest.course.counted
    windows = f"; × {size}: they get windows of {size} {counted}, as it does" if size > 1 else ""
    notes.print(
        f"Others learn the same rows, with their libraries' defaults; their thresholds are for the "
        f"same {100.0 * contest.rate:g} % of the rows that they learned{windows}."
    )
    missing = {library for library, _ in RIVALS.values() if library.missing}
    for one in sorted(missing):
        notes.print(f"{one.title} is not installed: {install_line(one.extra)}.")


def _numbers(contest: Contest, case: Case, lines: list[Measured]) -> dict[str, Any]:
    return {
        "learned": case.member.detector.learned,
        "rows": len(contest.labels),
        "labelled": int(contest.labels.sum()),
        "rate": contest.rate,
        "tolerance": contest.tolerance,
        "methods": [numbers_of(one) for one in lines],
    }
