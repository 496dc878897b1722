"""The rule of sums: any split is the model of all rows, and what can't be used is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Evidence
from elmgrove.federation.contribution import Contribution
from elmgrove.rounds.rules import SumRule
from support.laws import law_examples
from support.patterns import INPUTS, rows_of
from support.rounds import BASIS, OTHER, Saying, client_evidence, client_message, device, run


@settings(max_examples=law_examples(25), deadline=None)
@given(
    cuts=st.lists(st.integers(0, 90), min_size=0, max_size=5),
    rounds=st.integers(1, 4),
    seed=st.integers(0, 5),
)
def test_any_split_into_clients_and_rounds_is_the_model_of_all_rows(
    cuts: list[int], rounds: int, seed: int
) -> None:
    rows = rows_of(0, seed, 90)
    parts = np.split(rows, sorted(cuts))
    clients = [device(f"c{index}", part, rounds) for index, part in enumerate(parts)]
    rule = SumRule("all", BASIS)
    reports = run(rule, clients, rounds)
    assert rule.merged().evidence.close_to(client_evidence(rows), 1e-9)
    assert rule.merged().evidence.count == 90
    empty = {f"c{index}" for index, part in enumerate(parts) if not len(part)}
    assert empty <= reports[-1].left_out.keys()
    assert all(reports[-1].left_out[name] == "nothing new" for name in empty)


def test_a_client_that_is_not_drawn_again_keeps_its_part() -> None:
    parts = {f"c{index}": rows_of(0, index, 40) for index in range(6)}
    clients = {name: device(name, rows, 3) for name, rows in parts.items()}
    rule = SumRule("all", BASIS)
    reports = run(rule, clients, 3, fraction=0.5)
    last = {name: report.number for report in reports for name in report.answered}
    assert 1 in last.values()
    heard = [rows[: 40 * last[name] // 3] for name, rows in parts.items() if name in last]
    assert rule.merged().evidence.close_to(client_evidence(np.vstack(heard)), 1e-9)


IMPOSSIBLE = Evidence(BASIS, np.diag([-1.0] * 3), np.zeros((3, INPUTS)), 1, 1)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (
            client_message("liar", client_evidence(rows_of(0, 1, 9), OTHER)),
            "seed: 7 here, 8 there",
        ),
        (
            client_message("good", client_evidence(rows_of(0, 1, 9))),
            "sent a message in the name of 'good'",
        ),
        (client_message("liar", client_evidence(rows_of(0, 1, 9)))[:-9], "BadFile"),
        (client_message("liar", IMPOSSIBLE), "NotAdmissible"),
        (b"something else", "BadFile"),
    ],
)
def test_what_can_not_be_used_is_refused_and_the_round_goes_on(says: bytes, reason: str) -> None:
    rows = rows_of(0, 1, 40)
    rule = SumRule("all", BASIS)
    reports = run(rule, [device("good", rows), Saying("liar", says)])
    assert reason in reports[0].left_out["liar"]
    assert rule.merged().evidence.close_to(client_evidence(rows), 1e-9)


def test_what_was_huge_and_was_replaced_leaves_no_trace_in_the_sum() -> None:
    rows = {name: rows_of(0, index, 40) for index, name in enumerate("abc")}
    huge = [Contribution(name, 9, (client_evidence(1e60 * mine),)) for name, mine in rows.items()]
    plain = [Contribution(name, 10, (client_evidence(mine),)) for name, mine in rows.items()]
    clients = [
        Saying(one.origin, one.to_bytes(), other.to_bytes())
        for one, other in zip(huge, plain, strict=True)
    ]
    rule = SumRule("all", BASIS)
    run(rule, clients, 2)
    given = rule.merged().evidence
    assert given.close_to(client_evidence(np.vstack([*rows.values()])), 1e-12)


def test_what_could_not_be_added_up_is_refused() -> None:
    rule = SumRule("all", BASIS)
    huge = client_message("liar", client_evidence(1e101 * rows_of(0, 1, 9)))
    reports = run(rule, [Saying("liar", huge)])
    assert "can't be added up" in reports[0].left_out["liar"]
