"""``elmgrove evaluate``: how well a detector tells labelled rows from the others."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
from rich.table import Column
from rich.table import Table as Grid
from scipy.linalg import solve_triangular

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array
from elmgrove.cli.learn import LearnRun
from elmgrove.cli.options import (
    AsJson,
    Data,
    LabelSpans,
    SkipBad,
    alarm_changes,
    file_option,
    fitted_basis,
    labelled,
    notes,
    option,
    percent,
    print_json,
    print_result,
    read,
    read_for,
    right,
    with_layout,
)
from elmgrove.detector.decision import LEARNING
from elmgrove.detector.detector import Detector
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.inputs import choose_window, require_window, rows_to_decide
from elmgrove.detector.replay import Interval, ScoredRows, intervals_by_rule, intervals_of_events
from elmgrove.detector.thresholds import FalseAlarmRate
from elmgrove.detector.tuning import too_few_scores, tune
from elmgrove.detector.verdict import Verdict
from elmgrove.device.settings import Settings, first_rows
from elmgrove.errors import BadInput
from elmgrove.federation.member import Member
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import Table
from elmgrove.storage.disk import load

#: The share of a file that is learned where nothing else is.
FIRST = 0.4
#: The detector as it is, as the agent that goes on learning, and an agent that had no ``learn``.
OWN, LEARNING_ON, STREAM = "Elmgrove", "Elmgrove, learning", "Elmgrove, stream"


def areas(labels: Array, scores: Array) -> tuple[float, float]:
    """The area under the ROC curve, and the average precision; equal scores are one step.

    >>> areas(np.array([True, False, True]), np.array([3.0, 2.0, 2.0]))[0]
    0.75
    """
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    found = np.cumsum(labels[order])[last]
    recall, false_alarms = found / labels.sum(), (last + 1 - found) / (~labels).sum()
    rise, width = np.diff(recall, prepend=0.0), np.diff(false_alarms, prepend=0.0)
    return float(np.sum(width * (recall - rise / 2.0))), float(np.sum(rise * found / (last + 1)))


@dataclass(frozen=True)
class Measured:
    """How the verdicts of a method on the judged rows compare with their labels.

    ``found`` of the labelled ``stretches`` have an event that opened in them, or at most a
    tolerance before; ``false_events`` opened anywhere else, however long they lasted.
    ``alarmed_outside`` is the share of unlabelled rows inside events. ``delays`` are the rows from
    the begin of a stretch to its alarm, ``seconds`` the same as times where rows have them.
    """

    method: str
    auc: float
    average_precision: float
    threshold: float | None
    recall: float
    precision: float | None
    false_alarms: float
    stretches: int
    found: int
    false_events: int
    alarmed_outside: float
    delays: list[int]
    seconds: list[float] | None


def stretches_of(labels: Array, calm: int) -> list[slice]:
    """Find labelled rows that belong together; fewer than ``calm`` others may lie between them.

    No alarm rule tells stretches apart that are closer than the calm that ends an event.

    >>> stretches_of(np.array([True, True, False, True, False, False, True]), calm=2)
    [slice(0, 4, None), slice(6, 7, None)]
    """
    rows = np.flatnonzero(labels)
    parts = np.split(rows, np.flatnonzero(np.diff(rows) > calm) + 1)
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts if len(part)]


def found_by(
    events: Sequence[Interval], labels: Array, calm: int, tolerance: int, times: Array | None = None
) -> dict[str, Any]:
    """Compare events with labels: an event finds a stretch only if it opened for it.

    Otherwise one event without an end would find everything.
    """
    stretches = stretches_of(labels, calm)
    opened = [
        [event for event in events if stretch.start - tolerance <= event.first < stretch.stop]
        for stretch in stretches
    ]
    inside = np.zeros(len(labels), bool)
    for event in events:
        inside[event.first : event.last + 1] = True
    # An alarm just before the stretch has no delay.
    alarms = [
        (stretch.start, max(min(event.alarm for event in some), stretch.start))
        for stretch, some in zip(stretches, opened, strict=True)
        if some
    ]
    return {
        "stretches": len(stretches),
        "found": len(alarms),
        "false_events": len({*events}.difference(*opened)),
        "alarmed_outside": float(inside[~labels].mean()),
        "delays": [alarm - start for start, alarm in alarms],
        "seconds": None if times is None else [float(times[b] - times[a]) for a, b in alarms],
    }


def mahalanobis(train: Array, rows: Array, rate: float) -> tuple[Array, float]:
    """Score rows by the distance on standard columns, by mean and covariance of those learned.

    A millionth is added to each variance, so that what never varied is anomalous when it does. The
    threshold is a quantile of the scores of the rows learned.
    """
    mean, deviation = (
        train.mean(axis=0),
        np.where(np.ptp(train, axis=0) > 0, train.std(axis=0), 1.0),
    )
    X = (train - mean) / deviation
    root = np.linalg.cholesky(X.T @ X / len(X) + 1e-6 * np.eye(X.shape[1]))

    def scored(Z: Array) -> Array:
        away = solve_triangular(root, Z.T, lower=True)
        return np.asarray(np.einsum("ij,ij->j", away, away))

    return scored((rows - mean) / deviation), float(np.quantile(scored(X), 1.0 - rate))


class Evaluation:
    """Judges the labelled rows of a table by a detector and others that learned the same rows.

    Rows that complete no window are not judged. The anomalous rows of every method become events by
    the detector's alarm rule, and are compared with the labels in the same way.
    """

    def __init__(self, member: Member, table: Table) -> None:
        assert table.labels is not None, "a table that was read with its labels"
        self._member, self._table = member, table
        self.detector = detector = member.detector
        self._prepared = ScoredRows(detector, table.rows, table.gaps)
        #: The threshold, also where the stated rate has not been shown yet.
        self.limit = detector.gate.limit()
        self.rate = detector.gate.policy.rate or 0.01
        whole = self._prepared.whole
        self.rule = rule = detector.events.rule
        #: How many rows before a labelled stretch an event may open, and still be about it.
        self.tolerance = detector.basis.window + rule.n
        #: The places that are judged, and their labels.
        self.places: Array = np.flatnonzero(whole)
        self.labels: Array = self._prepared.any_of(table.labels)[whole]
        self._times = None if table.times is None else table.times[self._prepared.last[whole]]
        self.not_judged = len(whole) - len(self.places)

    def own(self) -> Measured:
        return self._measured(OWN, self._prepared.scores[self.places], self.limit)

    def learning_on(self) -> Measured:
        """Judge by a copy of the detector that learns what it finds normal, as the agent does."""
        return self._observed(LEARNING_ON, Member.from_bytes(self._member.to_bytes()).detector)

    def from_stream(self, before: Table, window: int | None) -> Measured:
        """Judge by a detector that ``elmgrove device run`` makes without ``learn``.

        Its first rows decide scaling and window, and more of them decide again, if they ask for
        another window. All rows come as a stream: these first, with whatever anomalies there are
        in them.
        """
        spectrum = self.detector.basis.spectrum
        more: dict[str, Any] = {
            "categories": before.categories,
            "scaling": "standard",
            "spectrum": spectrum,
        }
        first = before.rows[: first_rows(Settings.start_rows, spectrum)]
        size = window or choose_window(first, spectrum).window
        basis = Basis.fitted(first, before.names, window=size, **more)
        for enough in rows_to_decide(basis.layer.inputs) if window is None else ():
            rows = before.rows[basis.span(0, enough)]
            if enough and (size := choose_window(rows, spectrum).window) != basis.window:
                basis = Basis.fitted(rows, before.names, window=size, **more)
        policy = self.detector.gate.policy
        detector = Detector.for_basis(basis, threshold=policy, alarm=self.rule)
        _observe(detector, before)
        return self._observed(STREAM, detector)

    def _observed(self, name: str, detector: Detector) -> Measured:
        verdicts = _observe(detector, self._table)
        chosen = [verdicts[place] for place in self.places.tolist()]
        flagged = np.array([one.anomalous for one in chosen], bool)
        scores = np.array([one.score for one in chosen])
        events = intervals_of_events([one.event for one in chosen], [one.alarm for one in chosen])
        # An event begins with the first of the rows that raised its alarm.
        k = self.rule.k
        events = [one._replace(first=_last_of(flagged, one.alarm, k)) for one in events]
        return self._measured(name, scores, detector.threshold, flagged, events)

    def mahalanobis(self, learned: Table) -> list[Measured]:
        """Judge by the textbook's distance over the rows learned, and over windows of them."""
        train = ScoredRows(self.detector, learned.rows, learned.gaps)
        window, judged = self.detector.basis.window, self._prepared
        tries = [("Mahalanobis", train.rows, judged.rows[self.places])]
        if window > 1:
            inputs = train.inputs(np.flatnonzero(train.whole))
            tries.append((f"Mahalanobis × {window}", inputs, judged.inputs(self.places)))
        return [
            self._measured(name, *mahalanobis(rows, chosen, self.rate))
            for name, rows, chosen in tries
        ]

    def _measured(
        self,
        name: str,
        scores: Array,
        limit: float,
        flagged: Array | None = None,
        events: Sequence[Interval] | None = None,
    ) -> Measured:
        """Compare with the labels; unless given, limit and alarm rule make rows and events."""
        labels = self.labels
        flagged = ~(scores <= limit) if flagged is None else flagged
        events = intervals_by_rule(flagged, self.rule) if events is None else events
        return Measured(
            name,
            *areas(labels, scores),
            limit if math.isfinite(limit) else None,
            float(flagged[labels].mean()),
            float(labels[flagged].mean()) if flagged.any() else None,
            float(flagged[~labels].mean()),
            **found_by(events, labels, self.rule.calm, self.tolerance, self._times),
        )


