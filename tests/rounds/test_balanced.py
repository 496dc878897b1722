"""The rule of balanced sums: any spread of classes is one model, and all sides mean one class."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadFile, BadInput, Basis, Evidence, HiddenLayer
from elmgrove.algebra.classes import ClassEvidence
from elmgrove.federation.merged import Merged
from elmgrove.rounds.balanced import BalancedSumClient, BalancedSumRule, ClassReply
from elmgrove.rounds.local import run_plan
from elmgrove.rounds.plan import Plan
from elmgrove.rounds.predictor import Target
from support.laws import law_examples
from support.places import GOLDEN
from support.rounds import Saying, run

NAMES = ("laying", "sitting", "walking")
BASIS = Basis(HiddenLayer(3, 5, "relu", seed=7), len(NAMES))


def rows_with_classes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which most are of the first class and few of the last."""
    rng = np.random.default_rng(seed)
    label = np.sort(rng.choice(3, count, p=[0.7, 0.25, 0.05]))
    X = rng.normal(size=(count, 3)) + label[:, np.newaxis]
    return X, np.eye(3)[label]


def client(
    name: str, X: np.ndarray, T: np.ndarray, rounds: int = 1, classes: Sequence[str] = NAMES
) -> BalancedSumClient:
    def pairs(number: int) -> tuple[np.ndarray, np.ndarray]:
        until = len(X) * number // rounds
        return X[:until], T[:until]

    return BalancedSumClient(name, pairs, classes)


def balanced_beta(X: np.ndarray, T: np.ndarray, ridge: float) -> np.ndarray:
    """All rows in one place, w_c = N/(C·N_c): β = (HᵀWH + λI)⁻¹HᵀWT."""
    N = T.sum(axis=0)
    w = len(T) / (np.count_nonzero(N) * (T @ N))
    H = BASIS.layer(X)
    beta: np.ndarray = np.linalg.solve((H.T * w) @ H + ridge * np.eye(5), (H.T * w) @ T)
    return beta


@settings(max_examples=law_examples(25), deadline=None)
@given(
    cuts=st.lists(st.integers(0, 90), max_size=5),
    rounds=st.integers(1, 3),
    seed=st.integers(0, 5),
    sorted_by_class=st.booleans(),
)
def test_any_spread_over_clients_and_rounds_is_the_balanced_model_of_all_rows(
    cuts: list[int], rounds: int, seed: int, sorted_by_class: bool
) -> None:
    X, T = rows_with_classes(90, seed)
    if not sorted_by_class:
        order = np.random.default_rng(seed).permutation(90)
        X, T = X[order], T[order]
    pieces = zip(np.split(X, sorted(cuts)), np.split(T, sorted(cuts)), strict=True)
    rule = BalancedSumRule("all", BASIS, NAMES, 0.01)
    clients = [client(f"c{at}", *piece, rounds) for at, piece in enumerate(pieces)]
    reports, delivery = run(rule, clients, rounds)
    beta = balanced_beta(X, T, 0.01)
    np.testing.assert_allclose(rule.merged().evidence.solve(0.01), beta, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(rule.models()[0].beta, beta, rtol=1e-6, atol=1e-8)
    assert rule.merged().evidence.count == pytest.approx(90.0)
    assert rule.evidence.counts.tolist() == T.sum(axis=0).tolist()
    # Each client got the model of all.
    error = float(np.mean((BASIS.layer(X) @ beta - T) ** 2))
    assert not delivery.left_out
    assert delivery.loss == pytest.approx(error, rel=1e-6)
    assert reports[-1].number == rounds


def test_a_client_goes_on_from_its_memory_and_the_newest_reply_counts() -> None:
    X, T = rows_with_classes(60, 1)
    rule = BalancedSumRule("all", BASIS, NAMES)
    first = client("c", X[:20], T[:20])
    reply = first.train(rule.request(), 1)
    again = BalancedSumClient("c", lambda _: (X, T), NAMES, memory=first.memory)
    later = again.train(rule.request(), 2)
    for blob in (later, reply, later):
        opened = rule.read("c", blob)
        assert opened is not None
        rule.take([opened])
    assert rule.evidence.counts.sum() == 60
    assert rule.merged().devices == 1
    assert rule.evidence.balanced.close_to(ClassEvidence.of(BASIS, X, T).balanced, 1e-9)


def test_a_reply_holds_only_the_classes_that_its_client_has_rows_of() -> None:
    X, T = rows_with_classes(60, 1)
    sizes = {}
    for kept in (1, 2, 3):
        rows = T[:, :kept].any(axis=1)
        reply = client("c", X[rows], T[rows]).train(
            BalancedSumRule("all", BASIS, NAMES).request(), 1
        )
        sizes[kept] = len(reply)
        counts = ClassReply.from_bytes(reply).evidence.counts
        np.testing.assert_array_equal(counts > 0, [True, kept > 1, kept > 2])
    assert sizes[1] < sizes[2] < sizes[3]
    # What comes back is one sum, however many classes there are.
    rule = BalancedSumRule("all", BASIS, NAMES)
    run(rule, [client("c", X, T)])
    assert len(Merged.from_bytes(rule.gift("c")).parts) == 1


SWAPPED = ("sitting", "laying", "walking")


def test_a_task_with_other_classes_or_another_order_is_refused_by_the_client() -> None:
    X, T = rows_with_classes(30, 1)
    rule = BalancedSumRule("all", BASIS, NAMES)
    reports, _ = run(rule, [client("odd", X, T, classes=SWAPPED), client("good", X, T)])
    assert (
        "sitting, laying, walking here, laying, sitting, walking there"
        in (reports[0].left_out["odd"])
    )
    assert reports[0].answered == ("good",)


def test_rows_without_a_class_are_refused_by_the_client() -> None:
    X, T = rows_with_classes(30, 1)
    reports, _ = run(BalancedSumRule("all", BASIS, NAMES), [client("odd", X, 0.5 * T)])
    assert "one 1 in each row" in reports[0].left_out["odd"]


def saying(
    evidence: ClassEvidence, classes: tuple[str, ...] = NAMES, origin: str = "liar"
) -> bytes:
    return ClassReply(origin, classes, evidence).to_bytes()


RIGHT = ClassEvidence.of(BASIS, *rows_with_classes(30, 1))
EXCHANGED = ClassEvidence((RIGHT.parts[1], RIGHT.parts[0], RIGHT.parts[2]))
IMPOSSIBLE = Evidence(BASIS, np.diag([-1.0] * 5), np.zeros((5, 3)), 1, 1)
NEGATIVE = ClassEvidence((IMPOSSIBLE, *RIGHT.parts[1:]))
OTHER = ClassEvidence.zero(Basis(HiddenLayer(3, 5, "relu", seed=8), 3))


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (saying(EXCHANGED), "class 'laying' of 'liar' holds rows of another class"),
        (saying(RIGHT, SWAPPED), "laying, sitting, walking here, sitting, laying, walking there"),
        (saying(RIGHT, origin="good"), "in the name of 'good'"),
        (saying(NEGATIVE), "NotAdmissible: the evidence of class 'laying' of 'liar'"),
        (saying(OTHER), "seed: 7 here, 8 there"),
        (saying(ClassEvidence.zero(BASIS)), "nothing new"),
        (saying(RIGHT)[:-3], "BadFile"),
        (b"something else", "BadFile"),
    ],
)
def test_what_can_not_be_used_is_refused_and_the_round_goes_on(says: bytes, reason: str) -> None:
    X, T = rows_with_classes(30, 1)
    rule = BalancedSumRule("all", BASIS, NAMES)
    reports, _ = run(rule, [client("good", X, T), Saying("liar", says)])
    assert reason in reports[0].left_out["liar"]
    assert rule.merged().evidence.close_to(RIGHT.balanced, 1e-9)


