"""The rule of groups: clients that one model explains are summed."""

import numpy as np
import pytest

from elmgrove import BadInput
from elmgrove.rounds.rules import GroupRule
from support.patterns import group_of, rows_of
from support.rounds import BASIS, client_evidence, device, run


def test_clients_of_a_group_are_summed() -> None:
    rows = {f"c{index}": rows_of(index % 2, index, 150 + index) for index in range(4)}
    clients = [
        *(device(name, mine) for name, mine in rows.items()),
        device("empty", rows["c0"][:0]),
    ]
    rule = GroupRule("all", BASIS)
    reports = run(rule, clients)
    assert reports[0].left_out == {"empty": "nothing new"}
    assert rule.grouping.count == 2
    assert group_of(rule.grouping, "c0") == group_of(rule.grouping, "c2")
    for part, (first, second) in zip(
        rule.merged().parts, (("c0", "c2"), ("c1", "c3")), strict=True
    ):
        assert part.close_to(client_evidence(np.vstack([rows[first], rows[second]])), 1e-9)
    assert rule.merged().evidence.close_to(client_evidence(np.vstack([*rows.values()])), 1e-9)


def test_if_no_client_answers_there_are_no_groups() -> None:
    rule = GroupRule("all", BASIS)
    reports = run(rule, [device("empty", rows_of(0, 4, 0))])
    assert reports[0].left_out == {"empty": "nothing new"}
    with pytest.raises(BadInput, match="no client answered"):
        rule.merged()
