"""Terms say what a key shows and what one device can weigh, and refuse what makes no sense."""

import json
from dataclasses import replace
from typing import Any

import pytest

from elmgrove import BadInput
from elmgrove.federation.terms import CONTRIBUTIONS, SUMS, Terms


@pytest.mark.parametrize(
    "terms",
    [Terms(), Terms(CONTRIBUTIONS, 3, 1e6, None, None), replace(Terms(), most_times=2)],
    ids=repr,
)
def test_terms_are_the_same_after_their_journey(terms: Terms) -> None:
    assert Terms.from_fields(json.loads(json.dumps(terms.fields))) == terms


def test_without_a_word_a_key_reads_sums_alone_and_weights_are_bounded() -> None:
    terms = Terms.from_fields({})
    assert terms.shows == SUMS
    assert terms.most_times is not None
    assert terms.most_energy is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"shows": "everything"},
        {"shows": None},
        *({"least": least} for least in (0, -1, 1.5, True, "2", None, 2**40)),
        *({"most_rows": rows} for rows in (0, -1, float("nan"), float("inf"), True, "5")),
        {"most_times": 0.0},
        {"most_energy": []},
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
