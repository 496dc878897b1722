"""The laws of every detector, kept by one with patterns, whatever its rule."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Detector, FixedThreshold, HiddenLayer, checks
from elmgrove.algebra.kmeans import cluster
from elmgrove.detector.patterns import PatternRule
from support.factories import trained
from support.laws import law_examples
from support.literal import sequential_clustering
from support.patterns import INPUTS, mixed, rows_of

RULES = {
    "one": PatternRule(1),
    "two": PatternRule(2, start_rows=30),
    "auto": PatternRule(),
    "auto, soon": PatternRule(start_rows=40),
    "auto, joining": PatternRule(start_rows=10, join=0.5),
}


def make(rule: PatternRule, activation: str = "identity", **options: Any) -> Detector:
    layer = HiddenLayer(8, 6 if activation == "relu" else 4, activation)
    return Detector(layer, patterns=rule, **options)


@pytest.mark.combinations
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_all_laws_hold(rule: PatternRule) -> None:
    assert len(checks.run(lambda: make(rule))) == len(checks.LAWS)


@pytest.mark.combinations
@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu"])
@pytest.mark.parametrize("name", ["one", "two", "auto"])
def test_all_laws_hold_with_any_activation(name: str, activation: str) -> None:
    assert len(checks.run(lambda: make(RULES[name], activation))) == len(checks.LAWS)


LAYER = HiddenLayer(INPUTS, 3, seed=4)
SEEDS = st.integers(0, 2**32 - 1)
SETTINGS = st.fixed_dictionaries(
    {
        "patterns": st.builds(
            PatternRule,
            patterns=st.sampled_from(["auto", 1, 2, 3]),
            start_rows=st.sampled_from([20, 100]),
            join=st.sampled_from([0.0, 0.1, 0.5]),
        ),
    }
)


def stream(seed: int) -> np.ndarray:
    """Two patterns, then for long only one of them: something joins."""
    return np.vstack([mixed(seed, 150), rows_of(0, seed, 300), mixed(seed + 1, 150)])


def require_alike(one: Detector, other: Detector) -> None:
    assert [p.number for p in one.model.own] == [p.number for p in other.model.own]
    assert one.learned == other.learned == sum(part.learned for part in one.parts)
    for mine, theirs in zip(one.parts, other.parts, strict=True):
        assert (mine.number, mine.learned) == (theirs.number, theirs.learned)
        assert mine.evidence.close_to(theirs.evidence)
    for here, there in zip(one.model.own, other.model.own, strict=True):
        np.testing.assert_allclose(here.centroid, there.centroid, rtol=1e-9, atol=1e-12)
    rows = mixed(99, 40, 3)
    np.testing.assert_allclose(one.score_many(rows), other.score_many(rows), rtol=1e-6)


@settings(max_examples=law_examples(25), deadline=None)
@given(SETTINGS, SEEDS, st.lists(st.integers(0, 600), max_size=4))
def test_learning_many_equals_one_by_one_equals_observing(
    options: dict[str, Any], seed: int, cuts: list[int]
) -> None:
    single, chunked, watching = (
        Detector(LAYER, threshold=FixedThreshold(9e9), **options) for _ in range(3)
    )
    X = stream(seed)
    for row in X:
        single.learn_one(row)
        assert watching.observe(row).learned
    for chunk in np.split(X, sorted(cuts)):
        chunked.learn_many(chunk)
    require_alike(single, chunked)
    require_alike(single, watching)


@settings(max_examples=law_examples(25), deadline=None)
@given(SETTINGS, SEEDS)
def test_each_row_is_counted_once(options: dict[str, Any], seed: int) -> None:
    """Whatever came or was joined: the sum is that of all rows."""
    X = stream(seed)
    known = trained(Detector(LAYER, **options), X)
    H = LAYER(X)
    assert known.evidence.count == known.learned == len(X)
    np.testing.assert_allclose(known.evidence.U, H.T @ H, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(known.evidence.V, H.T @ X, rtol=1e-9, atol=1e-9)
    totals = [one.total for p in known.model.own for one in (p, *p.joined)]
    np.testing.assert_allclose(np.sum(totals, axis=0), X.sum(axis=0), rtol=1e-9, atol=1e-9)


@settings(max_examples=law_examples(20), deadline=None)
@given(SEEDS, st.integers(2, 3))
def test_rows_go_where_algorithms_1_and_2_send_them(seed: int, patterns: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(250, INPUTS)) + 3.0 * rng.integers(0, patterns, size=(250, 1))
    known = Detector(LAYER, patterns=PatternRule(start_rows=80, join=0.0, silhouette=0.0))
    known.learn_many(X[:80])
    labels = cluster(X[:80], 5, 0.0).labels
    chosen = sequential_clustering(X[:80], labels, X[80:])
    expected = np.bincount(labels) + np.bincount(chosen, minlength=labels.max() + 1)
    known.learn_many(X[80:])
    assert [pattern.learned for pattern in known.model.own] == expected.tolist()
    for index, pattern in enumerate(known.model.own):
        rows = np.vstack([X[:80][labels == index], X[80:][np.array(chosen) == index]])
        np.testing.assert_allclose(pattern.centroid, rows.mean(axis=0), rtol=1e-9)
        H = LAYER(rows)
        np.testing.assert_allclose(pattern.evidence.U, H.T @ H, rtol=1e-9, atol=1e-9)


@settings(max_examples=law_examples(15), deadline=None)
@given(SETTINGS, SEEDS)
def test_scoring_and_blaming_never_learn(options: dict[str, Any], seed: int) -> None:
    one, twin = (Detector(LAYER, **options) for _ in range(2))
    X = stream(seed)[:200]
    for each in (one, twin):
        each.learn_many(X)
    for row in X[:30]:
        one.score_one(row)
        one.blame(row)
    one.score_many(X)
    assert one.parts == twin.parts
    assert one.threshold == twin.threshold
