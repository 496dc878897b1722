"""``elmgrove learn``: learns the rows of a file, into a device's state that is there or new."""

import math
from itertools import combinations, pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from elmgrove.algebra.basis import SCORES, Basis
from elmgrove.algebra.layer import ACTIVATIONS
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import OWN, SCALINGS
from elmgrove.algebra.spectrum import Spectrum
from elmgrove.cli.options import (
    Data,
    LabelSpans,
    MergedFlag,
    SkipBad,
    State,
    basis_like,
    for_new_state,
    labelled,
    notes,
    percent,
    read,
    read_for,
    require_not_given,
    tracked,
    with_layout,
)
from elmgrove.detector.decision import CHANGING, WATCHING, Flagged, RateTest
from elmgrove.detector.detector import Detector
from elmgrove.detector.inputs import Choice, choose_window, require_window
from elmgrove.detector.papers import PAPERS, Paper
from elmgrove.detector.self_test import errors_in_words, smallest_errors
from elmgrove.detector.thresholds import FalseAlarmRate
from elmgrove.device.status import mark_state
from elmgrove.errors import BadInput
from elmgrove.federation.member import Member
from elmgrove.reading.layout import LAYOUT, Layout
from elmgrove.reading.table import Table, within
from elmgrove.reading.times import when_text
from elmgrove.storage.disk import load, locked, save


