"""What a user says about a file, and what is remembered of it."""

from typing import Any

import pytest

from elmgrove import BadInput
from elmgrove.reading.layout import Layout


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"missing": "guess"}, "missing must be refuse or hold, not 'guess'"),
        ({"decimal": "'"}, "decimal must be a point or a comma"),
        ({"delimiter": ",,"}, "delimiter must be one character"),
        ({"encoding": "klingon"}, "encoding 'klingon' is unknown; utf-8, utf-16"),
        ({"hold_rows": -1}, "hold_rows must be a whole number of at least 0"),
    ],
)
def test_what_makes_no_sense_is_refused(said: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        Layout(**said)


def test_a_tabulator_can_be_named() -> None:
    assert Layout(delimiter="tab").delimiter == Layout(delimiter="\\t").delimiter == "\t"


def test_what_is_unusual_is_remembered_but_for_the_columns_that_a_state_has() -> None:
    made = Layout(time="t=%H:%M", decimal=",", columns=("a",), drop=("b",), categories=("mode",))
    assert made.fields == {"time": "t=%H:%M", "decimal": ","}
    assert Layout().fields == {}


def test_what_is_said_counts_before_what_is_remembered() -> None:
    later = Layout(time="when").after({"time": "t", "label": "bad", "drop": ["x"], "gone": 1})
    assert (later.time, later.label, later.drop) == ("when", "bad", ())
    assert later.remembered == {"label"}
