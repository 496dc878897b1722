"""Models side by side: what others know finds its place among them, and counts less."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, Evidence, HiddenLayer, Mismatch, NotAdmissible
from elmgrove.algebra.moments import zero_evidence
from elmgrove.detector.gaussian import single_model, typical_score
from elmgrove.detector.mixture import Mixture
from elmgrove.detector.patterns import TUNE_EVERY, PatternRule
from support.patterns import INPUTS, mixed, rows_of

LAYER = HiddenLayer(INPUTS, 3, seed=6)
BASES = {score: Basis(LAYER, INPUTS, score=score) for score in ("loss", "distance")}
SCORES = pytest.mark.parametrize("score", BASES)
# By distance, two samples of one pattern lie up to half as far again from each other as from
# themselves, and samples of two patterns hundreds of times as far.
JOIN = {"loss": 0.1, "distance": 1.0}


def mixture(score: str, **rule: Any) -> Mixture:
    rule = {"start_rows": 60, "join": JOIN[score], **rule}
    return Mixture(BASES[score], PatternRule(**rule), ridge=1e-3)


def trained_mixture(score: str, **options: Any) -> Mixture:
    made = mixture(score, **options)
    X = mixed(1, 200)
    made.learn_all(X)
    return made


def evidence(score: str, pattern: int, seed: int = 50, count: int = 150) -> Evidence:
    model = single_model(BASES[score])
    model.learn_all(rows_of(pattern, seed, count))
    return model.evidence


def winners_of(known: Mixture, rows: np.ndarray) -> list[int]:
    """The number of the pattern that explains each row best."""
    return [known.answer(row).pattern for row in rows]


def number_of(known: Mixture, pattern: int) -> int:
    """The number of the pattern that explains rows of this one."""
    winners = winners_of(known, rows_of(pattern, 60, 20))
    assert len(set(winners)) == 1
    return winners[0]


@SCORES
def test_what_is_of_an_own_pattern_makes_that_pattern_better(score: str) -> None:
    known = trained_mixture(score)
    number = number_of(known, 1)
    known.set_prior([evidence(score, 1)])
    assert known.places == [number]
    assert not known.foreign
    (pattern,) = (p for p in known.own if p.number == number)
    assert pattern.model.total == pattern.model.evidence + evidence(score, 1)
    (other,) = (p.model for p in known.own if p is not pattern)
    assert other.total == other.evidence


@SCORES
def test_what_is_of_no_own_pattern_is_a_foreign_model_that_counts_as_much(score: str) -> None:
    known = trained_mixture(score)
    rows = rows_of(2, 9, 30)
    before = known.scores(rows)
    level = np.mean([pattern.typical for pattern in known.own])
    known.set_prior([evidence(score, 2)])
    (foreign,) = known.foreign
    assert foreign.total == evidence(score, 2)
    weight = level / typical_score(evidence(score, 2), 1e-3)
    expected = np.minimum(before, weight * foreign.scores(rows))
    np.testing.assert_allclose(known.scores(rows), expected, rtol=1e-9)
    np.testing.assert_allclose([known.score_one(row) for row in rows], expected, rtol=1e-6)
    assert number_of(known, 2) == -1
    assert known.explainer(rows[0]) is foreign.explainer(rows[0])
    answer = known.answer(rows[0])
    assert answer.pattern == -1
    assert answer.score == pytest.approx(weight * foreign.scores(rows[:1])[0])


@SCORES
def test_what_is_of_one_pattern_becomes_one_model(score: str) -> None:
    known = trained_mixture(score)
    parts = [
        evidence(score, 2, 1),
        evidence(score, 3, 1),
        evidence(score, 2, 2),
        evidence(score, 0, 1),
        evidence(score, 3, 2),
    ]
    known.set_prior(parts)
    assert known.places == [None, None, number_of(known, 0)]
    assert [m.total for m in known.foreign] == [parts[0] + parts[2], parts[1] + parts[4]]
    assert known.received == tuple(parts)


@SCORES
def test_what_was_received_never_shows_in_what_is_given(score: str) -> None:
    known, alone = trained_mixture(score), trained_mixture(score)
    known.set_prior([evidence(score, pattern) for pattern in range(4)])
    assert known.parts == alone.parts
    X = mixed(5, 2 * TUNE_EVERY)
    for each in (known, alone):
        each.learn_all(X)
    assert known.parts == alone.parts
    known.set_prior([])
    rows = mixed(6, 30, 3)
    np.testing.assert_array_equal(known.scores(rows), alone.scores(rows))


@SCORES
def test_evidence_of_no_rows_is_no_model(score: str) -> None:
    known, alone = trained_mixture(score), trained_mixture(score)
    known.set_prior([zero_evidence(BASES[score]), evidence(score, 2)])
    assert known.places == [None]
    alone.set_prior([evidence(score, 2)])
    nothing = np.zeros((1, INPUTS))
    assert known.scores(nothing) == alone.scores(nothing)


def lies(score: str) -> dict[str, tuple[Evidence, type[Exception]]]:
    """Evidence that must be refused, and how."""
    honest = evidence(score, 1)
    other = replace(BASES[score], layer=HiddenLayer(INPUTS, 3, seed=7))
    return {
        "another basis": (zero_evidence(other), Mismatch),
        "a lie": (honest.weighted(-0.5), NotAdmissible),
    }


@pytest.mark.parametrize("name", ["another basis", "a lie"])
@SCORES
def test_what_is_refused_changes_nothing(score: str, name: str) -> None:
    lie, error = lies(score)[name]
    known = trained_mixture(score)
    known.set_prior([evidence(score, 0), evidence(score, 2)])
    rows = mixed(4, 30, 3)
    before = known.received, known.places, known.scores(rows)
    with pytest.raises(error):
        known.set_prior([evidence(score, 1), lie])
    assert (known.received, known.places) == before[:2]
    np.testing.assert_array_equal(known.scores(rows), before[2])
