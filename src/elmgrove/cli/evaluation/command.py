"""``elmgrove evaluate``: how well labelled rows are told apart, beside other detectors."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from elmgrove.cli.evaluation.case import FIRST, Case, case_of, require_both
from elmgrove.cli.evaluation.report import draw_trial, grid_of, numbers_of
from elmgrove.cli.evaluation.trial import RIVALS, Outcome, Trial
from elmgrove.cli.options import notes
from elmgrove.cli.reading_options import Data, SkipBad, with_layout
from elmgrove.detector import LEARNING
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
            dir_okay=False,
        ),
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
    skip_bad: SkipBad = False,
    *,
    layout: Layout,
) -> None:
    """Say how well a detector tells labelled rows from the others, and how others do.

    AUC and average precision need no threshold; recall, false alarms, events and delay come from
    it. All learn the same rows.

    Example: [bold]elmgrove evaluate pump.csv --label anomaly --picture pump.png[/]
    """
    if picture is not None:
        require_extra("matplotlib.figure", "plot")
    if layout.label is None:
        raise BadInput("--label names the column that says which rows were anomalous")
    case = case_of(data, layout, state, normal, skip_bad)
    trial = Trial(case.member, case.judged)
    # Those that complete no window are not among them.
    require_both(trial.labels, layout.label, cut=False)
    _note_rows(trial, case)
    outcomes = [trial.own(), trial.learning_on()]
    if rivals:
        _note_rivals(trial, case)
        outcomes += [] if case.learned is None else trial.rivals(case.learned)
    if as_json:
        Console().print_json(json.dumps(_numbers(trial, case, outcomes)))
    else:
        Console(markup=False, emoji=False).print(grid_of(outcomes))
    if picture is not None:
        draw_trial(trial, outcomes, picture)
        notes.print(f"Wrote {picture}.")


def _note_rows(trial: Trial, case: Case) -> None:
    counted, detector = trial.course.counted, case.member.detector
    notes.print(f"Learned: {detector.learned:,} {counted}, {case.about}.")
    waiting = trial.not_judged
    left_out = f" ({waiting} more complete no window)" if waiting else ""
    stretches = len(trial.stretches)
    notes.print(
        f"Judged: {len(trial.labels):,} {counted}{left_out}; {int(trial.labels.sum()):,} are "
        f"labelled anomalous, in {stretches:,} stretch{'es' if stretches != 1 else ''}."
    )
    if detector.state == LEARNING:
        missing = f"{detector.rows_missing:,} more {counted}"
        notes.print(
            f"Still learning ({missing} until there are alarms): judged by the threshold that it "
            "has by now."
        )
    notes.print(f"An alarm, and with it an event: {trial.rule}.")


def _note_rivals(trial: Trial, case: Case) -> None:
    if case.learned is None:
        notes.print("Others are left out: they need the normal rows to learn (--normal).")
        return
    size = trial.window
    windows = f"; with × {size} they get windows of {size} {trial.course.counted}, as Elmgrove does"
    windows = windows if size > 1 else ""
    notes.print(
        f"Others learn the same rows, with their libraries' defaults; their thresholds are for the "
        f"same {100.0 * trial.rate:g} % of the rows that they learned{windows}."
    )
    missing = {library for library, _ in RIVALS.values() if library.missing}
    for one in sorted(missing):
        notes.print(f"{one.title} is not installed: {install_line(one.extra)}.")


def _numbers(trial: Trial, case: Case, outcomes: list[Outcome]) -> dict[str, Any]:
    return {
        "learned": case.member.detector.learned,
        "rows": len(trial.labels),
        "labelled": int(trial.labels.sum()),
        "rate": trial.rate,
        "methods": [numbers_of(one) for one in outcomes],
    }
