"""Targets: cells become outputs, and outputs become what is predicted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import BadInput
from elmgrove.reading.table import ColumnCells
from elmgrove.rounds.predictor import Target


def column(*cells: object) -> ColumnCells:
    held = np.empty(len(cells), object)
    held[:] = cells
    return ColumnCells("rows.csv", "column 3 ('mode')", "line", held, np.arange(2, 2 + len(cells)))


def test_classes_are_one_output_each_however_a_number_is_written() -> None:
    target = Target("mode", ("1", "2", "off"))
    T = target.coded(column("1", "2.0", " off ", 1.0, 2))
    np.testing.assert_array_equal(T.argmax(axis=1), [0, 1, 2, 0, 1])
    np.testing.assert_array_equal(T.sum(axis=1), np.ones(5))
    assert target.decoded(T) == ["1", "2", "off", "1", "2"]
    assert target.fits(column("1", "3", "on").cells).tolist() == [True, False, False]


def test_a_cell_that_is_none_of_them_is_named() -> None:
    with pytest.raises(BadInput, match=r"rows.csv, line 3, column 3 \('mode'\): no client has row"):
        Target("mode", ("off", "on")).coded(column("on", "auto"))
    with pytest.raises(BadInput, match=r"line 4, .*: 'hot' is not a finite number"):
        Target("heat").coded(column("1", "2", "hot"))
    assert not Target("heat").fits(column("inf", "nan").cells).any()


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.sampled_from(".,"))
def test_numbers_come_back_in_their_own_units(values: list[float], decimal: str) -> None:
    written = column(*(repr(value).replace(".", decimal) for value in values))
    target = Target("heat")
    T = target.coded(written, decimal)
    fitted = target.fitted(T)
    scaled = fitted.scaled(T)
    assert abs(scaled.mean()) <= 1e-6 * (1 + abs(fitted.mean) / fitted.unit)
    np.testing.assert_allclose(fitted.decoded(scaled), values, rtol=1e-9, atol=1e-6)
    assert Target.from_fields(fitted.fields) == fitted


def test_constant_numbers_keep_their_unit() -> None:
    assert Target("heat").fitted(np.full((4, 1), 7.0)) == Target("heat", mean=7.0, unit=1.0)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"classes": ("on",)}, "every 'mode' is 'on': nothing to tell apart"),
        ({"classes": ("on", "off")}, "sorted"),
        ({"classes": tuple(f"{i:04}" for i in range(1001))}, "more than the 1000 classes"),
        ({"unit": 0.0}, "no scale"),
        ({"mean": np.nan}, "no scale"),
    ],
)
def test_what_can_not_be_predicted_is_refused(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        Target("mode", **settings)