class LearnRun:
    """Learns a file; its last fifth shows what alarms the part before would have brought.

    The threshold is the one that the first part gave, and each row is scored before it is learned.
    Where rows are samples, frames are what is learned and counted.
    """

    def __init__(self, detector: Detector, table: Table) -> None:
        self._detector, self._basis, self._table = detector, detector.basis, table
        self._cut = len(table.rows) - len(table.rows) // 5
        self._counted = RateTest(None, 0.0, detector.basis.window)
        # Infinite as long as there are too few scores for one.
        self._limit = math.inf
        # The scores of the last part by what the first taught: a model that follows hides a trend.
        self._foreseen = np.empty(0)

    def take(self) -> None:
        """Learn all rows; none follows a gap, nor the first one what was learned before."""
        detector, table = self._detector, self._table
        for stretch in table.stretches:
            detector.interrupt()
            for start, end in tracked(self._blocks(stretch), "Learning"):
                if self._limit == math.inf and start >= self._cut:
                    self._limit = detector.gate.limit()
                    if self._limit < math.inf:
                        self._foreseen = self._scores_from(start)
                if self._limit < math.inf:
                    scores = self._scores(start - stretch.start, end - stretch.start, stretch.start)
                    for above in (~(scores <= self._limit)).tolist():
                        self._counted.count(above)
                times = None if table.times is None else table.times[start:end]
                detector.learn_many(table.rows[start:end], times)

    @property
    def learned(self) -> int:
        """The rows, or frames, that were given."""
        return sum(self._basis.frames_in(one.stop - one.start) for one in self._table.stretches)

    @property
    def seen(self) -> Flagged:
        """The count of the last part's rows; of none, where the first part gave no threshold."""
        return self._counted.seen

    @property
    def trend(self) -> bool:
        """Whether scores rose through the last part, by Mann and Kendall's test on its tenths."""
        if len(self._foreseen) < 20:
            return False
        levels = [float(np.median(tenth)) for tenth in np.array_split(self._foreseen, 10)]
        rising = sum(np.sign(later - earlier) for earlier, later in combinations(levels, 2))
        # Of the 45 pairs, 27 more rise than fall in one series of a hundred without a trend.
        return bool(rising >= 27)

    def _blocks(self, stretch: slice) -> list[tuple[int, int]]:
        """Where to begin and to end; few rows, or frames, at a time in the part that is counted."""
        size = 1 if self._basis.spectrum is None else self._basis.spectrum.step
        step = min(max(self._cut // size // 64, 1), 256)
        early = range(stretch.start, min(self._cut, stretch.stop), 4096 * size)
        late = range(max(self._cut, stretch.start), stretch.stop, step * size)
        return list(pairwise(sorted({*early, *late, stretch.stop})))

    def _scores_from(self, row: int) -> Array:
        """Score this row and all after it, of which none is learned yet."""
        parts = [
            self._scores(max(row, one.start) - one.start, one.stop - one.start, one.start)
            for one in self._table.stretches
            if one.stop > row
        ]
        return np.concatenate(parts)

    def _scores(self, start: int, end: int, first: int) -> Array:
        """Score what these rows of a stretch complete; the rows before belong to it."""
        known, last = self._basis.frames_in(start), self._basis.frames_in(end)
        before = self._basis.window - 1
        span = self._basis.span(max(known - before, 0), last)
        rows = self._table.rows[first + span.start : first + span.stop]
        return self._detector.score_many(rows)[before:]


@with_layout()
def learn(
    context: typer.Context,
    data: Data,
    state: State,
    label_spans: LabelSpans = None,
    skip_bad: SkipBad = False,
    name: Annotated[
        str | None, for_new_state("The device's name \\[default: the state file's].")
    ] = None,
    like: Annotated[
        list[Path] | None,
        for_new_state(
            "Layer, columns and scaling of this state or evidence, to merge with it. Repeatable: a "
            "new scaling, for what all of them learned.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    scaling: Annotated[
        str, for_new_state(f"{', '.join(SCALINGS)} (by each device's own mean and deviation).")
    ] = "standard",
    window: Annotated[
        str, for_new_state("Rows as one input, or auto: 10 for a time series, else 1.")
    ] = "auto",
    spectrum: Annotated[
        str | None,
        for_new_state(
            "Columns are samples of fast signals: RATE:FRAME[:BANDS[:mel]], like 16000:1024:64:mel."
        ),
    ] = None,
    score: Annotated[
        str | None, for_new_state(f"{' or '.join(SCORES)} \\[default: distance, with identity].")
    ] = None,
    units: Annotated[
        int | None, for_new_state("Hidden units \\[default: by the number of inputs].", min=1)
    ] = None,
    activation: Annotated[str, for_new_state(f"{', '.join(ACTIVATIONS)}.")] = "identity",
    rate: Annotated[float, for_new_state("The share of normal rows that may be flagged.")] = 0.01,
    watch_now: Annotated[
        bool, for_new_state("Raise alarms at once, however few rows there are.", "--watch-now")
    ] = False,
    merged: MergedFlag = False,
    as_: Annotated[
        str | None,
        for_new_state(
            f"The detector of a paper: {' or '.join(PAPERS)}; prints what it sets.", "--as"
        ),
    ] = None,
    *,
    layout: Layout,
) -> None:
    """Learn what normal rows look like.

    The first file makes the state; later files add to it. The last fifth of a file is a test: the
    output says how many of its rows would have been flagged, before they are learned.

    Example: [bold]elmgrove learn normal.csv --state fan-1.elm[/]
    """
    choice: Choice | None = None
    with locked(state):
        if state.exists():
            kept = f"{state} exists and keeps the settings it was made with"
            require_not_given(context, _FOR_NEW, kept)
            member = load(state, Member.from_bytes)
            table = _normal(read_for(member, data, skip_bad, layout), data, label_spans)
            table = _not_yet_learned(member.detector, table)
            if not len(table.rows):
                notes.print(f"There is nothing new to learn. {state} stays as it is.")
                return
        else:
            paper = None if as_ is None else _paper(context, as_)
            if paper is not None:
                scaling, window, score = paper.scaling, str(paper.window), paper.score
                merged = paper.merged
            if like:
                require_not_given(context, _OF_LAYER, f"--like takes this from {like[0]}")
            given = basis_like(like) if like else None
            table = _normal(read(data, given, layout, skip_bad), data, label_spans)
            frames = None if spectrum is None else Spectrum.parsed(spectrum)
            if given is None:
                if require_window(window) == "auto":
                    choice = choose_window(table.rows, frames)
                else:
                    choice = Choice(int(window), "as stated")
                basis = Basis.fitted(
                    table.rows,
                    table.names,
                    categories=table.categories,
                    scaling=scaling,
                    units=units,
                    activation=activation,
                    window=choice.window,
                    score=score,
                    spectrum=frames,
                )
            else:
                own = given.scaling.kind == OWN
                basis = given.in_units_of(table.rows) if own else given
            limit = FalseAlarmRate(rate, 0.0) if watch_now else FalseAlarmRate(rate)
            detector = Detector.for_basis(basis, patterns=paper and paper.patterns, threshold=limit)
            if paper is not None:
                notes.print(paper.in_words(basis.layer.units, activation))
            member = Member(name or state.stem, detector, merges=merged)
            if layout.fields:
                # Later files are read as this one.
                member.notes[LAYOUT] = layout.fields
        run = LearnRun(member.detector, table)
        run.take()
        mark_state(member, None if table.times is None else float(table.times[-1]))
        save(state, member)
        if choice is not None and as_ is None:
            notes.print(f"Window of {choice.window}: {choice.reason}.")
        _report(member, run)
        notes.print(f"{_outlook(member.detector)} Saved {state}.")


# The options that say how rows become numbers of a hidden layer.
_OF_LAYER = (
    *("columns", "drop", "categories", "scaling", "window", "spectrum", "score", "units"),
    "activation",
)
_FOR_NEW = (*_OF_LAYER, "name", "like", "rate", "watch_now", "merged", "as_")


def _paper(context: typer.Context, name: str) -> Paper:
    if name not in PAPERS:
        raise BadInput(f"--as: {' or '.join(PAPERS)}, not {name!r}")
    set_by_it = ("score", "scaling", "window", "merged", "like", "spectrum")
    require_not_given(context, set_by_it, f"--as {name} sets this itself")
    return PAPERS[name]


def _not_yet_learned(detector: Detector, table: Table) -> Table:
    if table.times is None:
        return table
    known = within(table.times, detector.increments.spans)
    if known.any():
        until = when_text(float(table.times[known][-1]))
        notes.print(f"Skipped {known.sum():,} rows that were learned already (up to {until}).")
    return table.without(known)


def _normal(table: Table, data: Path, spans: str | None) -> Table:
    normal = labelled(table, data, spans).normal()
    if left_out := len(table.rows) - len(normal.rows):
        notes.print(f"Left out {left_out:,} rows that are labelled anomalous.")
    if not len(normal.rows):
        raise BadInput(f"{data}: no rows to learn from")
    return normal


def _report(member: Member, run: LearnRun) -> None:
    detector, basis = member.detector, member.detector.basis
    of_ten = f" windows of {basis.window}" if basis.window > 1 else ""
    samples = "" if basis.spectrum is None else f" of {basis.spectrum.length} samples"
    learned = f"learned {run.learned} {basis.counted}{samples}"
    notes.print(f"{member.name}: {learned}, {detector.learned}{of_ten} in all.")
    if patterns := detector.patterns_in_words:
        notes.print(f"Patterns: {patterns}.")
    if run.seen.rows:
        notes.print(_finding(run, detector))
    if errors := errors_in_words(smallest_errors(detector)):
        notes.print(errors)


def _finding(run: LearnRun, detector: Detector) -> str:
    seen, rate = run.seen, detector.gate.policy.rate
    share = f"{percent(seen.share)} of {detector.basis.counted}"
    found = f"Of the last 20 % of this file, before it was learned, {share} "
    if rate is None:
        return f"{found}were above the threshold: expect as many alarms of rows like these."
    stated = f"{100.0 * rate:g} %"
    # By chance, and by what a threshold from so few scores can be: 1.1 % is 1 %.
    if seen.band[0] <= 1.5 * rate:
        return f"{found}were above the threshold ({stated} stated)."
    if run.trend:
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
