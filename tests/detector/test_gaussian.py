"""One Gaussian of all normal rows: learned in any way, merged, forgotten, saved, left out."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, HiddenLayer, Mismatch, NotAdmissible, Scaling
from elmgrove.detector.gaussian import Gaussian
from support.laws import law_examples

INPUTS = 6
BASES = {
    "all units": Basis(HiddenLayer(INPUTS, INPUTS), INPUTS, score="distance"),
    "few units": Basis(HiddenLayer(INPUTS, 2, seed=3), INPUTS, score="distance"),
    "scaled": Basis(
        HiddenLayer(INPUTS, INPUTS),
        INPUTS,
        scaling=Scaling.standard([1.0] * INPUTS, [2.0] * INPUTS),
        score="distance",
    ),
    "window": Basis(HiddenLayer(2, INPUTS), INPUTS, window=3, score="distance"),
}
EACH = pytest.mark.parametrize("name", BASES)
FORGETTING = pytest.mark.parametrize("forgetting", [1.0, 0.99])
SEEDS = st.integers(0, 2**32 - 1)


def rows(seed: int, count: int, offset: float = 0.0) -> np.ndarray:
    rng, mixing = np.random.default_rng(seed), np.random.default_rng(0).normal(size=(2, INPUTS))
    return offset + rng.normal(size=(count, 2)) @ mixing + 0.2 * rng.normal(size=(count, INPUTS))


def trained_model(name: str, X: np.ndarray, **options: Any) -> Gaussian:
    model = Gaussian(BASES[name], **options)
    model.learn_all(X)
    return model


# Learning


@EACH
@settings(max_examples=law_examples(20), deadline=None)
@given(
    st.sampled_from([1.0, 0.99]),
    SEEDS,
    st.lists(st.tuples(st.integers(0, 600), st.booleans()), max_size=5),
)
def test_learning_many_equals_learning_each_in_any_mixture(
    name: str, forgetting: float, seed: int, cuts: list[tuple[int, bool]]
) -> None:
    X = rows(seed, 600, offset=3.0)
    whole, pieces = (
        trained_model(name, X, forgetting=forgetting),
        Gaussian(BASES[name], forgetting=forgetting),
    )
    start = 0
    for end, one_by_one in [*sorted(cuts), (600, True)]:
        if one_by_one:
            for x in X[start:end]:
                pieces.keep(pieces.answer(x), x)
        else:
            pieces.learn_all(X[start:end])
        start = max(start, end)
    assert pieces.learned == whole.learned == 600
    assert pieces.evidence.close_to(whole.evidence)
    np.testing.assert_allclose(pieces.scores(X), whole.scores(X), rtol=1e-7)


@EACH
def test_who_asks_gets_a_score_by_all_rows_and_observing_one_by_most(name: str) -> None:
    X = rows(1, 1000)
    model = trained_model(name, X[:900])
    older = model.answer(X[900])
    for x in X[900:]:
        answer = model.answer(x)
        model.keep(answer, x)
    asked = model.score_one(X[900])
    assert asked == pytest.approx(trained_model(name, X).score_one(X[900]), rel=1e-9)
    assert asked == pytest.approx(older.score, rel=0.1)
    assert asked != older.score


@pytest.mark.combinations
@EACH
@FORGETTING
@pytest.mark.parametrize("bulk", [0, 5])
@pytest.mark.parametrize("cut", [1, 7, 100, 333, 599])
def test_a_model_that_was_packed_goes_on_to_the_last_bit(
    name: str, forgetting: float, cut: int, bulk: int
) -> None:
    X = rows(2, 900, offset=5.0)
    model = Gaussian(BASES[name], forgetting=forgetting)
    for x in X[:cut]:
        model.keep(model.answer(x), x)
    if bulk:
        model.learn_all(X[cut - bulk : cut])
    fields, arrays = model.pack()
    again = Gaussian(BASES[name], forgetting=forgetting)
    again.restore(json.loads(json.dumps(fields)) | {"learned": model.learned}, arrays, [])
    for x in X[cut:]:
        mine, theirs = model.answer(x), again.answer(x)
        assert mine.score == theirs.score
        model.keep(mine, x)
        again.keep(theirs, x)
    assert again.evidence == model.evidence
    assert again.learned == model.learned


@pytest.mark.parametrize("name", ["all units", "few units"])
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_rows_far_from_0_keep_their_digits_when_saved_merged_and_received(
    name: str, offset: float
) -> None:
    X = rows(4, 500, offset)
    model = trained_model(name, X)
    expected = model.scores(X)
    near = trained_model(name, X - offset)
    np.testing.assert_allclose(expected, near.scores(X - offset), rtol=1e-4)
    restored, merged, rests = (Gaussian(BASES[name]) for _ in range(3))
    fields, arrays = model.pack()
    restored.restore(fields | {"learned": 500}, arrays, [])
    merged.merge(model.evidence)
    rests.set_prior([model.evidence])
    for other in (restored, merged, rests):
        np.testing.assert_allclose(other.scores(X), expected, rtol=1e-9)


# Left out


@pytest.mark.combinations
@EACH
@FORGETTING
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_left_out_scores_are_those_of_a_model_that_never_saw_the_block(
    name: str, forgetting: float, offset: float
) -> None:
    X = rows(5, 130, offset)
    model = trained_model(name, X, forgetting=forgetting)
    last = X[30:]
    scores = model.left_out(last)
    around = BASES[name].window - 1
    for start in range(0, 100, 20):
        gone = np.arange(30 + max(start - around, 0), 30 + min(start + 20 + around, 100))
        kept = np.delete(np.arange(130), gone)
        rest = Gaussian(BASES[name])
        for index in kept:
            # A row counts φ times less for every later one, left out or not.
            alone = trained_model(name, X[index : index + 1]).evidence
            rest.merge(alone.weighted(forgetting ** (129 - index)))
        np.testing.assert_allclose(
            scores[start : start + 20], rest.scores(last[start : start + 20]), rtol=1e-5
        )


# Cooperation


@EACH
@settings(max_examples=law_examples(15), deadline=None)
@given(SEEDS, st.integers(1, 199))
def test_merged_is_the_distance_of_all_rows_in_one_place(name: str, seed: int, cut: int) -> None:
    X = rows(seed, 200, offset=2.0)
    central = trained_model(name, X)
    here, there = trained_model(name, X[:cut]), trained_model(name, X[cut:])
    own = here.evidence
    here.set_prior([there.evidence])
    np.testing.assert_allclose(here.scores(X), central.scores(X), rtol=1e-7)
    assert here.evidence == own
    here.set_prior([])
    np.testing.assert_allclose(here.scores(X), trained_model(name, X[:cut]).scores(X), rtol=1e-6)
    assert here.total.count == cut


@EACH
def test_what_does_not_fit_is_refused_and_changes_nothing(name: str) -> None:
    model = trained_model(name, rows(9, 100))
    before = model.scores(rows(10, 20))
    other = Gaussian(
        Basis(HiddenLayer(INPUTS, INPUTS), INPUTS, ("a", "b", "c", "d", "e", "f"), score="distance")
    )
    other.learn_all(rows(11, 50))
    lie = model.evidence.weighted(-0.5)
    for refused, error in ((other.evidence, Mismatch), (lie, NotAdmissible)):
        for attempt in (model.merge, lambda part: model.set_prior([part])):
            with pytest.raises(error):
                attempt(refused)
    np.testing.assert_array_equal(model.scores(rows(10, 20)), before)


# Forgetting, dtype and settings
