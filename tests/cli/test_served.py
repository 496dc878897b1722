"""The engine ``server``: the plan of one process on a server of our own, with the same end."""

import numpy as np
import pytest

from elmgrove.cli.served import serve_plan
from elmgrove.rounds import RoundReport, run_plan
from support.held_rounds import plan_of


@pytest.mark.parametrize("rule", ["fedavg", "e2lm"])
def test_a_server_and_this_process_end_with_the_same_model(rule: str) -> None:
    plan = plan_of(rule)
    served, here = list[RoundReport](), list[RoundReport]()
    merged, delivery = serve_plan(plan, served.append)
    local, expected = run_plan(plan, here.append)
    np.testing.assert_allclose(merged.evidence.U, local.evidence.U, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(merged.evidence.V, local.evidence.V, rtol=1e-9, atol=1e-12)
    assert [(one.asked, one.answered, one.down, one.up) for one in served] == [
        (one.asked, one.answered, one.down, one.up) for one in here
    ]
    assert delivery.down == expected.down
    assert delivery.loss == pytest.approx(expected.loss, rel=1e-9)
