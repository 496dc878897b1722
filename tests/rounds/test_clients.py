"""Clients: what they refuse, and that what they learn adds up."""

import numpy as np
import pytest

from elmgrove import OSELM, BadInput, Basis, HiddenLayer
from elmgrove.rounds.clients import AverageClient, SumClient
from elmgrove.rounds.messages import RoundMessage
from elmgrove.rounds.rules import SumRule
from support.patterns import INPUTS, rows_of
from support.rounds import BASIS, OTHER, device, run


def test_a_client_with_another_layer_is_refused_and_the_difference_named() -> None:
    rows = rows_of(0, 1, 40)
    before = device("odd", rows)
    before.train(RoundMessage("elsewhere", OTHER).to_bytes(), 1)
    rule = SumRule("all", BASIS)
    reports = run(rule, [device("odd", rows, memory=before.memory)])
    assert "seed: 7 here, 8 there" in reports[0].left_out["odd"]
    with pytest.raises(BadInput, match="no client answered"):
        rule.merged()


def _targets(rows: np.ndarray) -> np.ndarray:
    return np.stack([rows[:, 0] > 0, rows[:, 0] <= 0], axis=1).astype(float)


def test_classifiers_are_summed_to_that_of_all_rows() -> None:
    basis = Basis(HiddenLayer(INPUTS, 5, activation="tanh", seed=3), 2)
    parts = [rows_of(0, index, 30 * index) for index in range(4)]

    def pairs(rows: np.ndarray) -> object:
        def until(number: int) -> tuple[np.ndarray, np.ndarray]:
            seen = rows[: len(rows) * number // 3]
            return seen, _targets(seen)

        return until

    clients = [SumClient(f"c{i}", pairs(rows)) for i, rows in enumerate(parts)]
    rule = SumRule("all", basis)
    reports = run(rule, clients, 3)
    assert reports[0].left_out == {"c0": "nothing new"}
    central = OSELM(basis.layer, 2)
    rows = np.vstack(parts)
    central.learn_many(rows, _targets(rows))
    assert rule.merged().evidence.close_to(central.evidence, 1e-9)
    [model] = rule.models()
    np.testing.assert_allclose(
        basis.layer(rows) @ model.beta, central.predict_many(rows), atol=1e-7
    )


def test_a_request_without_a_model_is_not_one_of_fed_elms() -> None:
    client = AverageClient("c", lambda _: (rows_of(0, 1, 9),) * 2)
    with pytest.raises(BadInput, match="without β and P"):
        client.train(RoundMessage("all", BASIS).to_bytes(), 1)
