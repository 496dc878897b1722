"""The rule of groups: the patterns of a group are summed, and matched back to their clients."""

import numpy as np
import pytest

from elmgrove import BadInput
from elmgrove.detector.patterns import PatternRule
from elmgrove.federation.groups import returned
from elmgrove.federation.merged import Merged
from elmgrove.rounds.clients import Loss
from elmgrove.rounds.rules import GroupRule
from support.groups import group_of
from support.patterns import mixed, rows_of
from support.rounds import BASIS, client_evidence, device, run


def test_the_patterns_of_a_group_are_summed_and_matched_back() -> None:
    patterns = PatternRule(patterns=2, start_rows=60)
    rows = {
        "both": mixed(1, 300),
        "first": rows_of(0, 2, 150),
        "second": rows_of(1, 3, 150),
        "empty": rows_of(0, 4, 0),
    }
    clients = {
        name: device(name, mine, patterns=patterns if name == "both" else None)
        for name, mine in rows.items()
    }
    rule = GroupRule("all", BASIS, count=2)
    reports, delivery = run(rule, clients)
    assert reports[0].left_out == {"empty": "nothing new"}
    assert not delivery.left_out
    grouping = rule.grouping
    assert grouping.count == 2
    assert group_of(grouping, "first") != group_of(grouping, "second")
    # "both" has as many patterns as there are groups, so it gets all; the others get their own.
    assert set(returned(grouping)["both"]) == {0, 1}
    given = {name: Merged.from_bytes(rule.gift(name)) for name in rows}
    assert len(given["both"].parts) == 2
    assert given["both"].evidence.close_to(
        client_evidence(rows["first"]) + client_evidence(rows["second"]), 1e-9
    )
    assert given["first"].devices == 1
    assert given["first"].evidence.count == pytest.approx(150, abs=1)
    assert given["empty"].devices == 0  # a client without patterns is of no group
    everything = np.vstack([rows["both"], rows["first"], rows["second"]])
    assert rule.merged().evidence.close_to(client_evidence(everything), 1e-9)


@pytest.mark.parametrize("distance", ["evidence", "parameters"])
def test_groups_are_told_apart_by_the_distance_that_is_asked_for(distance: str) -> None:
    rows = {f"c{index}": rows_of(index % 2, index, 150) for index in range(4)}
    rule = GroupRule("all", BASIS, count=9, distance=distance)
    run(rule, [device(name, mine) for name, mine in rows.items()])
    # There are no more groups than patterns.
    assert (rule.grouping.distance, rule.grouping.count) == (distance, 4)
    assert Merged.from_bytes(rule.gift("c0")).grouped == distance
    with pytest.raises(BadInput, match="distance must be one of"):
        GroupRule("all", BASIS, distance="height")


def test_if_no_client_answers_there_are_no_groups() -> None:
    rule = GroupRule("all", BASIS)
    reports, delivery = run(rule, [device("empty", rows_of(0, 4, 0))])
    assert reports[0].left_out == {"empty": "nothing new"}
    assert delivery.losses == {"empty": Loss(0.0, 0)}
    with pytest.raises(BadInput, match="no client answered"):
        rule.merged()
