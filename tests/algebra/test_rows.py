"""Rows from outside are taken as they are, or refused with row and column named."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from elmgrove import BadInput
from elmgrove.algebra.rows import Rows

NAMES = ("speed", "heat", "noise")
ROWS = Rows(3, NAMES)
GOOD = [1.0, 2.0, 3.0]


# What is refused, and where

BAD_VALUES = {
    "nan": float("nan"),
    "infinite": float("inf"),
    "negative infinite": float("-inf"),
    "missing": None,
    "missing in pandas": pd.NA,
    "text": "warm",
    "a number as text": "2.5",
    "a list": [1.0, 2.0],
    "complex": 2j,
    "beyond the square root of the range": 1e200,
    "an integer beyond the range": 10**400,
}


@pytest.mark.parametrize("value", BAD_VALUES.values(), ids=BAD_VALUES)
@pytest.mark.parametrize("column", [0, 2])
def test_a_bad_value_is_refused_with_row_column_and_name(value: Any, column: int) -> None:
    bad: list[Any] = list(GOOD)
    bad[column] = value
    with pytest.raises(BadInput, match=f"row 0, column {column} \\('{NAMES[column]}'\\)") as alone:
        ROWS.one(bad)
    assert (alone.value.row, alone.value.column) == (0, column)
    with pytest.raises(BadInput, match=f"row 2, column {column} \\('{NAMES[column]}'\\)") as among:
        ROWS.many([GOOD, GOOD, bad, GOOD])
    assert (among.value.row, among.value.column) == (2, column)


@pytest.mark.parametrize("width", [0, 1, 2, 4])
def test_a_row_of_the_wrong_width_says_both_numbers(width: int) -> None:
    with pytest.raises(BadInput, match=rf"3 columns.* {width}"):
        ROWS.one([0.0] * width)
    with pytest.raises(BadInput, match=rf"3 columns.* {width}"):
        ROWS.many(np.zeros((2, width)))


@pytest.mark.parametrize(("rows", "at"), [([GOOD, [1.0, 2.0]], 1), ([[*GOOD, 4.0], GOOD], 0)])
def test_ragged_rows_name_the_first_row_of_another_length(rows: list[Any], at: int) -> None:
    with pytest.raises(BadInput, match=f"row {at}: expected 3 columns, got {len(rows[at])}") as e:
        ROWS.many(rows)
    assert (e.value.row, e.value.column) == (at, None)


@pytest.mark.parametrize(
    "rows",
    [5.0, None, [], GOOD, np.ones((2, 2, 3)), "warm", object(), {1.0, 2.0, 3.0}],
    ids=["number", "None", "empty", "one row", "3-d", "text", "object", "set"],
)
def test_what_is_no_table_is_refused(rows: Any) -> None:
    with pytest.raises(BadInput):
        ROWS.many(rows)


@pytest.mark.parametrize(
    "row",
    [5.0, None, [], [GOOD], np.ones((1, 1, 3)), "warm", object(), {1.0, 2.0, 3.0}, {"speed": 1.0}],
    ids=["number", "None", "empty", "2-d", "3-d", "text", "object", "set", "dict"],
)
def test_what_is_no_row_is_refused(row: Any) -> None:
    with pytest.raises(BadInput):
        ROWS.one(row)


@pytest.mark.parametrize(
    "row",
    [
        np.array([1, 2j, 3]),
        np.array(["2020-01-01"] * 3, "datetime64[D]"),
        np.array([1, 2, 3], "timedelta64[s]"),
    ],
    ids=["complex", "dates", "durations"],
)
def test_numbers_of_another_kind_are_not_cast_in_silence(row: np.ndarray) -> None:
    with pytest.raises(BadInput):
        ROWS.one(row)
    with pytest.raises(BadInput):
        ROWS.many(row[np.newaxis])


def test_a_masked_value_is_missing_whatever_stands_behind_the_mask() -> None:
    with pytest.raises(BadInput, match="row 0, column 1"):
        ROWS.one(np.ma.array(GOOD, mask=[0, 1, 0]))
    with pytest.raises(BadInput, match="row 1, column 0"):
        ROWS.many(np.ma.array([GOOD, GOOD], mask=[[0, 0, 0], [1, 0, 0]]))


def test_a_table_of_pandas_must_have_the_columns_in_order() -> None:
    table = pd.DataFrame([GOOD], columns=["heat", "speed", "noise"])
    with pytest.raises(BadInput, match=r"expected columns \['speed'.*got \['heat'"):
        ROWS.many(table)
    assert Rows(3).many(table)[0].tolist() == [GOOD]


# What is taken


@pytest.mark.parametrize(
    "row",
    [
        GOOD,
        tuple(GOOD),
        [1, 2, 3],
        [Decimal("1"), Fraction(4, 2), 3],
        [True, 2, np.float16(3)],
        np.array([1, 2, 3], np.int8),
        np.array([1, 2, 3], np.uint64),
        np.array(GOOD, np.float32),
        np.array(GOOD, np.longdouble),
        np.array(GOOD, ">f8"),
        np.array(GOOD, object),
        np.array([1.0, 9.0, 2.0, 9.0, 3.0])[::2],
        np.array([3.0, 2.0, 1.0])[::-1],
        np.array([[1.0, 9.0], [2.0, 9.0], [3.0, 9.0]])[:, 0],
        pd.Series(GOOD),
    ],
    ids=str,
)
def test_a_good_row_of_any_make_is_taken_with_its_energy(row: Any) -> None:
    for taken, energy in (ROWS.one(row), ROWS.many([list(row)])):
        assert taken.dtype == np.float64
        np.testing.assert_array_equal(taken.reshape(-1), GOOD)
        assert energy == 14.0


@pytest.mark.parametrize(
    "table",
    [
        np.asfortranarray([GOOD, GOOD]),
        np.array([GOOD, GOOD, GOOD, GOOD])[::2],
        np.array([[*GOOD, 9.0], [*GOOD, 9.0]])[:, :3],
        np.array([GOOD, GOOD], np.int16),
        [tuple(GOOD), np.array(GOOD)],
        pd.DataFrame([GOOD, GOOD], columns=NAMES),
    ],
    ids=["by columns", "every second", "a slice", "integers", "mixed", "pandas"],
)
def test_a_good_table_of_any_make_is_taken_contiguous(table: Any) -> None:
    taken, energy = ROWS.many(table)
    assert taken.flags.c_contiguous
    assert taken.tolist() == [GOOD, GOOD]
    assert energy == 28.0


def test_the_rows_of_the_caller_are_never_changed_and_may_be_read_only() -> None:
    for made in (np.array([GOOD, GOOD]), np.array([[1, 2, 3], [4, 5, 6]])):
        before = made.copy()
        made.setflags(write=False)
        ROWS.many(made)
        ROWS.one(made[0])
        np.testing.assert_array_equal(made, before)
