"""Nodes with P and β alone: among clients that send sums they count as if they sent theirs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput, Basis, Evidence, HiddenLayer
from elmgrove.algebra.fed_elms import RoundModel, RoundUpdate, trained
from elmgrove.rounds.clients import AverageClient, Client, SumClient
from elmgrove.rounds.messages import Reply
from elmgrove.rounds.rules import AverageRule, SumRule
from support.laws import law_examples
from support.rounds import Saying, run

BASIS = Basis(HiddenLayer(3, 5, "sigmoid", seed=7), 2)


def pairs_of(seed: int, count: int, rounds: int = 1):
    rng = np.random.default_rng(seed)
    X, T = rng.normal(size=(count, 3)), rng.normal(size=(count, 2))
    return lambda number: (X[: count * number // rounds], T[: count * number // rounds])


def node(name: str, X: np.ndarray, T: np.ndarray, ridge: float) -> Saying:
    """A client that can do (12) and (13) and no more, and begins with P = I/λ."""
    start = RoundModel(np.zeros((5, 2)), np.eye(5) / ridge)
    update = trained(start, BASIS.layer, X, T)
    return Saying(name, Reply(name, BASIS, update, ridge).to_bytes())


@settings(max_examples=law_examples(25), deadline=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    ridge=st.floats(1e-3, 1.0),
    data=st.data(),
)
def test_nodes_and_clients_with_sums_together_are_the_model_of_all_rows(
    counts: list[int], ridge: float, data: st.DataObject
) -> None:
    rule = SumRule("all", BASIS, ridge)
    clients = list[Client]()
    for seed, count in enumerate(counts):
        pairs = pairs_of(seed, count)
        sends_sums = data.draw(st.booleans())
        name = f"c{seed}"
        clients.append(SumClient(name, pairs) if sends_sums else node(name, *pairs(1), ridge))
    reports = run(rule, clients)
    assert set(reports[-1].left_out.values()) <= {"nothing new"}
    if not any(counts):
        return
    X, T = (
        np.vstack(parts)
        for parts in zip(*(pairs_of(s, n)(1) for s, n in enumerate(counts)), strict=True)
    )
    H = BASIS.layer(X)
    beta = np.linalg.solve(H.T @ H + ridge * np.eye(5), H.T @ T)
    merged = rule.merged()
    np.testing.assert_allclose(merged.evidence.solve(ridge), beta, rtol=1e-6, atol=1e-7)
    assert merged.evidence.count == len(X)


def test_p_and_beta_that_go_on_from_a_servers_model_are_not_added_up() -> None:
    X0, T0 = pairs_of(9, 20)(1)
    averaging = AverageRule("all", BASIS, X0, T0)
    reply = AverageClient("node", pairs_of(1, 30)).train(averaging.request(), 1)
    with pytest.raises(BadInput, match="went on from a server's model"):
        SumRule("all", BASIS).read("node", reply)
    # Where P and β are averaged, a node's can't be told from others, and are taken.
    own = node("node", *pairs_of(1, 30)(1), 1e-3).train(b"", 1)
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
    reports = run(rule, [Saying("liar", says), SumClient("good", pairs_of(1, 30))])
    assert reason in reports[0].left_out["liar"]
    X, T = pairs_of(1, 30)(1)
    H = BASIS.layer(X)
    right = Evidence(BASIS, H.T @ H, H.T @ T, float((T * T).sum()), 30)
    assert rule.merged().evidence.close_to(right, 1e-9)
