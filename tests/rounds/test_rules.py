"""Rules of rounds: sums, groups and averages are those of the equations, and refuse the rest."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput, Evidence
from elmgrove.algebra import RoundUpdate, fedavg, first_model, trained
from elmgrove.detector import PatternRule
from elmgrove.federation import Contribution, Merged, returned
from elmgrove.rounds import (
    AverageClient,
    AverageRule,
    CompactModel,
    GroupRule,
    Loss,
    Reply,
    SumRule,
)
from support.groups import group_of
from support.patterns import INPUTS, mixed, rows_of
from support.rounds import BASIS, OTHER, Saying, contribution_of, device, evidence_of, run


@settings(max_examples=25, deadline=None)
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
    reports, delivery = run(rule, clients, rounds)
    assert rule.merged().evidence.close_to(evidence_of(rows), 1e-9)
    assert rule.merged().evidence.count == 90
    empty = {f"c{index}" for index, part in enumerate(parts) if not len(part)}
    assert empty <= reports[-1].left_out.keys()
    assert all(reports[-1].left_out[name] == "nothing new" for name in empty)
    # Each got the others, so with its own rows each has the model of all.
    H = BASIS.layer(rows)
    beta = np.linalg.solve(H.T @ H + 1e-3 * np.eye(3), H.T @ rows)
    loss = float(np.mean((H @ beta - rows) ** 2))
    assert delivery.loss == pytest.approx(loss, rel=1e-6)


def test_a_client_that_is_not_drawn_again_keeps_its_part() -> None:
    parts = {f"c{index}": rows_of(0, index, 40) for index in range(6)}
    clients = {name: device(name, rows, 3) for name, rows in parts.items()}
    rule = SumRule("all", BASIS)
    reports, _ = run(rule, clients, 3, fraction=0.5)
    last = {name: report.number for report in reports for name in report.answered}
    assert 1 in last.values()
    heard = [rows[: 40 * last[name] // 3] for name, rows in parts.items() if name in last]
    assert rule.merged().evidence.close_to(evidence_of(np.vstack(heard)), 1e-9)


IMPOSSIBLE = Evidence(BASIS, np.diag([-1.0] * 3), np.zeros((3, INPUTS)), 1, 1)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (contribution_of("liar", evidence_of(rows_of(0, 1, 9), OTHER)), "seed: 7 here, 8 there"),
        (
            contribution_of("good", evidence_of(rows_of(0, 1, 9))),
            "sent a message in the name of 'good'",
        ),
        (contribution_of("liar", evidence_of(rows_of(0, 1, 9)))[:-9], "BadFile"),
        (contribution_of("liar", IMPOSSIBLE), "NotAdmissible"),
        (b"something else", "BadFile"),
    ],
)
def test_what_can_not_be_used_is_refused_and_the_round_goes_on(says: bytes, reason: str) -> None:
    rows = rows_of(0, 1, 40)
    rule = SumRule("all", BASIS)
    reports, _ = run(rule, [device("good", rows), Saying("liar", says)])
    assert reason in reports[0].left_out["liar"]
    assert rule.merged().evidence.close_to(evidence_of(rows), 1e-9)


def test_what_was_huge_and_was_replaced_leaves_no_trace_in_what_others_get() -> None:
    rows = {name: rows_of(0, index, 40) for index, name in enumerate("abc")}
    huge = [Contribution(name, 9, (evidence_of(1e60 * mine),)) for name, mine in rows.items()]
    plain = [Contribution(name, 10, (evidence_of(mine),)) for name, mine in rows.items()]
    clients = [
        Saying(one.origin, one.to_bytes(), other.to_bytes())
        for one, other in zip(huge, plain, strict=True)
    ]
    rule = SumRule("all", BASIS)
    run(rule, clients, 2)
    given = Merged.from_bytes(rule.gift("a")).evidence
    assert given.close_to(evidence_of(np.vstack([rows["b"], rows["c"]])), 1e-12)


def test_what_could_not_be_added_up_is_refused() -> None:
    rule = SumRule("all", BASIS)
    huge = contribution_of("liar", evidence_of(1e101 * rows_of(0, 1, 9)))
    reports, _ = run(rule, [Saying("liar", huge)])
    assert "can't be added up" in reports[0].left_out["liar"]


# Groups


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
        evidence_of(rows["first"]) + evidence_of(rows["second"]), 1e-9
    )
    assert given["first"].devices == 1
    assert given["first"].evidence.count == pytest.approx(150, abs=1)
    assert given["empty"].devices == 0  # a client without patterns is of no group
    everything = np.vstack([rows["both"], rows["first"], rows["second"]])
    assert rule.merged().evidence.close_to(evidence_of(everything), 1e-9)


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


# Averages


def test_averaging_in_rounds_is_that_of_the_equations() -> None:
    parts = {f"c{index}": rows_of(0, index, 10 + 7 * index) for index in range(3)}
    X0 = rows_of(0, 9, 12)
    rule = AverageRule("all", BASIS, X0, X0)
    clients = [
        AverageClient(name, lambda number, rows=rows: (rows[: len(rows) * number // 2],) * 2)
        for name, rows in parts.items()
    ]
    run(rule, clients, 2)
    H0 = BASIS.layer(X0)
    P = np.linalg.inv(H0.T @ H0)
    beta = P @ H0.T @ X0
    for number in (1, 2):
        betas, Ps, N = [], [], []
        for rows in parts.values():
            T = rows[len(rows) * (number - 1) // 2 : len(rows) * number // 2]
            H = BASIS.layer(T)
            K = np.linalg.inv(np.eye(len(H)) + H @ P @ H.T)
            Pk = P - P @ H.T @ K @ H @ P
            Ps.append(Pk)
            betas.append(beta + Pk @ H.T @ (T - H @ beta))
            N.append(len(H))
        beta = sum(n / sum(N) * b for n, b in zip(N, betas, strict=True))
        P = sum(n / sum(N) * p for n, p in zip(N, Ps, strict=True))
    np.testing.assert_allclose(rule.model.beta, beta, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(rule.model.P, P, rtol=1e-7, atol=1e-12)
    # The evidence that is saved has this model, and could be that of rows.
    merged = rule.merged()
    np.testing.assert_allclose(merged.evidence.solve(0.0), beta, rtol=1e-6, atol=1e-9)
    merged.evidence.require_admissible("the average")
    assert (merged.devices, merged.revision) == (3, 2)


def _averaged(
    bits: int, rounds: int, rows: Mapping[str, np.ndarray]
) -> tuple[AverageRule, int, int]:
    """A rule after its rounds, and the bytes of the last one: down and up."""
    X0 = rows_of(0, 9, 30)
    rule = AverageRule("all", BASIS, X0, X0, bits=bits)
    clients = [
        AverageClient(name, lambda number, mine=mine: (mine[: len(mine) * number // rounds],) * 2)
        for name, mine in rows.items()
    ]
    reports, delivery = run(rule, clients, rounds)
    assert not reports[-1].left_out
    assert not delivery.left_out
    return rule, reports[-1].down, reports[-1].up


def test_in_8_bits_models_travel_compact_both_ways() -> None:
    parts = {f"c{index}": rows_of(0, index, 100 + 70 * index) for index in range(3)}
    found, down, up = _averaged(8, 2, parts)
    X0 = rows_of(0, 9, 30)
    sent = CompactModel.of(BASIS, first_model(BASIS.layer, X0, X0))
    for number in (1, 2):
        updates = []
        for rows in parts.values():
            new = rows[len(rows) * (number - 1) // 2 : len(rows) * number // 2]
            update = trained(sent.state, BASIS.layer, new, new)
            updates.append(CompactModel.of(BASIS, update))
        before, sent = sent, CompactModel.of(BASIS, fedavg(one.update for one in updates))
    assert found.request() == sent.to_bytes()
    np.testing.assert_array_equal(found.model.beta, sent.state.beta)
    assert down == 3 * len(before.to_bytes())
    assert up == sum(len(one.to_bytes()) for one in updates)
    # What is saved is what was sent, and near what float64 comes to.
    np.testing.assert_allclose(found.merged().evidence.solve(0.0), sent.state.beta, atol=1e-6)
    plain, _, _ = _averaged(64, 2, parts)
    assert np.abs(found.model.beta - plain.model.beta).max() < 0.05 * np.abs(plain.model.beta).max()


def test_an_answer_in_another_width_is_refused() -> None:
    X0 = rows_of(0, 9, 30)
    compact = CompactModel.of(BASIS, RoundUpdate(*first_model(BASIS.layer, X0, X0), 5)).to_bytes()
    plain = Reply("liar", BASIS, RoundUpdate(*first_model(BASIS.layer, X0, X0), 5)).to_bytes()
    for bits, says in ((64, compact), (8, plain)):
        rule = AverageRule("all", BASIS, X0, X0, bits=bits)
        reports, _ = run(rule, [Saying("liar", says)])
        assert reports[0].left_out["liar"].startswith("BadFile: this holds")
    with pytest.raises(BadInput, match="bits must be 8 or 64, not 16"):
        AverageRule("all", BASIS, X0, X0, bits=16)


def test_averaging_leaves_out_a_client_without_rows_or_with_another_layer() -> None:
    X0 = rows_of(0, 9, 12)
    rule = AverageRule("all", BASIS, X0, X0)
    before = rule.model
    update = RoundUpdate(before.beta, before.P, 5)
    odd = Saying("odd", Reply("odd", OTHER, update).to_bytes())
    false = Saying("false", Reply("false", BASIS, update._replace(P=-before.P)).to_bytes())
    empty = AverageClient("empty", lambda _: (X0[:0], X0[:0]))
    reports, _ = run(rule, [odd, false, empty])
    assert reports[0].left_out["false"].startswith("NotAdmissible: P of 'false'")
    assert "seed: 7 here, 8 there" in reports[0].left_out["odd"]
    assert reports[0].left_out["empty"] == "nothing new"
    assert rule.model is before
