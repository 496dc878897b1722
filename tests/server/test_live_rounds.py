"""Rounds on a server of our own: the same as in one process, whatever happens meanwhile."""

from typing import Any

import numpy as np
import pytest

from elmgrove.rounds import Delivery, RoundReport, RoundRule, run_here
from support.held_rounds import agenda_of, found_rounds, plan_of, taking_part
from support.serving import Server


def here(plan: Any, rule: RoundRule[Any], **more: Any) -> tuple[list[RoundReport], Delivery]:
    """The same plan in this process."""
    reports: list[RoundReport] = []
    clients = {name: plan.client(name) for name in plan.rows}
    how = {"rounds": plan.rounds, "fraction": plan.fraction, "seed": plan.seed} | more
    return reports, run_here(rule, clients, on_round=reports.append, **how)


@pytest.mark.parametrize("rule", ["fedavg", "e2lm", "groups"])
def test_a_server_ends_with_the_model_of_one_process(server: Server, rule: str) -> None:
    plan = plan_of(rule)
    fans = found_rounds(server, agenda_of(plan, f"same-{rule}"), plan.round_rule())
    with taking_part(fans.url, fans.token, plan) as fleet:
        outcomes = fleet.wait()
    local = plan.round_rule()
    reports, delivery = here(plan, local)
    for outcome in outcomes.values():
        assert outcome is not None
        for mine, theirs in zip(outcome.merged.parts, local.merged().parts, strict=True):
            np.testing.assert_allclose(mine.U, theirs.U, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(mine.V, theirs.V, rtol=1e-9, atol=1e-12)
    for name, loss in delivery.losses.items():
        assert outcomes[name].loss.mean == pytest.approx(loss.mean, rel=1e-9)
