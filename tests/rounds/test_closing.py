"""Closing a round: what is combined, who is left out, and what is still needed."""

from typing import Any

import numpy as np
import pytest

from elmgrove.errors import SingularSystem
from elmgrove.rounds import AverageRule, BetweenRounds, Exam, Replies, close_round
from support.held_rounds import NAMES, agenda_of, plan_of, rows_of


def first(rule: str) -> tuple[Any, Any, dict[str, bytes]]:
    """An agenda, what is held before the first round, and all replies to it."""
    plan = plan_of(rule, rounds=2)
    made = plan.round_rule()
    held = BetweenRounds(made.request(), made.progress, {})
    replies = {name: plan.client(name).train(made.request(), 1) for name in NAMES}
    return agenda_of(plan, "fans"), held, replies


@pytest.mark.parametrize("rule", ["fedavg", "e2lm"])
def test_a_round_is_what_the_rule_makes_of_its_replies(rule: str) -> None:
    agenda, held, came = first(rule)
    closing = close_round(agenda, held, 1, NAMES, Replies(came, {}), exam=Exam(rows_of(9)))
    expected = held.rule(agenda)
    expected.take([expected.read(name, came[name]) for name in NAMES])
    assert (closing.request, closing.progress) == (expected.request(), expected.progress)
    assert closing.kept == (NAMES if rule == "e2lm" else ())
    assert closing.report.answered == NAMES
    assert closing.report.down == 4 * len(held.request)
    assert closing.report.up == sum(map(len, came.values()))
    assert closing.report.evaluation == expected.evaluate(Exam(rows_of(9)))


def test_who_has_no_usable_reply_is_left_out_with_the_reason() -> None:
    agenda, held, came = first("e2lm")
    came = {"a": came["a"], "b": came["a"], "c": b""}
    closing = close_round(agenda, held, 1, NAMES, Replies(came, {"d": "late"}))
    assert closing.report.answered == ("a",)
    assert closing.report.left_out == {
        "b": "BadInput: 'b' sent a message in the name of 'a'",
        "c": "nothing new",
        "d": "late",
    }
    assert closing.kept == ("a",)


def test_a_rule_that_can_not_combine_them_leaves_the_model_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agenda, held, came = first("fedavg")

    def combine(self: AverageRule, replies: object) -> None:
        raise SingularSystem("no inverse")

    monkeypatch.setattr(AverageRule, "combine", combine)
    closing = close_round(agenda, held, 1, NAMES, Replies(came, {}))
    assert closing.request == BetweenRounds(held.request, held.progress, {}).rule(agenda).request()
    assert closing.progress["rounds"] == 0
    assert set(closing.report.left_out.values()) == {"SingularSystem: no inverse"}


def test_an_older_reply_does_not_take_the_place_of_a_newer_one() -> None:
    plan = plan_of("e2lm", rounds=2)
    agenda, rule = agenda_of(plan, "fans"), plan.round_rule()
    newer = plan.client("a").train(rule.request(), 2)
    older = plan.client("a").train(rule.request(), 1)
    held = BetweenRounds(rule.request(), {"rounds": 1}, {"a": newer})
    closing = close_round(agenda, held, 2, ("a",), Replies({"a": older}, {}))
    assert closing.kept == (), "the newer one stays"
    left = BetweenRounds(closing.request, closing.progress, held.kept).rule(agenda).merged()
    assert left.evidence.count == len(plan.rows["a"])
    assert np.isfinite(left.evidence.U).all()
