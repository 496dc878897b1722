"""``elmgrove learn``: learns the rows of a file, into a device's state that is there or new."""

import math
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import OWN
from elmgrove.cli.options import (
    COLUMN_OPTIONS,
    LAYER_OPTIONS,
    Activation,
    Data,
    LabelSpans,
    MergedFlag,
    ScalingName,
    ScoreName,
    Seed,
    SkipBad,
    SpectrumText,
    State,
    Units,
    Weights,
    WindowSize,
    basis_like,
    chosen_spectrum,
    chosen_window,
    labelled,
    new_state_option,
    note_window,
    notes,
    percent,
    read,
    read_for,
    remember,
    require_not_given,
    tracked,
    with_layout,
)
from elmgrove.detector.detector import Detector
from elmgrove.detector.events import when_text
from elmgrove.detector.false_alarms import CHANGING, WATCHING, Flagged, RateTest
from elmgrove.detector.self_test import errors_in_words, smallest_errors
from elmgrove.detector.thresholds import FalseAlarmRate, FixedThreshold, MeanSigma, Threshold
from elmgrove.detector.windows import Choice
from elmgrove.device.status import mark_state
from elmgrove.errors import BadInput
from elmgrove.federation.member import Member
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import Table, within
from elmgrove.storage.disk import load, locked, save


@dataclass(frozen=True)
class NewDevice:
    """What the options say about a new device; each field is the option of that name."""

    name: str | None
    like: list[Path] | None
    scaling: str
    units: int | None
    activation: str
    weights: str
    seed: int
    window: str
    score: str | None
    spectrum: str | None
    ridge: float
    forgetting: float
    rate: float
    confidence: float
    threshold: float | None
    sigma: float | None
    promote_after: int | None
    merged: bool

    def start(self, state: Path, table: Table) -> Member:
        """Makes a device that has learned nothing yet, for rows like these."""
        basis = self._basis(table) if self.given is None else self.given
        if self.given is not None and basis.scaling.kind == OWN:
            basis = basis.in_units_of(table.rows)
        detector = Detector.for_basis(
            basis,
            ridge=self.ridge,
            forgetting=self.forgetting,
            threshold=self._limit(),
            promote_after=self.promote_after,
        )
        return Member(self.name or state.stem, detector, merges=self.merged)

    @cached_property
    def given(self) -> Basis | None:
        """The basis that ``--like`` takes from another file; None without."""
        return basis_like(self.like) if self.like else None

    def window_for(self, table: Table) -> Choice:
        """Says which window these rows get, and why."""
        return chosen_window(self.window, table.rows, chosen_spectrum(self.spectrum))

    def _basis(self, table: Table) -> Basis:
        return Basis.fitted(
            table.rows,
            table.names,
            categories=table.categories,
            scaling=self.scaling,
            units=self.units,
            activation=self.activation,
            weights=self.weights,
            seed=self.seed,
            window=self.window_for(table).window,
            score=self.score,
            spectrum=chosen_spectrum(self.spectrum),
        )

    def _limit(self) -> Threshold:
        if self.threshold is not None and self.sigma is not None:
            raise BadInput("--threshold and --sigma are two ways to the same thing: choose one")
        if self.threshold is not None:
            return FixedThreshold(self.threshold)
        if self.sigma is not None:
            return MeanSigma(self.sigma)
        return FalseAlarmRate(self.rate, self.confidence)


#: One row in so many is in the last part.
PART = 5
# Rows of the last part are scored before they are learned, but so many at a time at most.
_BLOCK = 256
# Of the 45 pairs of tenths so many more rise than fall in one series of a hundred without a trend.
_TENTHS, _RISING = 10, 27


def not_yet_learned(detector: Detector, table: Table) -> Table:
    """Gives the rows whose times lie in no time that was learned already, and notes the others."""
    if table.times is None:
        return table
    known = within(table.times, detector.increments.spans)
    if known.any():
        until = when_text(float(table.times[known][-1]))
        notes.print(f"Skipped {known.sum():,} rows that were learned already (up to {until}).")
    return table.without(known)


