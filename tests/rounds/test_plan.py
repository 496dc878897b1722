"""Plans: the same with rows in files, and refused before anything is trained."""

from pathlib import Path

import pytest

from elmgrove import BadInput, ElmgroveError
from elmgrove.rounds.loop import RoundReport
from elmgrove.rounds.plan import Plan, RuleName, run_plan
from support.patterns import rows_of
from support.rounds import BASIS, plan_with_targets, run


@pytest.mark.parametrize("name_of_rule", list(RuleName))
def test_clients_whose_rows_are_in_files_learn_the_same(tmp_path: Path, name_of_rule: str) -> None:
    rows = {f"c{index}": rows_of(0, index, 20 * index) for index in range(4)}
    plan = Plan(name_of_rule, BASIS, rows, rounds=2, fraction=0.6, seed=3, batch=rows_of(0, 9, 12))
    results = []
    for one in (plan, plan.with_rows_in(tmp_path)):
        rule = plan.round_rule()
        clients = {name: one.client(name) for name in one.rows}
        run(rule, clients, 2, fraction=0.6, seed=3)
        member = plan.member(rule.merged())
        results.append((rule.merged().to_bytes(), member.to_bytes()))
    assert results[0] == results[1]


@pytest.mark.parametrize("name_of_rule", list(RuleName))
def test_a_plan_with_targets_is_tested_after_every_round(name_of_rule: str) -> None:
    plan, reports = plan_with_targets(name_of_rule), list[RoundReport]()
    merged = run_plan(plan, reports.append)
    tests = [report.evaluation for report in reports]
    assert len(tests) == plan.rounds
    # Two classes that lie apart: each rule tells them better than chance.
    assert tests[-1] is not None
    assert tests[-1].value > 0.7
    assert merged.devices > 0


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(ElmgroveError, match="e2lm, fedavg, groups"):
        Plan("sum", BASIS, {})


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ({"rule": "e2lm", "bits": 8}, "8 bits are for rule fedavg, not for e2lm"),
        ({"rule": "fedavg", "bits": 9}, "bits must be 8 or 64"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_trained(
    chosen: dict[str, object], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        Plan(basis=BASIS, rows={"few": rows_of(0, 1, 2)}, **chosen).round_rule()