def _observe(detector: Detector, table: Table) -> list[Verdict]:
    verdicts = list[Verdict]()
    for stretch in table.stretches:
        detector.interrupt()
        verdicts += detector.observe_many(table.rows[stretch])
    return verdicts


def _last_of(flagged: Array, place: int, k: int) -> int:
    """The first of the last ``k`` places that are flagged, up to this one."""
    before = np.flatnonzero(flagged[: place + 1])[-k:]
    return int(before[0]) if len(before) else place


def _require_both(data: Path, labels: Array | None, label: str, cut: bool) -> None:
    """Raise ``BadInput`` unless there are both labelled rows and others to tell them from."""
    if labels is None or not len(labels):
        raise BadInput(f"{data}: no rows to judge")
    found = int(labels.sum())
    if 0 < found < len(labels):
        return
    rest = f" after the first {100 * FIRST:.0f} %, which are learned," if cut else ""
    which = "no row" if not found else "every row"
    hint = " (a normal row has 0, no, false, normal, ok or good)" if found else ""
    raise BadInput(
        f"{label}: {which} of {len(labels)}{rest} is labelled anomalous{hint}; to tell rows apart "
        "there must be both"
    )


def _learned(
    data: Path, learned: Table, rate: float | None, window: int | None, alarm: str | None
) -> Member:
    # Fewer rows say nothing about what is normal.
    if len(learned.rows) < 20:
        raise BadInput(
            f"{len(learned.rows)} normal rows are too few to learn from: give a file of normal "
            "rows (--normal), or a state (--state)"
        )
    detector = Detector.for_basis(
        fitted_basis(learned, window),
        threshold=None if rate is None else FalseAlarmRate(rate),
        alarm=None if alarm is None else AlarmRule.parsed(alarm),
    )
    LearnRun(detector, learned).take()
    return Member(data.stem, detector)