class LearnRun:
    """Learns a file; its last part shows what alarms the part before would have brought.

    The threshold is the one that the first part gave, and each row is scored before it is learned.
    With a gate, anomalous rows are left out, and all rows of an event. Where rows are samples,
    frames are what is learned, counted or left out.
    """

    def __init__(self, detector: Detector, table: Table, gate: bool) -> None:
        self._detector = detector
        self._basis = detector.basis
        self._rows, self._times = table.rows, table.times
        self._stretches = table.stretches
        self._gate = gate
        self._cut = len(table.rows) - len(table.rows) // PART
        self._counted = RateTest(None, 0.0, detector.basis.window)
        self._limit: float | None = None
        # The scores of the last part by what the first taught: a model that follows hides a trend.
        self._foreseen = np.empty(0)
        #: The rows, or frames, that were left out.
        self.left_out = 0

    def take(self) -> None:
        """Learns all rows; none follows a gap, nor the first one what was learned before."""
        for stretch in self._stretches:
            self._detector.interrupt()
            for start, end in tracked(self._blocks(stretch), "Learning"):
                if self._limit is None and start >= self._cut:
                    self._limit = _limit(self._detector)
                    if self._limit is not None:
                        self._foreseen = self._scores_from(start)
                self._learn(start, end, stretch.start)
        if self._gate:
            self._detector.progress.teach(self.learned)

    def require_solution(self) -> None:
        """Raises ``SingularSystem`` if the model has no solution, and so can't score a row."""
        detector = self._detector
        detector.score_many(self._rows[self._basis.span(0, 1)])
        if self._basis.score == "loss":
            # With a ridge of 0 it would take each row for anomalous by its size, until more come.
            detector.evidence.factor(detector.model.ridge)

    @property
    def learned(self) -> int:
        """The rows, or frames, that were not left out."""
        given = (stretch.stop - stretch.start for stretch in self._stretches)
        return sum(map(self._basis.frames_in, given)) - self.left_out

    @property
    def seen(self) -> Flagged:
        """The count of the last part's rows; of none, where the first part gave no threshold."""
        return self._counted.seen

    @property
    def trend(self) -> bool:
        """Whether scores rose through the last part, by Mann and Kendall's test on its tenths."""
        if len(self._foreseen) < 2 * _TENTHS:
            return False
        levels = [float(np.median(tenth)) for tenth in np.array_split(self._foreseen, _TENTHS)]
        rising = sum(np.sign(later - earlier) for earlier, later in combinations(levels, 2))
        return bool(rising >= _RISING)

    def _blocks(self, stretch: slice) -> list[tuple[int, int]]:
        """Where to begin and to end; few rows, or frames, at a time in the part that is counted."""
        size = 1 if self._basis.spectrum is None else self._basis.spectrum.step
        step = min(max(self._cut // size // 64, 1), _BLOCK)
        early = range(stretch.start, min(self._cut, stretch.stop), 16 * _BLOCK * size)
        late = range(max(self._cut, stretch.start), stretch.stop, step * size)
        return list(pairwise(sorted({*early, *late, stretch.stop})))

    def _learn(self, start: int, end: int, first: int) -> None:
        detector, rows = self._detector, self._rows[start:end]
        times = None if self._times is None else self._times[start:end]
        scores = np.empty(0)
        if self._gate:
            verdicts = detector.observe_many(rows, times)
            judged = [one for one in verdicts if len(one.row) == self._basis.inputs]
            self.left_out += sum(not one.learned for one in judged)
            scores = np.array([one.score for one in judged])
        else:
            if self._limit is not None:
                scores = self._scores(start - first, end - first, first)
            detector.learn_many(rows, times)
        if self._limit is not None:
            self._counted.count_many(~(scores <= self._limit))

    def _scores_from(self, row: int) -> Array:
        """Scores this row and all after it, of which none is learned yet."""
        later = [one for one in self._stretches if one.stop > row]
        starts = [max(row, one.start) - one.start for one in later]
        return np.concatenate(
            [
                self._scores(start, one.stop - one.start, one.start)
                for start, one in zip(starts, later, strict=True)
            ]
        )

    def _scores(self, start: int, end: int, first: int) -> Array:
        """Scores what these rows of a stretch complete; the rows before belong to it."""
        known, last = self._basis.frames_in(start), self._basis.frames_in(end)
        before = self._basis.window - 1
        span = self._basis.span(max(known - before, 0), last)
        rows = self._rows[first + span.start : first + span.stop]
        return self._detector.score_many(rows)[before:]


def _limit(detector: Detector) -> float | None:
    """The threshold by all scores up to now; None where there is none yet."""
    limit = detector.gate.limit()
    return limit if math.isfinite(limit) else None


# Shares of anomalous rows up to so many times the stated one are the stated one.
_TOLERANCE = 1.5
Name = Annotated[str | None, new_state_option("The device's name \\[default: the state file's].")]
Like = Annotated[
    list[Path] | None,
    new_state_option(
        "Take layer, columns and scaling from this state or evidence file, so that the two can "
        "merge; own units come from the rows. Repeatable: a new scaling, for what all of them "
        "learned, with which those that were made before can't merge.",
        exists=True,
        dir_okay=False,
    ),
]
Ridge = Annotated[float, new_state_option("Regularization of a loss.", min=0.0)]
Forgetting = Annotated[
    float, new_state_option("Weight that a row keeps with each later row; 1 = forget nothing.")
]
Rate = Annotated[float, new_state_option("The share of normal rows that may be flagged.")]
Confidence = Annotated[
    float,
    new_state_option(
        "How sure counting must be of that rate before there are alarms; 0 = do not wait for it."
    ),
]
PromoteAfter = Annotated[
    int | None,
    new_state_option(
        "Learn this many anomalous rows in a row if they are alike \\[default: never].", min=2
    ),
]
Fixed = Annotated[
    float | None, new_state_option("A fixed threshold on the score instead of a rate.")
]
Sigma = Annotated[
    float | None, new_state_option("Mean plus this many standard deviations instead of a rate.")
]


@with_layout
def learn(
    context: typer.Context,
    data: Data,
    state: State,
    gate: Annotated[
        bool, typer.Option("--gate", help="Leave out rows that the state finds anomalous.")
    ] = False,
    label_spans: LabelSpans = None,
    skip_bad: SkipBad = False,
    name: Name = None,
    like: Like = None,
    scaling: ScalingName = "standard",
    units: Units = None,
    activation: Activation = "identity",
    weights: Weights = "uniform",
    seed: Seed = 0,
    window: WindowSize = "auto",
    score: ScoreName = None,
    spectrum: SpectrumText = None,
    ridge: Ridge = 1e-3,
    forgetting: Forgetting = 1.0,
    rate: Rate = 0.01,
    confidence: Confidence = 0.95,
    threshold: Fixed = None,
    sigma: Sigma = None,
    promote_after: PromoteAfter = None,
    merged: MergedFlag = False,
    *,
    layout: Layout,
) -> None:
    """Learn what normal rows look like.

    The first file makes the state; later files add to it.
    The last fifth of the file is a test: its rows are counted before they are learned.

    Example: [bold]elmgrove learn normal.csv --state fan-1.elm[/]
    """
    new = NewDevice(
        name=name,
        like=like,
        scaling=scaling,
        units=units,
        activation=activation,
        weights=weights,
        seed=seed,
        window=window,
        score=score,
        spectrum=spectrum,
        ridge=ridge,
        forgetting=forgetting,
        rate=rate,
        confidence=confidence,
        threshold=threshold,
        sigma=sigma,
        promote_after=promote_after,
        merged=merged,
    )
    choice: Choice | None = None
    with locked(state):
        if state.exists():
            kept = f"{state} exists and keeps the settings it was made with"
            fixed = [*(one.name for one in fields(NewDevice)), *COLUMN_OPTIONS]
            require_not_given(context, fixed, kept)
            member = load(state, Member.from_bytes)
            table = _normal(read_for(member, data, layout, skip_bad), data, label_spans)
            table = not_yet_learned(member.detector, table)
            if not len(table.rows):
                notes.print(f"There is nothing new to learn. {state} stays as it is.")
                return
        else:
            if like:
                require_not_given(context, LAYER_OPTIONS, f"--like takes this from {like[0]}")
            table = _normal(read(data, new.given, layout, skip_bad), data, label_spans)
            member = new.start(state, table)
            remember(member, layout)
            choice = None if like else new.window_for(table)
        lesson = LearnRun(member.detector, table, gate)
        lesson.take()
        lesson.require_solution()
        mark_state(member, None if table.times is None else float(table.times[-1]))
        save(state, member)
        note_window(choice)
        _report(member, lesson)
        notes.print(f"{_outlook(member.detector)} Saved {state}.")


def _normal(table: Table, data: Path, spans: str | None) -> Table:
    """The rows to learn: those that nobody labelled anomalous."""
    normal = labelled(table, data, spans).normal()
    if left_out := len(table.rows) - len(normal.rows):
        notes.print(f"Left out {left_out:,} rows that are labelled anomalous.")
    if not len(normal.rows):
        raise BadInput(f"{data}: no rows to learn from")
    return normal


def _report(member: Member, lesson: LearnRun) -> None:
    detector, left_out = member.detector, ""
    if lesson.left_out:
        left_out = f" ({lesson.left_out} left out)"
    basis = detector.basis
    of_ten = f" windows of {basis.window}" if basis.window > 1 else ""
    samples = "" if basis.spectrum is None else f" of {basis.spectrum.length} samples"
    learned = f"learned {lesson.learned} {basis.counted}{samples}{left_out}"
    notes.print(f"{member.name}: {learned}, {detector.learned}{of_ten} in all.")
    if lesson.seen.rows:
        notes.print(_finding(lesson, detector))
    told = errors_in_words(smallest_errors(detector))
    if told:
        notes.print(told)


def _finding(lesson: LearnRun, detector: Detector) -> str:
    """Says what the last part of the file showed, and what it means."""
    seen, rate = lesson.seen, detector.gate.policy.rate
    share = f"{percent(seen.share)} of {detector.basis.counted}"
    found = f"Of the last {100 // PART} % of this file, before it was learned, {share} "
    if rate is None:
        return f"{found}were above the threshold: expect as many alarms of rows like these."
    stated = f"{100.0 * rate:g} %"
    # By chance, and by what a threshold from so few scores can be: 1.1 % is 1 %.
    if seen.band[0] <= _TOLERANCE * rate:
        return f"{found}were above the threshold ({stated} stated)."
    if lesson.trend:
        return (
            f"{found}were above the threshold, not {stated}: it was still changing. Expect more "
            "false alarms until you learn rows of a longer time."
        )
    way_out = "learn rows of a longer time"
    if detector.basis.window == 1:
        way_out += ", or --window"
    return (
        f"{found}were above the threshold, not {stated}: they were not like those before. They are "
        f"learned now; expect as many false alarms where later rows differ as much: {way_out}."
    )


def _outlook(detector: Detector) -> str:
    """Says what the state does with rows from now on."""
    limit = f"scores above {detector.threshold:.4g} are anomalous"
    if detector.state == WATCHING:
        return f"Watching: {limit}."
    if detector.state == CHANGING:
        return f"Changing: {limit}, and far more are than stated."
    counted = detector.basis.counted
    return (
        f"Still learning: too few {counted} for a threshold. Learn "
        f"{detector.gate.rows_to_learn} more {counted} that were normal; from a stream it takes "
        f"about {detector.rows_missing}."
    )
