"""``elmgrove evaluate``: how well labelled rows are told apart, beside other detectors."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from elmgrove.cli.evaluation.report import draw_trial, grid_of, numbers_of
from elmgrove.cli.evaluation.trial import RIVALS, Outcome, Trial
from elmgrove.cli.lesson import Lesson
from elmgrove.cli.options import Data, SkipBad, note_window, notes, percent, read
from elmgrove.detector import LEARNING, Detector, choose_window
from elmgrove.errors import BadInput
from elmgrove.federation import Member
from elmgrove.reading import Table
from elmgrove.storage import load

#: The share of a file that is learned where nothing else is.
FIRST = 0.4
# Fewer rows than this say nothing about what is normal.
_LEAST = 20


def evaluate(
    data: Data,
    label: Annotated[
        str,
        typer.Option(help="The column that says which rows were anomalous; it is never learned."),
    ],
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", "-s", help="Judge by this state.", exists=True, dir_okay=False
        ),
    ] = None,
    normal: Annotated[
        Path | None,
        typer.Option(
            help="Normal rows to learn, for a new detector (without --state) and for the others "
            f"\\[default: those labelled normal in the first {FIRST:.0%} of DATA; the rest is "
            "judged].",
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
) -> None:
    """Say how well a detector tells labelled rows from the others, and how others do.

    AUC and average precision do not depend on a threshold; recall, false alarms, events and delay
    do. All learn the same rows.

    Example: [bold]elmgrove evaluate pump.csv --label anomaly --picture pump.png[/]
    """
    case = _case(data, label, state, normal, skip_bad)
    trial = Trial(case.member, case.judged)
    _require_both(trial, label)
    _note_rows(trial, case)
    outcomes = [trial.own(), trial.learning_on()]
    if rivals:
        outcomes += _compared(trial, case)
    if as_json:
        Console().print_json(json.dumps(_numbers(trial, case, outcomes)))
    else:
        Console(markup=False, emoji=False).print(grid_of(outcomes))
    if picture is not None:
        draw_trial(trial, outcomes, picture)
        notes.print(f"Wrote {picture}.")
