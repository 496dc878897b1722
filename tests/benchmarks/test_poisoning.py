"""What one device that lies can hide from another: with bounds and without, by rule and policy."""

from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from benchmarks.quality.influence import (
    BOUNDED,
    COPIED,
    COUNTED,
    FAR,
    HONEST,
    ONLY,
    POISONED,
    RULES,
    SCORES,
    Fleet,
    asked,
    at_once,
    by_name,
    fleet,
    merged_by,
)

from elmgrove.federation.member import Member
from elmgrove.federation.policy import UNBOUNDED
from elmgrove.federation.selection import Everyone
from elmgrove.federation.sums import weight_in


@cache
def pumps(score: str) -> Fleet:
    one = fleet(11, *SCORES[score])
    return replace(one, normal=one.normal[:500], faulty=one.faulty[:100])


def bounded(one: Fleet, attack: str) -> set[str]:
    """The devices that count with less than they state."""
    others = one.others(attack)
    return {other.origin for other in others if weight_in(BOUNDED, other.evidence) < 1.0}


@pytest.mark.parametrize("attack", [COUNTED, COPIED, FAR])
def test_bounds_give_back_what_a_liar_hid_from_one_model_of_everybody(attack: str) -> None:
    before, after = (merged_by(Everyone(), terms) for terms in (UNBOUNDED, BOUNDED))
    one = pumps("distance")
    assert before(one, HONEST) == after(one, HONEST) > 0.95
    # Rows that no scaling explains weigh little in any federation.
    assert before(one, attack) < 0.35 or attack == FAR
    assert after(one, attack) > 0.75
    assert bounded(one, attack) == {"liar"}


def test_no_bound_stops_faults_in_rows_of_ones_own() -> None:
    one = pumps("distance")
    for attack in (POISONED, ONLY):
        assert not bounded(one, attack)
    assert merged_by(Everyone(), BOUNDED)(one, ONLY) < 0.4


@pytest.mark.parametrize(("score", "rule"), [*product(["loss"], RULES), ("distance", "quality")])
def test_a_rule_leaves_out_who_copies_everybodys_sums(score: str, rule: str) -> None:
    one, found = pumps(score), merged_by(RULES[rule], BOUNDED)
    assert found(one, COPIED) > found(one, HONEST) - 0.05


@pytest.mark.parametrize("attack", [COUNTED, COPIED])
def test_by_loss_quality_looks_at_rows_where_a_liars_model_is_a_usual_one(attack: str) -> None:
    one = fleet(7, *SCORES["loss"])
    own, others = Member("own", one.learned()).contribution(), one.others(attack)
    choice = RULES["quality"].choose("own", [own, *others], one.charter.ridge)
    assert "liar" in choice.left_out
    assert len(choice.names) > len(others) // 2


def test_one_device_that_knows_everything_hides_no_fault() -> None:
    one = pumps("distance")
    for told in (by_name, at_once(BOUNDED), at_once(replace(BOUNDED, least=2))):
        assert asked(told)(one, COPIED) > 0.95
        assert asked(told)(one, HONEST) > 0.9