def test_a_message_comes_back_as_it_was_and_altered_not_at_all() -> None:
    blob = saying(RIGHT)
    assert ClassReply.from_bytes(blob).to_bytes() == blob
    for place in range(0, len(blob), 37):
        altered = blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :]
        with pytest.raises(BadFile):
            ClassReply.from_bytes(altered)


SMALL = Basis(HiddenLayer(2, 2, weights="binary", seed=35), 3, ("heat", "load"))
HEAT = Evidence(SMALL, np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.5, 0, 0], [1, 0, 0]]), 2, 2)
LAID = Evidence(SMALL, np.eye(2), np.array([[0, 0, 0.5], [0, 0, 0.25]]), 1, 1)


def test_the_golden_message_is_read_and_written_as_it_was() -> None:
    evidence = ClassEvidence((HEAT, Evidence.zero(SMALL), LAID))
    blob = (GOLDEN / "fan-1.classes").read_bytes()
    assert ClassReply("fan-1", NAMES, evidence).to_bytes() == blob
    read = ClassReply.from_bytes(blob)
    assert (read.origin, read.classes, read.rows) == ("fan-1", NAMES, 3)
    assert read.evidence.parts[2] == LAID


def test_classes_are_different_names_one_for_each_output() -> None:
    with pytest.raises(BadInput, match="2 classes, where the basis has 3 outputs"):
        BalancedSumRule("all", BASIS, NAMES[:2])
    with pytest.raises(BadInput, match="classes must be different names"):
        BalancedSumRule("all", BASIS, ("a", "a", "b"))


def test_a_plan_with_classes_is_balanced_also_from_a_folder(tmp_path: Path) -> None:
    X, T = rows_with_classes(90, 2)
    rows = {"a": X[:50], "b": X[50:]}
    targets = {"a": T[:50], "b": T[50:]}
    plan = Plan("balanced", BASIS, rows, rounds=2, targets=targets, classes=NAMES)
    plan.save(tmp_path)
    for one in (plan, Plan.load(tmp_path)):
        merged, delivery = run_plan(one, lambda _: None)
        assert not delivery.left_out
        np.testing.assert_allclose(
            merged.evidence.solve(plan.ridge), balanced_beta(X, T, plan.ridge), rtol=1e-6, atol=1e-8
        )
        predicted = one.predictor(merged, Target("doing", NAMES), {}).predict(X)
        assert set(predicted) <= set(NAMES)
    with pytest.raises(BadInput, match="2 classes, where the basis has 3 outputs"):
        replace(plan, classes=NAMES[:2]).require_possible()


def test_if_no_client_answers_there_is_no_model() -> None:
    rule = BalancedSumRule("all", BASIS, NAMES)
    X, T = rows_with_classes(0, 1)
    reports, delivery = run(rule, [client("empty", X, T)])
    assert reports[0].left_out == {"empty": "nothing new"}
    assert not delivery.left_out
    assert rule.models() == ()
    with pytest.raises(BadInput, match="no client answered"):
        rule.merged()
