"""What a column is to be predicted as, and the rows that are kept to test it on."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.algebra import Basis, word_of
from elmgrove.cli.fleet_rows import FleetFiles, FleetRows, Pairs
from elmgrove.cli.options import notes
from elmgrove.cli.reading_options import read
from elmgrove.errors import BadInput
from elmgrove.reading import number
from elmgrove.rounds import Exam, Target

#: So many different whole numbers are taken for classes.
FEW = 20
#: The share of rows that is kept for the test, unless another is stated.
SHARE = 0.2
_SHOWN = 5


class Predict(StrEnum):
    """What a target is predicted as."""

    classes = "classes"
    number = "number"


def chosen_share(
    target: str | None, predict: Predict | None, test: Path | None, share: float | None
) -> float | None:
    """Gives the share of rows to test on, None if there is none; ``BadInput`` if options clash."""
    if predict is not None and target is None:
        raise BadInput("--predict says what --target is predicted as, and there is none")
    if test is not None and share is not None:
        raise BadInput("--test has the rows of the test: leave --test-share out")
    return SHARE if test is None and share is None and target is not None else share


def choose_target(column: str, cells: Sequence[Any], decimal: str, said: Predict | None) -> Target:
    """Decides whether a column holds classes or numbers, and notes why and what else it could be.

    Words are classes, and so are a few whole numbers. Where most cells are numbers and differ, the
    others are bad rows.
    """
    if not len(cells):
        raise BadInput(f"there are no rows with a {column!r} to learn from")
    values = [number(cell, decimal) for cell in cells]
    classes = sorted({_word(cell, value) for cell, value in zip(cells, values, strict=True)})
    numbers = {value for value in values if value is not None}
    few = len(classes) <= FEW and all(value.is_integer() for value in numbers)
    worded = 2 * sum(value is None for value in values) > len(values)
    kind = said or (Predict.classes if few or worded else Predict.number)
    target = Target(column, tuple(classes) if kind is Predict.classes else ())
    _note_choice(target, said, worded or not numbers, len(classes))
    return target


def _word(cell: Any, value: float | None) -> str:
    return word_of(cell if value is None else value)


def _note_choice(target: Target, said: Predict | None, worded: bool, different: int) -> None:
    if target.classes:
        rest = ", …" if len(target.classes) > _SHOWN else ""
        some = ", ".join(target.classes[:_SHOWN]) + rest
        what, why = (
            f"{len(target.classes)} classes ({some})",
            f"{different} different whole numbers",
        )
        other = "--predict number predicts it as a number"
    else:
        what, why = "a number", f"{different} different numbers"
        other = "--predict classes makes each of them a class"
    if said is not None:
        reason = "as stated"
    else:
        reason = "since it holds words" if worded else f"since it holds {why}; {other}"
    notes.print(f"{target.column} is predicted as {what}, {reason}.")


def coded(fleet: FleetRows, target: Target, files: FleetFiles) -> FleetRows:
    """Gives the fleet with its targets as outputs of a model; bad ones are errors or left out."""
    decimal = files.layout.decimal
    if files.skip_bad:
        each = [target.fits(fleet.cells[name].cells, decimal) for name in sorted(fleet.cells)]
        mask = np.concatenate(each)
        if not mask.all():
            fleet = fleet.only(mask)
            notes.print(f"Left out {int((~mask).sum())} rows whose {target.column} is no number.")
    targets = {name: target.coded(column, decimal) for name, column in fleet.cells.items()}
    return replace(fleet, targets=targets)


def read_test(path: Path, basis: Basis, target: Target | None, files: FleetFiles) -> Pairs:
    """Reads the rows of a test file in the columns of a basis, and their targets."""
    table = read(path, basis, files.inputs, files.skip_bad)
    X, column = files.paired(path, table)
    T = np.empty((0, 0))
    if target is not None and column is not None:
        fits = target.fits(column.cells, files.layout.decimal)
        if files.skip_bad and not fits.all():
            unknown = f"{int((~fits).sum())} rows whose {target.column} is unknown"
            notes.print(f"{path}: left out {unknown}.")
            X, column = X[fits], column.at(fits)
        T = target.coded(column, files.layout.decimal)
    if not len(X):
        raise BadInput(f"{path}: no rows to test with")
    return Pairs(X, T)


def hold_out(fleet: FleetRows, share: float, seed: int) -> tuple[FleetRows, Pairs]:
    """Takes a share of all rows for the test, at random, but no class as a whole."""
    size = round(share * fleet.count)
    if not 0 < size < fleet.count:
        raise BadInput(f"--test-share {share:g} of {fleet.count} rows would be {size}")
    mask, T = fleet.drawn(size, [seed, 1]), fleet.stacked().T
    if T.shape[1] > 1:
        # What is only in the test could not be learned.
        lost = ~T[~mask].any(axis=0)
        mask &= ~T[:, lost].any(axis=1)
    held = fleet.only(mask).stacked()
    notes.print(
        f"{len(held.X)} of {fleet.count} rows, drawn at random, are kept for the test "
        "(--test-share; --test FILE has others)."
    )
    return fleet.only(~mask), held


def fitted(
    target: Target | None, fleet: FleetRows, held: Pairs | None
) -> tuple[Target | None, FleetRows, Exam | None]:
    """Scales numbers to predict by those that are learned, and makes the exam of the test rows."""
    if target is None:
        return None, fleet, None if held is None else Exam(held.X)
    target = target.fitted(fleet.stacked().T)
    scaled = {name: target.scaled(mine) for name, mine in fleet.targets.items()}
    assert held is not None, "with a target there is always a test"
    exam = Exam(held.X, target.scaled(held.T), target.classes)
    return target, replace(fleet, targets=scaled), exam
