"""Nodes with P and β alone: among clients that send sums they count as if they sent theirs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.algebra.fed_elms import RoundModel, trained
from elmgrove.federation.contribution import Contribution
from elmgrove.rounds.clients import Client, SumClient
from elmgrove.rounds.rules import SumRule
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
    beta, P = trained(start, BASIS.layer, X, T)
    evidence = Evidence.from_model(BASIS, P, beta, len(X), ridge)
    return Saying(name, Contribution(name, len(X), (evidence,)).to_bytes())


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
