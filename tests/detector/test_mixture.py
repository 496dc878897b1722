"""Models side by side: what others know finds its place among them, and counts less."""

from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, Evidence, HiddenLayer, Mismatch, NotAdmissible
from elmgrove.algebra.crossval import typical_loss
from elmgrove.detector.mixture.mixture import Mixture
from elmgrove.detector.mixture.own import TUNE_EVERY
from elmgrove.detector.mixture.pattern import PatternRule
from elmgrove.detector.mixture.received import Place
from elmgrove.errors import BadInput
from support.patterns import INPUTS, mixed, rows_of

LAYER = HiddenLayer(INPUTS, 3, seed=6)
BASIS = Basis(LAYER, INPUTS)


def mixture(dtype: Any = np.float64, **rule: Any) -> Mixture:
    rule = {"start_rows": 60, "join": 0.1, **rule}
    return Mixture(BASIS, PatternRule(**rule), ridge=1e-3, forgetting=1.0, dtype=dtype)


def taught(**options: Any) -> Mixture:
    made = mixture(**options)
    X = mixed(1, 200).astype(made.dtype)
    made.learn_all(X)
    return made


def evidence(pattern: int, seed: int = 50, count: int = 150) -> Evidence:
    X = rows_of(pattern, seed, count)
    H = LAYER(X)
    return Evidence(BASIS, H.T @ H, H.T @ X, float(np.square(X).sum()), count)


def winners_of(known: Mixture, rows: np.ndarray) -> list[int]:
    """The number of the pattern that explains each row best."""
    return [known.explainer(row)[0] for row in rows]


def number_of(known: Mixture, pattern: int) -> int:
    """The number of the pattern that explains rows of this one."""
    winners = winners_of(known, rows_of(pattern, 60, 20))
    assert len(set(winners)) == 1
    return winners[0]


def test_what_is_of_an_own_pattern_makes_that_pattern_better() -> None:
    known = taught()
    number = number_of(known, 1)
    known.rest_on([evidence(1)])
    assert known.places == [Place((0,), number)]
    assert not known.foreign
    (pattern,) = (p for p in known.own if p.number == number)
    assert pattern.model.total == pattern.model.evidence + evidence(1)
    others = [p.model.prior for p in known.own if p is not pattern]
    assert others == [None]


def test_what_is_of_no_own_pattern_is_a_foreign_model_with_a_handicap() -> None:
    known = taught(handicap=1.5)
    rows = rows_of(2, 9, 30)
    before = known.losses(rows)
    known.rest_on([evidence(2)])
    (foreign,) = known.foreign
    assert foreign.total == evidence(2)
    normal = mixed(1, 200)
    known.settle(normal)
    assert known.edge == pytest.approx(known.left_out(normal).max(), rel=1e-9)
    weight = 1.5 * known.edge / typical_loss(evidence(2), 1e-3)
    expected = np.minimum(before, weight * foreign.losses(rows))
    np.testing.assert_allclose(known.losses(rows), expected, rtol=1e-9)
    np.testing.assert_allclose([known.loss_one(row) for row in rows], expected, rtol=1e-6)
    assert number_of(known, 2) == -1
    assert known.explainer(rows[0]) == (-1, foreign)
    answer = known.answer(rows[0])
    assert (answer.pattern, answer.weight) == (-1, pytest.approx(weight))


def test_before_anything_is_known_to_be_normal_and_without_handicap_foreign_models_are_equals() -> (
    None
):
    known, equal = taught(handicap=1.5), taught(handicap=0.0)
    level = np.mean([pattern.typical for pattern in known.own])
    for each in (known, equal):
        each.rest_on([evidence(2)])
    equal.settle(mixed(1, 200))
    for each in (known, equal):
        answer = each.answer(rows_of(2, 9, 1)[0])
        assert answer.weight == pytest.approx(level / typical_loss(evidence(2), 1e-3))


def test_errors_count_in_proportion_to_what_is_typical_of_a_pattern() -> None:
    known = taught()
    first, second = known.own
    first.typical, second.typical = 1.0, 3.0
    known.rest_on([])
    rows = mixed(5, 20)
    raw = np.stack([first.model.losses(rows), second.model.losses(rows)])
    expected = np.minimum(2.0 * raw[0], 2.0 / 3.0 * raw[1])
    np.testing.assert_allclose(known.losses(rows), expected, rtol=1e-12)
    second.typical = np.inf
    known.rest_on([])
    np.testing.assert_allclose(known.losses(rows), raw.min(axis=0), rtol=1e-12)


