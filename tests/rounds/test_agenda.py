"""Agendas and openings: what a server is told, and that it goes on where it was."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove.errors import BadFile, BadInput
from elmgrove.rounds import Agenda, BetweenRounds, Exam, Opening, RoundRule, SumRule, Target
from elmgrove.storage import seal, unseal
from support.held_rounds import BASIS, NAMES, agenda_of, plan_of, rows_of

GOLDEN = Path(__file__).parent.parent / "golden" / "fans.opening"
AGENDA = Agenda("fans", "e2lm", 3, target=Target("mode", ("off", "on")), members=("fan-*",))


def test_an_agenda_comes_back_as_it_was() -> None:
    assert Agenda.from_fields(AGENDA.fields) == AGENDA


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "no/name"},
        {"rule": "vote"},
        {"clients": 0},
        {"clients": True},
        {"rounds": 1.5},
        {"rounds": 10**7},
        {"fraction": 1.1},
        {"fraction": float("nan")},
        {"seed": -1},
        {"seed": 2**63},
        {"deadline": 0.0},
        {"deadline": float("inf")},
        {"groups": 0},
        {"distance": "far"},
        {"key_days": -1.0},
        {"members": [1]},
        {"target": {"column": 3}},
        {"unknown": 1},
    ],
    ids=str,
)
def test_what_no_server_could_hold_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Agenda.from_fields({**AGENDA.fields, **wrong})


def test_an_opening_comes_back_and_asks_in_the_federations_name() -> None:
    rule = plan_of("fedavg").round_rule()
    made = Opening.of(Agenda("fans", "fedavg", 3), rule, Exam(rows_of(1)))
    again = Opening.from_bytes(made.to_bytes())
    assert (again.agenda, again.request, again.progress) == (
        made.agenda,
        made.request,
        made.progress,
    )
    assert again.task.federation == "fans"
    assert again.exam is not None
    np.testing.assert_array_equal(again.exam.X, rows_of(1))
    np.testing.assert_array_equal(again.task.model.beta, rule.task.model.beta)


def test_the_golden_opening_is_read() -> None:
    made = Opening.from_bytes(GOLDEN.read_bytes())
    assert made.agenda == Agenda("fans", "e2lm", 2, rounds=3, fraction=0.5, seed=7)
    assert made.to_bytes() == GOLDEN.read_bytes()
    assert made.exam is not None
    assert made.exam.X.tolist() == [[0.5] * 5, [0.25] * 5]


def test_test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(BadInput, match="do not fit"):
        Opening.of(Agenda("fans", "e2lm", 2), SumRule("fans", BASIS), Exam(np.ones((3, 2))))


def test_what_is_sealed_and_no_opening_is_a_bad_file() -> None:
    made = Opening.of(Agenda("fans", "e2lm", 2), SumRule("fans", BASIS))
    fields, arrays = unseal("elmgrove.opening", made.to_bytes())
    for wrong in ({"agenda": {}}, {"progress": []}, {"more": 1}):
        with pytest.raises(BadFile):
            Opening.from_bytes(seal("elmgrove.opening", {**fields, **wrong}, arrays))
    with pytest.raises(BadFile):
        Opening.from_bytes(seal("elmgrove.opening", fields, {}))


def after(rule: RoundRule[Any], numbers: range, clients: dict[str, Any]) -> dict[str, bytes]:
    """Takes some rounds with all clients, and gives the replies that are still needed."""
    kept: dict[str, bytes] = {}
    for number in numbers:
        blobs = {name: clients[name].train(rule.request(), number) for name in NAMES}
        replies = {name: rule.read(name, blobs[name]) for name in NAMES}
        rule.take([replies[name] for name in NAMES])
        kept |= {name: blobs[name] for name in NAMES if rule.kept(replies[name])}
    return kept


@pytest.mark.parametrize("how", [("fedavg", 64), ("fedavg", 8), ("e2lm", 64), ("groups", 64)])
@given(cut=st.integers(1, 3))
def test_a_rule_that_goes_on_elsewhere_ends_as_if_it_had_not_moved(
    how: tuple[str, int], cut: int
) -> None:
    plan = plan_of(how[0], rounds=4, bits=how[1])
    agenda, whole, moved = agenda_of(plan, "fans"), plan.round_rule(), plan.round_rule()
    clients = {name: plan.client(name) for name in NAMES}
    after(whole, range(1, 5), clients)
    clients = {name: plan.client(name) for name in NAMES}
    kept = after(moved, range(1, cut + 1), clients)
    again = BetweenRounds(moved.request(), moved.progress, kept).rule(agenda)
    after(again, range(cut + 1, 5), clients)
    assert again.progress == whole.progress
    for mine, theirs in zip(again.merged().parts, whole.merged().parts, strict=True):
        np.testing.assert_allclose(mine.U, theirs.U, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mine.V, theirs.V, rtol=1e-9, atol=1e-12)
