"""``elmgrove learn``: learns the rows of a file, into a device's state that is there or new."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from elmgrove.cli.lesson import PART, Lesson, not_yet_learned
from elmgrove.cli.new_device import NewDevice
from elmgrove.cli.options import (
    LAYER_OPTIONS,
    Activation,
    MergedFlag,
    ScalingName,
    ScoreName,
    Seed,
    SpectrumText,
    State,
    Units,
    Weights,
    WindowSize,
    new_state_option,
    note_window,
    notes,
    percent,
    require_not_given,
)
from elmgrove.cli.reading_options import (
    COLUMN_OPTIONS,
    Data,
    LabelSpans,
    SkipBad,
    labelled,
    read,
    read_for,
    remember,
    with_layout,
)
from elmgrove.detector import (
    CHANGING,
    WATCHING,
    Choice,
    Detector,
    errors_in_words,
    smallest_errors,
)
from elmgrove.device import mark_state
from elmgrove.errors import BadInput
from elmgrove.federation import Member
from elmgrove.reading import Layout, Table
from elmgrove.storage import load, locked, save

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
        "Learn so many strange rows in a row that are like each other \\[default: never].", min=2
    ),
]
Fixed = Annotated[
    float | None, new_state_option("A fixed threshold on the score instead of a rate.")
]
Sigma = Annotated[
    float | None, new_state_option("Mean plus so many standard deviations instead of a rate.")
]


@with_layout
def learn(
    context: typer.Context,
    data: Data,
    state: State,
    gate: Annotated[
        bool, typer.Option("--gate", help="Leave out rows that the state finds strange.")
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
    """Learn what normal rows look like, and make the state or go on with it.

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
        lesson = Lesson(member.detector, table, gate)
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


def _report(member: Member, lesson: Lesson) -> None:
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


def _finding(lesson: Lesson, detector: Detector) -> str:
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
    limit = f"scores above {detector.threshold:.4g} are strange"
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