def _grid(lines: Sequence[Measured]) -> Grid:
    headings = (
        *("\nAUC", "average\nprecision", "\nrecall", "false\nalarms", "events\nfound"),
        *("false\nevents", "alarmed\noutside", "\ndelay"),
    )
    grid = Grid(Column("\nmethod", no_wrap=True), *right(*headings), box=None, pad_edge=False)
    grid.padding = (0, 1, 0, 0)
    for one in lines:
        grid.add_row(
            one.method,
            f"{one.auc:.3f}",
            f"{one.average_precision:.3f}",
            percent(one.recall),
            percent(one.false_alarms),
            f"{one.found} of {one.stretches}",
            f"{one.false_events:,}",
            percent(one.alarmed_outside),
            _delay(one),
            style="bold" if one.method == OWN else None,
        )
    return grid


def _delay(one: Measured) -> str:
    if not one.delays:
        return "-"
    if one.seconds is None:
        rows = median(one.delays)
        return f"{rows:g} row{'s' * (rows != 1)}"
    seconds = median(one.seconds)
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.3g} s"


@with_layout("time", "columns", "drop", "label")
def evaluate(
    data: Data,
    state: Annotated[Path | None, file_option("Judge by this state.", "--state", "-s")] = None,
    normal: Annotated[
        Path | None,
        option("Rows to learn \\[default: the normal ones of DATA's first 40 %].", exists=True),
    ] = None,
    rate: Annotated[
        float | None, option("Try this share of normal rows that may be flagged.")
    ] = None,
    window: Annotated[str, option("Rows as one input, or auto: 10 or 1.")] = "auto",
    alarm: Annotated[
        str | None, option("Alarm at K anomalous rows among N.", metavar="K/N[/COOLDOWN]")
    ] = None,
    as_json: AsJson = False,
    label_spans: LabelSpans = None,
    skip_bad: SkipBad = False,
    *,
    layout: Layout,
) -> None:
    """Count how many labelled anomalies are found.

    An event finds a labelled stretch if it opened in it or a few rows before; any other is false.
    A plain Mahalanobis distance learns the same rows for comparison. Nothing is saved.

    Example: [bold]elmgrove evaluate pump.csv --label anomaly --rate 0.001[/]
    """
    if layout.label is None and label_spans is None:
        raise BadInput(
            "--label names the column that says which rows were anomalous, --label-spans a file "
            "that says from when to when they were"
        )
    size = None if require_window(window) == "auto" else int(window)
    member = None if state is None else load(state, Member.from_bytes)
    if member and size not in (None, member.detector.window):
        raise BadInput(
            f"--window: {state} has learned windows of {member.detector.window}; without --state, "
            "a new detector learns as you say"
        )
    if member is None:
        judged = read(data, None, layout, skip_bad)
    else:
        judged = read_for(member, data, skip_bad, layout)
    judged = labelled(judged, data, label_spans)
    # What is learned, with those of its rows that are labelled anomalous, as a stream has them.
    before: Table | None = None
    cut = round(FIRST * len(judged.rows)) if normal is None and member is None else 0
    if normal is not None:
        # Which may have labels, and need not.
        known = replace(layout, remembered=layout.remembered | {"label"})
        rows = read(normal, judged, known, skip_bad)
        before = rows if rows.times is None else labelled(rows, normal, label_spans)
    elif cut:
        before, judged = judged.sliced(slice(0, cut)), judged.sliced(slice(cut, None))
    label = str(label_spans or layout.label)
    _require_both(data, judged.labels, label, cut > 0)
    if member is None:
        assert before is not None
        member = _learned(data, before.normal(), rate, size, alarm)
        first = f"those labelled normal in the first {100 * FIRST:.0f} % of {data.name}"
        about = first if normal is None else f"the rows of {normal.name}"
    else:
        for change in tune(member.detector, rate=rate, **alarm_changes(alarm)):
            notes.print(f"Tried with {change}.")
        about = f"{member.name} as it is in {state}"
    evaluation = Evaluation(member, judged)
    # Rows that complete no window do not count.
    _require_both(data, evaluation.labels, label, cut=False)
    lines = [evaluation.own(), evaluation.learning_on()]
    if before is not None:
        lines += [evaluation.from_stream(before, size), *evaluation.mahalanobis(before.normal())]
    _note(evaluation, about, alone=before is None)
    if as_json:
        found = {
            "learned": evaluation.detector.learned,
            "rows": len(evaluation.labels),
            "labelled": int(evaluation.labels.sum()),
            "rate": evaluation.rate,
            "tolerance": evaluation.tolerance,
            "methods": [asdict(one) for one in lines],
        }
        print_json(found)
    else:
        print_result(_grid(lines))


