"""Federations in rounds: rules, messages and clients, in this process."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import OSELM, BadFile, BadInput, Basis, ElmgroveError, Evidence, HiddenLayer
from elmgrove.algebra.fed_elms import RoundModel, RoundUpdate, fedavg, first_model, trained
from elmgrove.detector.mixture.pattern import PatternRule
from elmgrove.federation import Contribution, Member, Merged, least_new_rows, returned
from elmgrove.rounds import local
from elmgrove.rounds.clients import AverageClient, Client, DeviceClient, Loss, SumClient
from elmgrove.rounds.compact import CompactModel
from elmgrove.rounds.messages import Reply, Task
from elmgrove.rounds.plan import Plan, RuleName
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.rounds.rules import AverageRule, GroupRule, RoundRule, SumRule
from support.groups import group_of
from support.patterns import INPUTS, mixed, rows_of
from support.places import GOLDEN

BASIS = Basis(HiddenLayer(INPUTS, 3, seed=7), INPUTS)
OTHER = Basis(HiddenLayer(INPUTS, 3, seed=8), INPUTS)


def device(name: str, rows: np.ndarray, rounds: int = 1, **more: object) -> DeviceClient:
    def until(number: int) -> np.ndarray:
        return rows[: len(rows) * number // rounds]

    return DeviceClient(name, until, guarded=False, **more)


def evidence_of(rows: np.ndarray, basis: Basis = BASIS) -> Evidence:
    """Equation (5), as it is written."""
    H = basis.layer(rows)
    return Evidence(basis, H.T @ H, H.T @ rows, float((rows * rows).sum()), len(rows))


def run(
    federation: RoundRule, clients: Mapping[str, Client] | Sequence[Client], rounds: int = 1,
    **more: object,
) -> tuple[list[RoundReport], Delivery]:  # fmt: skip
    reports: list[RoundReport] = []
    if not isinstance(clients, Mapping):
        clients = {client.name: client for client in clients}
    chosen = {"rounds": rounds, "fraction": 1.0, "seed": 0} | more
    delivery = local.run(federation, clients, on_round=reports.append, **chosen)
    return reports, delivery


class Failing(DeviceClient):
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
    made = Failing(name, lambda number: rows[: len(rows) * number // rounds], guarded=False)
    made.round, made.late = at, late
    return made


# E²LM


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
    federation = SumRule("all", BASIS)
    reports, delivery = run(federation, clients, rounds)
    assert federation.merged().evidence.close_to(evidence_of(rows), 1e-9)
    assert federation.merged().evidence.count == 90
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
    federation = SumRule("all", BASIS)
    reports, _ = run(federation, clients, 3, fraction=0.5)
    last = {name: report.number for report in reports for name in report.answered}
    assert 1 in last.values()
    heard = [rows[: 40 * last[name] // 3] for name, rows in parts.items() if name in last]
    assert federation.merged().evidence.close_to(evidence_of(np.vstack(heard)), 1e-9)


@pytest.mark.parametrize("late", [False, True])
def test_who_fails_is_left_out_and_a_lost_reply_is_made_good(late: bool) -> None:
    good, bad = rows_of(0, 1, 40), rows_of(0, 2, 40)
    federation = SumRule("all", BASIS)
    clients = [device("good", good, 2), failing("bad", bad, 2, 1, late)]
    reports, _ = run(federation, clients, 2)
    words = "the reply got lost" if late else "the fan is on fire"
    assert reports[0].left_out == {"bad": f"ConnectionError: {words}"}
    assert reports[0].answered == ("good",)
    assert reports[1].answered == ("bad", "good")
    assert federation.merged().evidence.close_to(evidence_of(np.vstack([good, bad])), 1e-9)


def test_who_drops_out_in_the_middle_leaves_what_it_said() -> None:
    good, bad = rows_of(0, 1, 40), rows_of(0, 2, 40)
    federation = SumRule("all", BASIS)
    run(federation, [device("good", good, 2), failing("bad", bad, 2, 2, False)], 2)
    assert federation.merged().evidence.close_to(evidence_of(np.vstack([good, bad[:20]])), 1e-9)


def test_a_client_with_another_layer_is_refused_and_the_difference_named() -> None:
    rows = rows_of(0, 1, 40)
    before = device("odd", rows)
    before.train(Task("elsewhere", OTHER).to_bytes(), 1)
    federation = SumRule("all", BASIS)
    reports, delivery = run(federation, [device("odd", rows, memory=before.memory)])
    assert "seed: 7 here, 8 there" in reports[0].left_out["odd"]
    assert "Mismatch" in delivery.left_out["odd"]
    with pytest.raises(BadInput, match="no client answered"):
        federation.merged()


class Liar(Client):
    """Says what it was told to say."""

    def __init__(self, name: str, says: bytes) -> None:
        super().__init__(name)
        self._says = says

    def train(self, request: bytes, number: int) -> bytes:
        return self._says

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        return Loss(0.0, 0)


def _contribution(origin: str, evidence: Evidence) -> bytes:
    return Contribution(origin, 9, (evidence,)).to_bytes()


IMPOSSIBLE = Evidence(BASIS, np.diag([-1.0] * 3), np.zeros((3, INPUTS)), 1, 1)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (_contribution("liar", evidence_of(rows_of(0, 1, 9), OTHER)), "seed: 7 here, 8 there"),
        (_contribution("good", evidence_of(rows_of(0, 1, 9))), "came from 'liar'"),
        (_contribution("liar", evidence_of(rows_of(0, 1, 9)))[:-9], "BadFile"),
        (_contribution("liar", IMPOSSIBLE), "NotAdmissible"),
        (b"something else", "BadFile"),
    ],
)
def test_what_can_not_be_used_is_refused_and_the_round_goes_on(says: bytes, reason: str) -> None:
    rows = rows_of(0, 1, 40)
    federation = SumRule("all", BASIS)
    reports, _ = run(federation, [device("good", rows), Liar("liar", says)])
    assert reason in reports[0].left_out["liar"]
    assert federation.merged().evidence.close_to(evidence_of(rows), 1e-9)


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
    with pytest.raises(BadInput, match="the memory of 'one', not of 'other'"):
        device("other", rows, state=tmp_path / "c.elm").train(request, 1)


class Changing(Client):
    """Says one thing in each round."""

    def __init__(self, name: str, says: Sequence[bytes]) -> None:
        super().__init__(name)
        self._says = says

    def train(self, request: bytes, number: int) -> bytes:
        return self._says[number - 1]

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        return Loss(0.0, 0)


def test_what_was_huge_and_was_replaced_leaves_no_trace_in_what_others_get() -> None:
    rows = {name: rows_of(0, index, 40) for index, name in enumerate("abc")}
    huge = [Contribution(name, 9, (evidence_of(1e60 * mine),)) for name, mine in rows.items()]
    plain = [Contribution(name, 10, (evidence_of(mine),)) for name, mine in rows.items()]
    clients = [
        Changing(one.origin, [one.to_bytes(), other.to_bytes()])
        for one, other in zip(huge, plain, strict=True)
    ]
    federation = SumRule("all", BASIS)
    run(federation, clients, 2)
    given = Merged.from_bytes(federation.gift("a")).evidence
    assert given.close_to(evidence_of(np.vstack([rows["b"], rows["c"]])), 1e-12)


def test_what_could_not_be_added_up_is_refused() -> None:
    federation = SumRule("all", BASIS)
    huge = _contribution("liar", evidence_of(1e101 * rows_of(0, 1, 9)))
    reports, _ = run(federation, [Liar("liar", huge)])
    assert "can't be added up" in reports[0].left_out["liar"]


def test_bytes_are_those_of_the_messages() -> None:
    federation = SumRule("all", BASIS)
    clients = {name: device(name, rows_of(0, 1, 20)) for name in ("a", "b")}
    reports, delivery = run(federation, clients)
    said = [federation.ledger.get(name) for name in clients]
    assert reports[0].up == sum(len(entry.to_bytes()) for entry in said if entry)
    assert reports[0].down == 2 * len(federation.request())
    gifts = sum(len(federation.gift(name)) for name in clients)
    assert delivery.down == gifts + 2 * len(federation.request())


def test_a_late_client_is_left_out() -> None:
    federation = SumRule("all", BASIS)
    reports, _ = run(federation, [device("slow", rows_of(0, 1, 20))], deadline=1e-9)
    assert reports[0].left_out["slow"].startswith("late")


# OS-ELM with any targets


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
    federation = SumRule("all", basis)
    reports, delivery = run(federation, clients, 3)
    assert reports[0].left_out == {"c0": "nothing new"}
    central = OSELM(basis.layer, 2)
    rows = np.vstack(parts)
    central.learn_many(rows, _targets(rows))
    assert federation.merged().evidence.close_to(central.evidence, 1e-9)
    error = central.predict_many(rows) - _targets(rows)
    assert delivery.loss == pytest.approx(float(np.mean(error * error)), rel=1e-6)


# Fed-ELMS


def test_averaging_in_rounds_is_that_of_the_equations() -> None:
    parts = {f"c{index}": rows_of(0, index, 10 + 7 * index) for index in range(3)}
    X0 = rows_of(0, 9, 12)
    federation = AverageRule("all", BASIS, X0, X0)
    clients = [
        AverageClient(name, lambda number, rows=rows: (rows[: len(rows) * number // 2],) * 2)
        for name, rows in parts.items()
    ]
    run(federation, clients, 2)
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
    np.testing.assert_allclose(federation.model.beta, beta, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(federation.model.P, P, rtol=1e-7, atol=1e-12)
    # The evidence that is saved has this model, and could be that of rows.
    merged = federation.merged()
    np.testing.assert_allclose(merged.evidence.solve(0.0), beta, rtol=1e-6, atol=1e-9)
    merged.evidence.require_admissible("the average")
    assert (merged.devices, merged.revision) == (3, 2)


def _averaged(
    bits: int, rounds: int, rows: Mapping[str, np.ndarray]
) -> tuple[AverageRule, int, int]:
    """A federation after its rounds, and the bytes of the last one: down and up."""
    X0 = rows_of(0, 9, 30)
    federation = AverageRule("all", BASIS, X0, X0, bits=bits)
    clients = [
        AverageClient(name, lambda number, mine=mine: (mine[: len(mine) * number // rounds],) * 2)
        for name, mine in rows.items()
    ]
    reports, delivery = run(federation, clients, rounds)
    assert not reports[-1].left_out
    assert not delivery.left_out
    return federation, reports[-1].down, reports[-1].up


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
        federation = AverageRule("all", BASIS, X0, X0, bits=bits)
        reports, _ = run(federation, [Liar("liar", says)])
        assert reports[0].left_out["liar"].startswith("BadFile: this holds")
    with pytest.raises(BadInput, match="bits must be 8 or 64, not 16"):
        AverageRule("all", BASIS, X0, X0, bits=16)


def test_averaging_leaves_out_who_has_no_rows_or_another_layer() -> None:
    X0 = rows_of(0, 9, 12)
    federation = AverageRule("all", BASIS, X0, X0)
    before = federation.model
    update = RoundUpdate(before.beta, before.P, 5)
    odd = Liar("odd", Reply("odd", OTHER, update).to_bytes())
    false = Liar("false", Reply("false", BASIS, update._replace(P=-before.P)).to_bytes())
    empty = AverageClient("empty", lambda _: (X0[:0], X0[:0]))
    reports, _ = run(federation, [odd, false, empty])
    assert reports[0].left_out["false"].startswith("NotAdmissible: P of 'false'")
    assert "seed: 7 here, 8 there" in reports[0].left_out["odd"]
    assert reports[0].left_out["empty"] == "nothing new"
    assert federation.model is before


# MLMG


def test_patterns_of_one_kind_are_summed_and_matched_back() -> None:
    rule = PatternRule(patterns=2, start_rows=60)
    rows = {
        "both": mixed(1, 300),
        "first": rows_of(0, 2, 150),
        "second": rows_of(1, 3, 150),
        "empty": rows_of(0, 4, 0),
    }
    clients = {
        name: device(name, mine, patterns=rule if name == "both" else None)
        for name, mine in rows.items()
    }
    federation = GroupRule("all", BASIS, count=2)
    reports, delivery = run(federation, clients)
    assert reports[0].left_out == {"empty": "nothing new"}
    assert not delivery.left_out
    grouping = federation.grouping
    assert grouping.count == 2
    assert group_of(grouping, "first") != group_of(grouping, "second")
    # "both" has as many models as there are groups, so it gets all; the others get their own kind.
    assert set(returned(grouping)["both"]) == {0, 1}
    given = {name: Merged.from_bytes(federation.gift(name)) for name in rows}
    assert len(given["both"].groups) == 2
    assert given["both"].evidence.close_to(
        evidence_of(rows["first"]) + evidence_of(rows["second"]), 1e-9
    )
    assert given["first"].devices == 1
    assert given["first"].evidence.count == pytest.approx(150, abs=1)
    assert given["empty"].devices == 0  # who has no models is of no group
    everything = np.vstack([rows["both"], rows["first"], rows["second"]])
    assert federation.merged().evidence.close_to(evidence_of(everything), 1e-9)


def test_the_loss_with_patterns_is_the_plain_error_of_who_answers() -> None:
    rows, rule = mixed(1, 300), PatternRule(patterns=2, start_rows=60)
    # One kind varies far less, so what is typical of the two differs.
    rows[rows[:, 0] > np.median(rows[:, 0])] += 50.0
    client = device("both", rows, patterns=rule)
    _, delivery = run(GroupRule("all", BASIS), [client])
    model = Member.from_bytes(client.memory).detector.model
    expected = [np.mean((x - model.answer(x).y) ** 2) for x in rows]
    assert delivery.loss == pytest.approx(float(np.mean(expected)), rel=1e-9)
    weighted = Member.from_bytes(client.memory).detector.score_many(rows)
    assert delivery.loss != pytest.approx(float(np.mean(weighted)), rel=1e-3)


@pytest.mark.parametrize("distance", ["evidence", "parameters"])
def test_groups_are_told_apart_by_the_distance_that_is_asked_for(distance: str) -> None:
    rows = {f"c{index}": rows_of(index % 2, index, 150) for index in range(4)}
    federation = GroupRule("all", BASIS, count=9, distance=distance)
    run(federation, [device(name, mine) for name, mine in rows.items()])
    # There are no more groups than patterns.
    assert (federation.grouping.distance, federation.grouping.count) == (distance, 4)
    assert Merged.from_bytes(federation.gift("c0")).grouped == distance
    with pytest.raises(BadInput, match="distance must be one of"):
        GroupRule("all", BASIS, distance="height")


def test_if_nobody_answers_there_are_no_kinds() -> None:
    federation = GroupRule("all", BASIS)
    reports, delivery = run(federation, [device("empty", rows_of(0, 4, 0))])
    assert reports[0].left_out == {"empty": "nothing new"}
    assert delivery.losses == {"empty": Loss(0.0, 0)}
    with pytest.raises(BadInput, match="no client answered"):
        federation.merged()


# Messages


MODEL = first_model(BASIS.layer, rows_of(0, 9, 12), rows_of(0, 9, 12))
MESSAGES = [
    Task("all", BASIS),
    Task("all", BASIS, 0.0, MODEL),
    Reply("c", BASIS, RoundUpdate(MODEL.beta, MODEL.P, 5)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was_and_altered_not_at_all(message: Task | Reply) -> None:
    blob = message.to_bytes()
    assert type(message).from_bytes(blob).to_bytes() == blob
    for place in range(0, len(blob), 37):
        altered = blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :]
        with pytest.raises(BadFile):
            type(message).from_bytes(altered)
    with pytest.raises(BadFile):
        type(message).from_bytes(blob[:-1])


@pytest.mark.parametrize(
    "model", [RoundModel(MODEL.beta, np.eye(4)), RoundModel(MODEL.beta * np.nan, MODEL.P)]
)
def test_a_model_that_does_not_fit_is_no_message(model: RoundModel) -> None:
    with pytest.raises(BadFile):
        Task.from_bytes(Task("all", BASIS, 0.0, model).to_bytes())


def test_a_task_without_a_model_is_not_one_of_fed_elms() -> None:
    client = AverageClient("c", lambda _: (rows_of(0, 1, 9),) * 2)
    with pytest.raises(BadInput, match="without β and P"):
        client.train(Task("all", BASIS).to_bytes(), 1)


def test_reports_and_deliveries_survive_json() -> None:
    report = RoundReport(2, ("a", "b"), ("a",), {"b": "late"}, 10, 20, 0.5)
    assert RoundReport.from_fields(report.fields) == report
    delivery = Delivery({"a": Loss(0.5, 3)}, {"b": "late"}, 10, 0.5)
    assert Delivery.from_fields(delivery.fields) == delivery
    assert delivery.loss == 0.5


# Plans


@pytest.mark.parametrize("rule", list(RuleName))
def test_a_plan_from_a_folder_is_the_same_plan(tmp_path: Path, rule: str) -> None:
    rows = {f"c{index}": rows_of(0, index, 20 * index) for index in range(4)}
    plan = Plan(rule, BASIS, rows, rounds=2, fraction=0.6, seed=3, batch=rows_of(0, 9, 12))
    plan.save(tmp_path)
    results = []
    for one in (plan, Plan.load(tmp_path)):
        federation = one.federation()
        clients = {name: one.client(name) for name in one.rows}
        _, delivery = run(federation, clients, 2, fraction=0.6, seed=3)
        member = one.member(federation.merged())
        results.append((federation.merged().to_bytes(), delivery.losses, member.to_bytes()))
    assert results[0] == results[1]


def test_a_rule_that_is_none_is_an_error() -> None:
    with pytest.raises(ElmgroveError, match="e2lm, fedavg, groups"):
        Plan("sum", BASIS, {})


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ({"rule": "e2lm", "groups": 2}, "are for rule groups, not for e2lm"),
        ({"rule": "fedavg", "distance": "parameters"}, "are for rule groups, not for fedavg"),
        ({"rule": "groups", "distance": "height"}, "distance must be one of"),
        ({"rule": "groups", "groups": 8}, "8 groups, where clients have 7 patterns at most"),
        ({"rule": "e2lm", "bits": 8}, "8 bits are for rule fedavg, not for e2lm"),
        ({"rule": "fedavg", "bits": 9}, "bits must be 8 or 64"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_trained(
    chosen: dict[str, object], reason: str
) -> None:
    rows = {"few": rows_of(0, 1, 2), "many": rows_of(0, 2, 90), "none": rows_of(0, 3, 0)}
    with pytest.raises(BadInput, match=reason):
        Plan(basis=BASIS, rows=rows, **chosen).federation()


# Golden files: a new version of the format gets new ones beside them.

SMALL = Basis(HiddenLayer(2, 2, weights="binary", seed=35), 2, ("heat", "load"))
EXACT = RoundModel(np.array([[0.5, -1.0], [0.25, 2.0]]), np.array([[2.0, 0.5], [0.5, 1.0]]))
GOLDEN_MESSAGES = {
    "fans.task": Task("fans", SMALL, 0.0, EXACT),
    "fan-1.update": Reply("fan-1", SMALL, RoundUpdate(EXACT.beta, EXACT.P, 7)),
}


@pytest.mark.parametrize("name", GOLDEN_MESSAGES)
def test_the_golden_messages_are_read_and_written_alike(name: str) -> None:
    message = GOLDEN_MESSAGES[name]
    blob = (GOLDEN / name).read_bytes()
    assert message.to_bytes() == blob
    read = type(message).from_bytes(blob)
    assert read.basis == SMALL
    if isinstance(read, Task):
        assert read.model is not None
        beta, P = read.model
        assert (read.federation, read.ridge) == ("fans", 0.0)
    else:
        beta, P, rows = read.update
        assert (read.origin, rows) == ("fan-1", 7)
    np.testing.assert_array_equal(beta, EXACT.beta, strict=True)
    np.testing.assert_array_equal(P, EXACT.P, strict=True)
