"""Clients: what they refuse, what their guard holds back, and how they measure what they got."""

from pathlib import Path

import numpy as np
import pytest

from elmgrove import OSELM, BadInput, Basis, Evidence, HiddenLayer
from elmgrove.detector.patterns import PatternRule
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.guard import least_new_rows
from elmgrove.federation.member import Member
from elmgrove.rounds.clients import AverageClient, DeviceClient, SumClient
from elmgrove.rounds.messages import Task
from elmgrove.rounds.rules import GroupRule, SumRule
from support.patterns import INPUTS, mixed, rows_of
from support.rounds import BASIS, OTHER, device, run


def test_a_client_with_another_layer_is_refused_and_the_difference_named() -> None:
    rows = rows_of(0, 1, 40)
    before = device("odd", rows)
    before.train(Task("elsewhere", OTHER).to_bytes(), 1)
    rule = SumRule("all", BASIS)
    reports, delivery = run(rule, [device("odd", rows, memory=before.memory)])
    assert "seed: 7 here, 8 there" in reports[0].left_out["odd"]
    assert "Mismatch" in delivery.left_out["odd"]
    with pytest.raises(BadInput, match="no client answered"):
        rule.merged()


def test_the_guard_holds_unless_it_is_switched_off() -> None:
    least = least_new_rows(BASIS)
    for count, says in ((least - 1, 0), (least, 1)):
        rows = rows_of(0, 1, count)
        reply = DeviceClient("c", lambda _, rows=rows: rows).train(Task("all", BASIS).to_bytes(), 1)
        assert bool(reply) == bool(says)


def test_with_a_state_file_the_guard_holds_from_one_run_to_the_next(tmp_path: Path) -> None:
    rows, state = rows_of(0, 1, 401), tmp_path / "c.elm"

    def told(count: int, state: Path | None) -> list[bytes]:
        """What a client with so many rows says in a run of its own, of two rounds."""
        said: list[bytes] = []

        class Heard(SumRule):
            def read(self, origin: str, reply: bytes) -> Contribution | None:
                said.append(reply)
                return super().read(origin, reply)

        part = rows[:count]
        client = DeviceClient("c", lambda number: part[: len(part) * number // 2], state=state)
        _, delivery = run(Heard("all", BASIS), [client], 2)
        assert not delivery.left_out
        assert bool(client.memory) == (state is None)
        return said

    def evidence(reply: bytes) -> Evidence:
        return Contribution.from_bytes(reply).evidence

    first, second = told(400, state), told(401, state)
    # What was said last is said again, whatever round it is.
    assert second == [first[-1]] * 2
    # In memory alone a new run knows nothing of the one before, and the difference is the row.
    row = evidence(told(401, None)[-1]) - evidence(told(400, None)[-1])
    np.testing.assert_allclose(row.V, BASIS.layer(rows[400:]).T @ rows[400:], atol=1e-9)


def test_a_state_is_that_of_one_client(tmp_path: Path) -> None:
    rows, request = rows_of(0, 1, 40), Task("all", BASIS).to_bytes()
    device("one", rows, state=tmp_path / "c.elm").train(request, 1)
    with pytest.raises(BadInput, match="the state is that of 'one', not of 'other'"):
        device("other", rows, state=tmp_path / "c.elm").train(request, 1)


def test_the_loss_with_patterns_is_the_plain_error_of_the_pattern_that_answers() -> None:
    rows, patterns = mixed(1, 300), PatternRule(patterns=2, start_rows=60)
    # One pattern varies far less, so what is typical of the two differs.
    rows[rows[:, 0] > np.median(rows[:, 0])] += 50.0
    client = device("both", rows, patterns=patterns)
    _, delivery = run(GroupRule("all", BASIS), [client])
    model = Member.from_bytes(client.memory).detector.model
    expected = [np.mean((x - model.answer(x).view.y) ** 2) for x in rows]
    assert delivery.loss == pytest.approx(float(np.mean(expected)), rel=1e-9)
    weighted = Member.from_bytes(client.memory).detector.score_many(rows)
    assert delivery.loss != pytest.approx(float(np.mean(weighted)), rel=1e-3)


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
    reports, delivery = run(rule, clients, 3)
    assert reports[0].left_out == {"c0": "nothing new"}
    central = OSELM(basis.layer, 2)
    rows = np.vstack(parts)
    central.learn_many(rows, _targets(rows))
    assert rule.merged().evidence.close_to(central.evidence, 1e-9)
    error = central.predict_many(rows) - _targets(rows)
    assert delivery.loss == pytest.approx(float(np.mean(error * error)), rel=1e-6)


def test_a_task_without_a_model_is_not_one_of_fed_elms() -> None:
    client = AverageClient("c", lambda _: (rows_of(0, 1, 9),) * 2)
    with pytest.raises(BadInput, match="without β and P"):
        client.train(Task("all", BASIS).to_bytes(), 1)
