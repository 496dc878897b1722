"""``elmgrove tune DATA --units``: what it prints, and that the command it prints does just that."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.cross_validation import losses_left_out, surprise_left_out
from elmgrove.federation.member import Member
from elmgrove.reading.table import read_table
from elmgrove.storage.disk import load
from support.commands import Elmgrove
from support.fans import rows, write


def table(out: str) -> list[list[str]]:
    lines = [line for line in out.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def scaled(basis: Basis) -> np.ndarray:
    return basis.scaling(read_table(Path("fan.csv")).array)


def test_each_number_of_units_has_its_errors_and_the_command_learns_with_the_best(
    elmgrove: Elmgrove,
) -> None:
    write("fan.csv", rows(1, 300))
    ran = elmgrove("tune", "fan.csv", "--units", "auto,1", "--score", "loss", "--ridge", "0.1,1")
    assert ran.code == 0, ran.err
    found = table(ran.out)
    read = read_table(Path("fan.csv"))
    errors = {}
    for units, ridge, of_rows, of_values, _ in found:
        basis = Basis.fitted(
            read.rows, read.names, scaling="standard", units=int(units), score="loss"
        )
        expected = losses_left_out(basis, scaled(basis), float(ridge))
        assert (of_rows, of_values) == (f"{expected.rows:.4g}", f"{expected.values:.4g}")
        errors[units, ridge] = expected.values
    assert {ridge for _, ridge in errors} == {"0.1", "1"}
    (best,) = (row for row in found if "best" in row[-1])
    assert errors[best[0], best[1]] == min(errors.values())
    assert {row[0] for row in found if "usual" in row[-1]} == {"3"}, "half of six columns"

    command = shlex.split(ran.out.splitlines()[-1])
    assert command[:3] == ["elmgrove", "learn", "fan.csv"]
    assert elmgrove(*command[1:]).code == 0
    member = load(Path("fan.elm"), Member.from_bytes)
    assert str(member.detector.basis.layer.units) == best[0]
    assert member.detector.model.ridge == float(best[1])
    assert member.detector.basis.score == "loss"


def test_a_distance_is_chosen_by_surprise_and_what_was_told_is_in_the_command(
    elmgrove: Elmgrove,
) -> None:
    write("fan.csv", rows(1, 300))
    told = ("--window", "2", "--drop", "hum", "--drop", "draft", "--scaling", "minmax")
    ran = elmgrove("tune", "fan.csv", "--units", "2,4,99", *told)
    assert ran.code == 0, ran.err
    assert [row[0] for row in table(ran.out)] == ["2", "4", "8"], "at most as many as inputs"
    line = ran.out.splitlines()[-1]
    for words in ("--window 2", "--drop hum --drop draft", "--scaling minmax"):
        assert words in line
    assert elmgrove(*shlex.split(line)[1:]).code == 0
    basis = load(Path("fan.elm"), Member.from_bytes).detector.basis
    assert (basis.window, basis.scaling.kind, basis.columns) == (2, "minmax", 4)


def test_without_windows_surprise_is_of_the_rows_as_they_are(elmgrove: Elmgrove) -> None:
    write("fan.csv", rows(1, 200))
    ran = elmgrove("tune", "fan.csv", "--units", "6", "--window", "1")
    ((units, surprise, said),) = table(ran.out)
    read = read_table(Path("fan.csv"))
    basis = Basis.fitted(read.rows, read.names, scaling="standard", units=6)
    assert (units, said) == ("6", "best, usual")
    assert surprise == f"{surprise_left_out(basis, scaled(basis)):.4g}"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("fan.csv", "--units", "3", "--rate", "0.1"), "--rate: not with --units"),
        (("fan.csv", "--units", "3", "--dry-run"), "--dry-run: not with --units"),
        (("fan.csv", "--units", "three"), "units: whole numbers from 1 on, or auto"),
        (("fan.csv", "--units", "0"), "units: whole numbers from 1 on, or auto"),
        (("fan.csv", "--units", "3", "--score", "loss", "--ridge", "-1"), "ridge: numbers from 0"),
        (("fan.csv", "--seed", "3"), "--seed: counts with --units alone"),
        (("fan.csv", "--drop", "hum", "--rate", "0.1"), "--drop: counts with --units alone"),
        (("few.csv", "--units", "2", "--window", "1"), "too few to leave out a tenth"),
    ],
)
def test_what_does_not_go_together_is_said(
    elmgrove: Elmgrove, words: tuple[str, ...], expected: str
) -> None:
    write("fan.csv", rows(1, 100))
    write("few.csv", rows(1, 5))
    ran = elmgrove("tune", *words)
    assert ran.code == 1
    assert expected in ran.err.splitlines()[-1]
