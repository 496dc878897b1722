"""The rule of averages: β and P are those of the equations, in 64 bits or in 8."""

from collections.abc import Mapping

import numpy as np
import pytest

from elmgrove import BadInput
from elmgrove.algebra.fed_elms import fedavg, first_model, trained
from elmgrove.rounds.clients import AverageClient
from elmgrove.rounds.compact import CompactModel
from elmgrove.rounds.messages import RoundMessage
from elmgrove.rounds.rules import AverageRule
from support.patterns import rows_of
from support.rounds import BASIS, OTHER, Saying, run


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
    reports = run(rule, clients, rounds)
    assert not reports[-1].left_out
    return rule, reports[-1].down, reports[-1].up


def test_in_8_bits_models_travel_compact_both_ways() -> None:
    parts = {f"c{index}": rows_of(0, index, 100 + 70 * index) for index in range(3)}
    found, down, up = _averaged(8, 2, parts)
    X0 = rows_of(0, 9, 30)
    sent = CompactModel.of(first_model(BASIS.layer, X0, X0))
    for number in (1, 2):
        updates = []
        for rows in parts.values():
            new = rows[len(rows) * (number - 1) // 2 : len(rows) * number // 2]
            answer = trained(sent.state, BASIS.layer, new, new)
            updates.append((CompactModel.of(answer), len(new)))
        average = fedavg((count, one.state) for one, count in updates)
        before, sent = sent, CompactModel.of(average)
    assert found.request() == RoundMessage("all", BASIS, sent).to_bytes()
    np.testing.assert_array_equal(found.model.beta, sent.state.beta)
    assert down == 3 * len(RoundMessage("all", BASIS, before).to_bytes())
    answers = zip(parts, updates, strict=True)
    assert up == sum(len(RoundMessage(name, BASIS, *one).to_bytes()) for name, one in answers)
    # What is saved is what was sent, and near what float64 comes to.
    np.testing.assert_allclose(found.merged().evidence.solve(0.0), sent.state.beta, atol=1e-6)
    plain, _, _ = _averaged(64, 2, parts)
    assert np.abs(found.model.beta - plain.model.beta).max() < 0.05 * np.abs(plain.model.beta).max()


def test_an_answer_in_another_width_is_refused() -> None:
    X0 = rows_of(0, 9, 30)
    model = first_model(BASIS.layer, X0, X0)
    plain = RoundMessage("liar", BASIS, model, 5).to_bytes()
    compact = RoundMessage("liar", BASIS, CompactModel.of(model), 5).to_bytes()
    for bits, says in ((64, compact), (8, plain)):
        rule = AverageRule("all", BASIS, X0, X0, bits=bits)
        reports = run(rule, [Saying("liar", says)])
        assert reports[0].left_out["liar"].endswith(f"another number of bits than {bits}")
    with pytest.raises(BadInput, match="bits must be 8 or 64, not 16"):
        AverageRule("all", BASIS, X0, X0, bits=16)


def test_averaging_leaves_out_a_client_without_rows_or_with_another_layer() -> None:
    X0 = rows_of(0, 9, 12)
    rule = AverageRule("all", BASIS, X0, X0)
    before = rule.model
    odd = Saying("odd", RoundMessage("odd", OTHER, before, 5).to_bytes())
    lie = before._replace(P=-before.P)
    false = Saying("false", RoundMessage("false", BASIS, lie, 5).to_bytes())
    empty = AverageClient("empty", lambda _: (X0[:0], X0[:0]))
    reports = run(rule, [odd, false, empty])
    assert reports[0].left_out["false"].startswith("NotAdmissible: P of 'false'")
    assert "seed: 7 here, 8 there" in reports[0].left_out["odd"]
    assert reports[0].left_out["empty"] == "nothing new"
    assert rule.model is before