def test_foreign_models_never_learn() -> None:
    known = taught()
    known.rest_on([evidence(2)])
    X = rows_of(2, 3, 20)
    learned = [pattern.learned for pattern in known.own]
    for x in X:
        known.keep(known.answer(x), x, float(x @ x))
    assert known.foreign[0].evidence.count == 0
    assert sum(p.learned for p in known.own) == sum(learned) + 20


def test_what_is_of_one_pattern_becomes_one_model() -> None:
    known = taught()
    parts = [evidence(2, 1), evidence(3, 1), evidence(2, 2), evidence(0, 1), evidence(3, 2)]
    known.rest_on(parts)
    assert known.places == [
        Place((0, 2), None),
        Place((1, 4), None),
        Place((3,), number_of(known, 0)),
    ]
    assert [m.total for m in known.foreign] == [parts[0] + parts[2], parts[1] + parts[4]]
    assert known.received == Evidence.sum(parts)


def test_what_was_received_never_shows_in_what_is_given() -> None:
    known, alone = taught(), taught()
    known.rest_on([evidence(pattern) for pattern in range(4)])
    assert known.parts == alone.parts
    X = mixed(5, 2 * TUNE_EVERY)
    for each in (known, alone):
        each.learn_all(X)
    assert known.parts == alone.parts
    known.rest_on([])
    rows = mixed(6, 30, 3)
    np.testing.assert_array_equal(known.losses(rows), alone.losses(rows))


def test_a_mixture_without_rows_takes_all_as_foreign_and_finds_its_own_later() -> None:
    known = mixture(silhouette=0.5)
    known.rest_on([evidence(0), evidence(1)])
    assert len(known.foreign) == 2
    X = mixed(1, 2 * TUNE_EVERY)
    known.learn_all(X)
    assert not known.foreign
    assert {place.number for place in known.places} == {p.number for p in known.own}


def test_evidence_of_no_rows_is_no_model() -> None:
    known, alone = taught(), taught()
    known.rest_on([Evidence.zero(BASIS), evidence(2)])
    assert known.places == [Place((1,), None)]
    alone.rest_on([evidence(2)])
    nothing = np.zeros((1, INPUTS))
    assert known.losses(nothing) == alone.losses(nothing)


REFUSED = {
    "another basis": (
        Evidence.zero(Basis(HiddenLayer(INPUTS, 3, seed=7), INPUTS)),
        Mismatch,
    ),
    "a lie": (Evidence(BASIS, np.eye(3), np.ones((3, INPUTS)), 0.0, 9), NotAdmissible),
    "beyond the range": (
        Evidence(BASIS, np.eye(3) * 1e39, np.zeros((3, INPUTS)), 1e39, 9),
        BadInput,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_changes_nothing(name: str) -> None:
    lie, error = REFUSED[name]
    known = taught(dtype=np.float32)
    known.rest_on([evidence(0), evidence(2)])
    rows = mixed(4, 30, 3).astype(np.float32)
    before = known.received, known.places, known.losses(rows)
    with pytest.raises(error):
        known.rest_on([evidence(1), lie])
    assert (known.received, known.places) == before[:2]
    np.testing.assert_array_equal(known.losses(rows), before[2])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_row_by_row_and_in_batches_the_same_model_wins(dtype: Any) -> None:
    known = taught(dtype=dtype)
    known.rest_on([evidence(2)])
    rows = mixed(8, 60, 3).astype(dtype)
    single = [float(np.square(row - known.answer(row).y).sum()) for row in rows]
    np.testing.assert_allclose(single, known.plain_losses(rows), rtol=1e-2)
    np.testing.assert_allclose([known.loss_one(row) for row in rows], known.losses(rows), rtol=1e-2)


def test_a_trial_knows_nothing_but_its_rows() -> None:
    known = taught()
    made = known.trial(rows_of(4, 1, 30))
    assert made.total.close_to(evidence(4, 1, 30))
    assert known.evidence.count == 200
