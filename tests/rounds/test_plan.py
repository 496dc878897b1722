"""Plans: the same from a folder, and refused before anything is trained."""

from pathlib import Path

import pytest

from elmgrove import BadInput, ElmgroveError
from elmgrove.rounds.local import run_plan
from elmgrove.rounds.plan import Plan, RuleName
from elmgrove.rounds.predictor import Target
from elmgrove.rounds.report import RoundReport
from support.patterns import rows_of
from support.rounds import BASIS, plan_with_targets, run


@pytest.mark.parametrize("name_of_rule", [one for one in RuleName if one != RuleName.balanced])
def test_a_plan_from_a_folder_is_the_same_plan(tmp_path: Path, name_of_rule: str) -> None:
    rows = {f"c{index}": rows_of(0, index, 20 * index) for index in range(4)}
    plan = Plan(name_of_rule, BASIS, rows, rounds=2, fraction=0.6, seed=3, batch=rows_of(0, 9, 12))
    plan.save(tmp_path)
    results = []
    for one in (plan, Plan.load(tmp_path)):
        rule = one.round_rule()
        clients = {name: one.client(name) for name in one.rows}
        _, delivery = run(rule, clients, 2, fraction=0.6, seed=3)
        member = one.member(rule.merged())
        results.append((rule.merged().to_bytes(), delivery.losses, member.to_bytes()))
    assert results[0] == results[1]


@pytest.mark.parametrize("name_of_rule", list(RuleName))
def test_a_plan_with_targets_and_an_exam_comes_back_from_a_folder(
    tmp_path: Path, name_of_rule: str
) -> None:
    plan = plan_with_targets(name_of_rule)
    plan.save(tmp_path)
    results = []
    for one in (plan, Plan.load(tmp_path)):
        reports = list[RoundReport]()
        merged, delivery = run_plan(one, reports.append)
        made = one.predictor(merged, Target("kind", one.classes), {})
        tests = [report.evaluation for report in reports]
        results.append((merged.to_bytes(), delivery.losses, made.to_bytes(), tests))
    assert results[0] == results[1]
    assert len(tests) == plan.rounds
    # Two classes that lie apart: each rule tells them better than chance.
    assert tests[-1].value > 0.7
    exam = plan.exam
    assert exam is not None
    # What is saved does in the exam what the last round said.
    assert exam.evaluate(made.basis, made.models) == tests[-1]


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(ElmgroveError, match="e2lm, fedavg, groups, balanced"):
        Plan("sum", BASIS, {})


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ({"rule": "e2lm", "groups": 2}, "are for rule groups, not for e2lm"),
        ({"rule": "fedavg", "distance": "parameters"}, "are for rule groups, not for fedavg"),
        ({"rule": "groups", "distance": "height"}, "distance must be one of"),
        ({"rule": "groups", "groups": 8}, "8 groups, where clients have 7 patterns at most"),
        ({"rule": "e2lm", "bits": 8}, "8 bits are for rule fedavg, not for e2lm"),
        ({"rule": "fedavg", "bits": 9}, "bits must be 8 or 64"),
        ({"rule": "balanced"}, "needs targets that are classes"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_trained(
    chosen: dict[str, object], reason: str
) -> None:
    rows = {"few": rows_of(0, 1, 2), "many": rows_of(0, 2, 90), "none": rows_of(0, 3, 0)}
    with pytest.raises(BadInput, match=reason):
        Plan(basis=BASIS, rows=rows, **chosen).round_rule()
