"""Terms say what a key shows and what one device can weigh, and refuse what makes no sense."""

import json
from typing import Any

import pytest

from elmgrove import BadInput
from elmgrove.federation.terms import Terms


@pytest.mark.parametrize(
    "terms",
    [Terms(), Terms(3, None, 30.0)],
    ids=repr,
)
def test_terms_are_the_same_after_their_journey(terms: Terms) -> None:
    assert Terms.from_fields(json.loads(json.dumps(terms.fields))) == terms


@pytest.mark.parametrize(
    "wrong",
    [
        *({"least": least} for least in (0, -1, 1.5, True, "2", None, 2**40)),
        *({"most_rows": rows} for rows in (0, -1, float("nan"), float("inf"), True, "5")),
        {"shows": "contributions"},
        {"key_days": 0},
        {"key_days": 1e9},
        {"key_days": "30"},
        {"unheard": 1},
        [],
        None,
    ],
    ids=repr,
)
def test_terms_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(BadInput):
        Terms.from_fields(wrong)
