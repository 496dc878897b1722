"""MLMG's Algorithm 3 on a device: a group's model answers instead of the patterns in it."""

from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.detector.gaussian import single_model
from elmgrove.detector.mixture import Mixture, Place
from elmgrove.detector.patterns import Matching, PatternRule
from elmgrove.errors import BadInput
from support.laws import law_examples
from support.patterns import INPUTS, mixed, rows_of

BASES = {
    score: Basis(HiddenLayer(INPUTS, 3, seed=6), INPUTS, score=score)
    for score in ("loss", "distance")
}
SCORES = pytest.mark.parametrize("score", BASES)
ROWS = mixed(9, 60, 5)


def made(score: str, **rule: Any) -> Mixture:
    rule = {"patterns": 3, "start_rows": 60, "compare": "raw", "others": "instead", **rule}
    return Mixture(BASES[score], PatternRule(**rule), ridge=1e-3, forgetting=1.0)


def trained_mixture(score: str, **rule: Any) -> Mixture:
    known = made(score, **rule)
    known.learn_all(mixed(1, 300, 3))
    return known


def evidence(score: str, pattern: int) -> Evidence:
    model = single_model(BASES[score])
    model.learn_all(rows_of(pattern, 50, 150))
    return model.evidence


def lowest(score: str, models: list[Evidence]) -> np.ndarray:
    found = []
    for known in models:
        model = single_model(BASES[score])
        model.use_prior(known)
        found.append(model.scores(ROWS))
    return np.min(found, axis=0)


@SCORES
def test_what_no_own_pattern_is_like_is_not_used(score: str) -> None:
    known, alone = trained_mixture(score, join=1.0), trained_mixture(score, join=1.0)
    known.set_prior([evidence(score, 4)])
    assert (known.places, known.foreign) == ([], [])
    np.testing.assert_array_equal(known.scores(ROWS), alone.scores(ROWS))
    known.set_prior([evidence(score, 4), evidence(score, 1)])
    assert [place.received for place in known.places] == [(1,)]
    assert known.received == evidence(score, 4) + evidence(score, 1)


@st.composite
def matchings(draw: st.DrawFn) -> tuple[Matching, int]:
    """Three patterns in any groups, of which some are those of received parts, and some kept."""
    parts = draw(st.integers(0, 3))
    groups = draw(st.lists(st.integers(0, 4), min_size=3, max_size=3))
    # Numbers beyond the parts stand for groups of nobody else, in the order in which they come.
    beyond, named = count(parts), dict[int, int]()
    places = [one if one < parts else named.setdefault(one, next(beyond)) for one in groups]
    kept = tuple(sorted(draw(st.sets(st.integers(1, 3)))))
    return Matching(tuple(zip((1, 2, 3), places, strict=True)), kept), parts


def literally(known: Mixture, parts: list[Evidence], matching: Matching) -> list[Evidence]:
    """The models that answer: of each group that came or replaces a pattern, and what is kept."""
    own = {part.number: part.evidence for part in known.parts}
    models = [own[number] for number in matching.kept]
    for place in {*range(len(parts)), *(group for _, group in matching.groups)}:
        members = [own[number] for number, group in matching.groups if group == place]
        models.append(Evidence.sum([*parts[place : place + 1], *members]))
    return models


@SCORES
@settings(max_examples=law_examples(25), deadline=None)
@given(told=matchings(), more=st.integers(0, 40))
def test_the_models_of_groups_answer_whatever_is_learned_later(
    score: str, told: tuple[Matching, int], more: int
) -> None:
    matching, number = told
    parts = [evidence(score, pattern) for pattern in range(number)]
    known, alone = trained_mixture(score), trained_mixture(score)
    known.set_prior(parts, matching)
    for row in mixed(3, more, 3):
        for each in (known, alone):
            each.learn_all(row[np.newaxis])
    expected = lowest(score, literally(known, parts, matching))
    np.testing.assert_allclose(known.scores(ROWS), expected, rtol=1e-6, atol=1e-9)
    assert known.parts == alone.parts, "what is given away is one's own"
    again = made(score)
    fields, arrays = known.pack()
    again.restore(fields | {"learned": known.learned}, arrays, parts)
    assert again.pack()[0] == fields
    np.testing.assert_allclose(again.scores(ROWS), known.scores(ROWS), rtol=1e-9)
    known.set_prior([])
    np.testing.assert_array_equal(known.scores(ROWS), alone.scores(ROWS))


@SCORES
def test_of_a_pattern_that_was_put_aside_or_joined_the_group_finds_who_has_its_rows(
    score: str,
) -> None:
    known = trained_mixture(score)
    matching = Matching(((1, 0), (2, 1), (3, 2)))
    known.patterns.retired.append(known.patterns.used.pop(0))
    first, second = known.own
    first.take_in(second)
    known.patterns.used = [first]
    known.set_prior([evidence(score, pattern) for pattern in range(3)], matching)
    assert known.places == [Place((1,), 2), Place((2,), 2)]
    assert not known.foreign


@SCORES
def test_beside_ones_own_a_matching_means_nothing(score: str) -> None:
    known, plain = (trained_mixture(score, others="beside") for _ in range(2))
    known.set_prior([evidence(score, 4)], Matching(((1, 0),)))
    plain.set_prior([evidence(score, 4)])
    assert known.pack()[0] == plain.pack()[0]
    np.testing.assert_array_equal(known.scores(ROWS), plain.scores(ROWS))


def test_raw_scores_are_compared_as_they_are_and_may_choose_another_pattern() -> None:
    known, typical = (
        trained_mixture("loss", others="beside"),
        trained_mixture("loss", others="beside", compare="typical"),
    )
    raw = np.stack([pattern.model.scores(ROWS) for pattern in known.own])
    np.testing.assert_allclose(known.scores(ROWS), raw.min(axis=0), rtol=1e-12)
    assert known.answer(ROWS[0]).score == pytest.approx(raw[:, 0].min())
    for each in (known, typical):
        each.own[0].typical = 1e-6 * each.own[1].typical
        each.set_prior([])
    np.testing.assert_allclose(known.scores(ROWS), raw.min(axis=0), rtol=1e-12)
    assert not np.allclose(typical.scores(ROWS), raw.min(axis=0))


@pytest.mark.parametrize(
    "fields",
    [
        {"groups": [[0, 0], [0, 1]], "kept": []},
        {"groups": [[0, 0]], "kept": [1]},
        {"groups": [[0, -1]], "kept": []},
        {"groups": [[0.5, 1]], "kept": []},
    ],
)
def test_what_is_no_matching_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Matching.from_fields(fields)


@pytest.mark.parametrize("wrong", [{"compare": "both"}, {"others": "never"}])
def test_a_rule_knows_its_words(wrong: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="must be one of"):
        PatternRule(**wrong)
