"""``elmgrove evaluate``: how well labelled rows are told apart, beside other detectors."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from elmgrove.cli.evaluation.case import FIRST, Case, Tried, case_of, require_both
from elmgrove.cli.evaluation.contest import LEARNING_ON, RIVALS, STREAM, Contest, Measured
from elmgrove.cli.evaluation.report import draw_contest, grid_of, numbers_of
from elmgrove.cli.options import notes
from elmgrove.cli.reading_options import Data, LabelSpans, SkipBad, with_layout
from elmgrove.detector import LEARNING, too_few_scores
from elmgrove.errors import BadInput, install_line, require_extra
from elmgrove.reading import Layout


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
        typer.Option(help="Try so many rows as one input, or auto: 10 for a time series, else 1."),
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
