"""Rules of sums, and their clients: any split is the model of all rows; what is bad is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import OSELM, BadInput, Basis, Evidence, HiddenLayer
from elmgrove.algebra.fed_elms import RoundModel, trained
from elmgrove.federation.contribution import Contribution
from elmgrove.rounds.clients import AverageClient, Client, SumClient
from elmgrove.rounds.messages import RoundMessage
from elmgrove.rounds.rules import GroupRule, SumRule
from support.laws import law_examples
from support.patterns import INPUTS, group_of, rows_of
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


OWN_BASIS = Basis(HiddenLayer(3, 5, "sigmoid", seed=7), 2)


def pairs_of(seed: int, count: int, rounds: int = 1):
    rng = np.random.default_rng(seed)
    X, T = rng.normal(size=(count, 3)), rng.normal(size=(count, 2))
    return lambda number: (X[: count * number // rounds], T[: count * number // rounds])


def node(name: str, X: np.ndarray, T: np.ndarray, ridge: float) -> Saying:
    """A client that can do (12) and (13) and no more, and begins with P = I/λ."""
    start = RoundModel(np.zeros((5, 2)), np.eye(5) / ridge)
    beta, P = trained(start, OWN_BASIS.layer, X, T)
    evidence = Evidence.from_model(OWN_BASIS, P, beta, len(X), ridge)
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
    rule = SumRule("all", OWN_BASIS, ridge)
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
    H = OWN_BASIS.layer(X)
    beta = np.linalg.solve(H.T @ H + ridge * np.eye(5), H.T @ T)
    merged = rule.merged()
    np.testing.assert_allclose(merged.evidence.solve(ridge), beta, rtol=1e-6, atol=1e-7)
    assert merged.evidence.count == len(X)


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


class Failing(SumClient):
    """A device that has trouble in one round, before or after it did its work."""

    round = 1
    late = False

    def train(self, request: bytes, number: int) -> bytes:
        if number == self.round and not self.late:
            raise ConnectionError("the fan is on fire")
        reply = super().train(request, number)
        if number == self.round:
            raise ConnectionError("the reply got lost")
        return reply


def failing(name: str, rows: np.ndarray, rounds: int, at: int, late: bool) -> Failing:
    made = Failing(name, lambda number: (rows[: len(rows) * number // rounds],) * 2)
    made.round, made.late = at, late
    return made


@pytest.mark.parametrize("late", [False, True])
def test_a_failing_client_is_left_out_and_its_next_reply_has_all_rows(late: bool) -> None:
    good, bad = rows_of(0, 1, 40), rows_of(0, 2, 40)
    rule = SumRule("all", BASIS)
    clients = [device("good", good, 2), failing("bad", bad, 2, 1, late)]
    reports = run(rule, clients, 2)
    words = "the reply got lost" if late else "the fan is on fire"
    assert reports[0].left_out == {"bad": f"ConnectionError: {words}"}
    assert reports[0].answered == ("good",)
    assert reports[1].answered == ("bad", "good")
    assert rule.merged().evidence.close_to(client_evidence(np.vstack([good, bad])), 1e-9)


def test_a_client_that_drops_out_in_the_middle_leaves_what_it_contributed() -> None:
    good, bad = rows_of(0, 1, 40), rows_of(0, 2, 40)
    rule = SumRule("all", BASIS)
    run(rule, [device("good", good, 2), failing("bad", bad, 2, 2, False)], 2)
    assert rule.merged().evidence.close_to(client_evidence(np.vstack([good, bad[:20]])), 1e-9)


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
