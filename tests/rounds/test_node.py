"""Nodes with P and β alone: among clients that send sums they count as if they sent theirs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput, Basis, Evidence, HiddenLayer
from elmgrove.algebra.fed_elms import RoundUpdate
from elmgrove.rounds.clients import AverageClient, NodeClient, SumClient
from elmgrove.rounds.messages import Reply
from elmgrove.rounds.rules import AverageRule, SumRule
from support.laws import law_examples
from support.rounds import Saying, run

BASIS = Basis(HiddenLayer(3, 5, "sigmoid", seed=7), 2)
OTHER = Basis(HiddenLayer(3, 5, "sigmoid", seed=8), 2)


def pairs_of(seed: int, count: int, rounds: int = 1):
    rng = np.random.default_rng(seed)
    X, T = rng.normal(size=(count, 3)), rng.normal(size=(count, 2))
    return lambda number: (X[: count * number // rounds], T[: count * number // rounds])


@settings(max_examples=law_examples(25), deadline=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    rounds=st.integers(1, 3),
    ridge=st.floats(1e-3, 1.0),
    data=st.data(),
)
def test_nodes_and_clients_with_sums_together_are_the_model_of_all_rows(
    counts: list[int], rounds: int, ridge: float, data: st.DataObject
) -> None:
    rule = SumRule("all", BASIS, ridge)
    kinds = [data.draw(st.sampled_from([NodeClient, SumClient])) for _ in counts]
    pairs = [pairs_of(seed, count, rounds) for seed, count in enumerate(counts)]
    clients = [
        kind(f"c{at}", mine) for at, (kind, mine) in enumerate(zip(kinds, pairs, strict=True))
    ]
    reports, delivery = run(rule, clients, rounds)
    assert set(reports[-1].left_out.values()) <= {"nothing new"}
    assert not delivery.left_out
    if not any(counts):
        return
    X, T = (np.vstack(parts) for parts in zip(*(mine(rounds) for mine in pairs), strict=True))
    H = BASIS.layer(X)
    beta = np.linalg.solve(H.T @ H + ridge * np.eye(5), H.T @ T)
    merged = rule.merged()
    np.testing.assert_allclose(merged.evidence.solve(ridge), beta, rtol=1e-6, atol=1e-7)
    assert merged.evidence.count == len(X)
    # And each gets the model of all rows at the end.
    assert delivery.loss == pytest.approx(float(np.mean((H @ beta - T) ** 2)), rel=1e-5)


def test_a_node_goes_on_from_its_memory() -> None:
    rule = SumRule("all", BASIS)
    pairs = pairs_of(1, 30, 2)
    first = NodeClient("node", pairs)
    first.train(rule.request(), 1)
    again = NodeClient("node", pairs, memory=first.memory)
    opened = rule.read("node", again.train(rule.request(), 2))
    assert opened is not None
    X, T = pairs(2)
    H = BASIS.layer(X)
    np.testing.assert_allclose(opened.evidence.U, H.T @ H, rtol=0, atol=1e-9 * (H.T @ H).max())
    np.testing.assert_allclose(opened.evidence.V, H.T @ T, rtol=0, atol=1e-9)
    other = SumRule("all", OTHER)
    reports, _ = run(other, [NodeClient("node", pairs_of(1, 60), memory=again.memory)])
    assert "seed: 8 here, 7 there" in reports[0].left_out["node"]


def test_a_node_needs_a_ridge_to_begin_with() -> None:
    reports, _ = run(SumRule("all", BASIS, 0.0), [NodeClient("node", pairs_of(1, 30))])
    assert "the task needs a ridge above 0" in reports[0].left_out["node"]


def test_p_and_beta_that_go_on_from_a_servers_model_are_not_added_up() -> None:
    X0, T0 = pairs_of(9, 20)(1)
    averaging = AverageRule("all", BASIS, X0, T0)
    reply = AverageClient("node", pairs_of(1, 30)).train(averaging.request(), 1)
    with pytest.raises(BadInput, match="went on from a server's model"):
        SumRule("all", BASIS).read("node", reply)
    # Where P and β are averaged, a node's can't be told from others, and are taken.
    own = NodeClient("node", pairs_of(1, 30)).train(SumRule("all", BASIS).request(), 1)
    assert averaging.read("node", own) is not None


@pytest.mark.parametrize(
    ("P", "ridge", "reason"),
    [
        (np.diag([-1.0] * 5), 0.1, "SingularSystem: P has no inverse"),
        (np.eye(5), 2.0, "NotAdmissible: P⁻¹ less a ridge of 2"),
        (1e-9 * np.eye(5), 0.1, "NotAdmissible: P and β can't be those of 4 rows"),
        (np.diag([1e-12, 1.0, 1.0, 1.0, 1.0]), 0.1, "SingularSystem: P is too ill-conditioned"),
    ],
)
def test_a_model_that_no_rows_have_is_refused_and_the_round_goes_on(
    P: np.ndarray, ridge: float, reason: str
) -> None:
    says = Reply("liar", BASIS, RoundUpdate(np.zeros((5, 2)), P, 4), ridge).to_bytes()
    rule = SumRule("all", BASIS)
    reports, _ = run(rule, [Saying("liar", says), SumClient("good", pairs_of(1, 30))])
    assert reason in reports[0].left_out["liar"]
    X, T = pairs_of(1, 30)(1)
    H = BASIS.layer(X)
    right = Evidence(BASIS, H.T @ H, H.T @ T, float((T * T).sum()), 30)
    assert rule.merged().evidence.close_to(right, 1e-9)