def _note(evaluation: Evaluation, about: str, alone: bool) -> None:
    detector, rule = evaluation.detector, evaluation.rule
    stretches = len(stretches_of(evaluation.labels, rule.calm))
    counted = detector.basis.counted
    notes.print(f"Learned: {detector.learned:,} {counted}, {about}.")
    waiting = evaluation.not_judged
    left_out = f" ({waiting} more complete no window)" if waiting else ""
    notes.print(
        f"Judged: {len(evaluation.labels):,} {counted}{left_out}; {evaluation.labels.sum():,} are "
        f"labelled anomalous, in {stretches:,} stretch{'es' if stretches != 1 else ''}."
    )
    short = too_few_scores(detector.gate.policy, detector.gate.recent.usable)
    if evaluation.limit == math.inf and short:
        notes.print(f"No threshold, so nothing is flagged: a rate of {short}.")
    elif detector.state == LEARNING:
        notes.print(
            f"Still learning ({detector.rows_missing:,} more {counted} until there are alarms): "
            "judged by the threshold so far."
        )
    notes.print(
        f"An alarm opens an event: {rule.k} of {rule.n} rows anomalous. It ends after {rule.calm} "
        "calm rows."
    )
    notes.print(
        f"An event finds a stretch if it opens in it, or at most {evaluation.tolerance} {counted} "
        f"before; any other is false. Stretches up to {rule.calm} {counted} apart count as one."
    )
    notes.print(f"{LEARNING_ON}: as the agent, which goes on learning what it finds normal.")
    if alone:
        notes.print("No Mahalanobis distance: it needs the normal rows to learn (--normal).")
        return
    notes.print(f"{STREAM}: as an agent without elmgrove learn, which had the same rows.")
    size = detector.basis.window
    windows = f"; × {size}: over windows of {size} {counted}" if size > 1 else ""
    notes.print(
        f"Mahalanobis: a plain distance that learned the same rows, with a threshold for the same "
        f"{100.0 * evaluation.rate:g} %{windows}."
    )
