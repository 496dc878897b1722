"""Laws of the detector, for random layers, settings, rows, chunks and splits over devices."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Detector, FalseAlarmRate, HiddenLayer, PatternRule, Scaling
from support.laws import law_examples

INPUTS = 8
SCALING = Scaling.minmax([-2.0] * INPUTS, [3.0] * INPUTS)
SEEDS = st.integers(0, 2**32 - 1)
LAYERS = st.builds(
    HiddenLayer,
    st.just(INPUTS),
    st.integers(1, 6),
    st.sampled_from(["identity", "sigmoid", "relu", "tanh"]),
    st.sampled_from(["uniform", "binary"]),
    SEEDS,
)
SETTINGS = st.fixed_dictionaries(
    {
        "layer": LAYERS,
        "ridge": st.sampled_from([1e-3, 1e-2, 1.0]),
        "scaling": st.sampled_from([None, SCALING]),
        "loss": st.booleans(),
    }
)
SOON = FalseAlarmRate(0.05, confidence=0)


def made(setting: dict[str, Any], **others: Any) -> Detector:
    """By distance where the layer allows, unless the loss is asked for."""
    known = {name: value for name, value in setting.items() if name != "loss"}
    return Detector(**known, score="loss" if setting["loss"] else None, **others)


FORGETTING = st.sampled_from([1.0, 0.999, 0.97])


def rows(seed: int, count: int) -> np.ndarray:
    """Rows that two hidden numbers explain in part."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(2, INPUTS))
    return rng.normal(size=(count, 2)) @ mixing + 0.3 * rng.normal(size=(count, INPUTS))


def close(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    """Equal to a share of the largest."""
    return bool(np.abs(np.subtract(a, b)).max() <= tolerance * np.abs(a).max())


@settings(max_examples=law_examples(40), deadline=None)
@given(SETTINGS, FORGETTING, SEEDS, st.integers(2, 60), st.integers(1, 20))
def test_a_row_scores_alone_as_in_any_batch(
    setting: dict[str, Any], forgetting: float, seed: int, learned: int, split: int
) -> None:
    detector = made(setting, forgetting=forgetting)
    X = rows(seed, learned + 20)
    for row in X[:learned]:
        detector.learn_one(row)
    unseen = X[learned:]
    alone = [detector.score_one(row) for row in unseen]
    together = detector.score_many(unseen)
    assert close(alone, together)
    halves = [*detector.score_many(unseen[:split]), *detector.score_many(unseen[split:])]
    assert close(halves, together)
    assert len(np.unique(together)) == 20


@settings(max_examples=law_examples(25), deadline=None)
@given(SETTINGS, SEEDS)
def test_scoring_and_blaming_never_learn(setting: dict[str, Any], seed: int) -> None:
    detector, twin = made(setting, threshold=SOON), made(setting, threshold=SOON)
    X = rows(seed, 150)
    for each in (detector, twin):
        for row in X[:120]:
            each.observe(row)
    threshold = detector.threshold
    for row in X[120:]:
        detector.score_one(row)
        detector.blame(row)
    detector.score_many(X)
    # Who asks for a score gets one by all rows, and so does the next row that is observed.
    twin.score_one(X[0])
    assert detector.evidence == twin.evidence
    assert detector.learned == twin.learned
    assert detector.threshold == threshold
    here, there = ([each.observe(row) for row in X[120:]] for each in (detector, twin))
    assert close([verdict.score for verdict in here], [verdict.score for verdict in there])
    assert [verdict.learned for verdict in here] == [verdict.learned for verdict in there]


@settings(max_examples=law_examples(40), deadline=None)
@given(SETTINGS, FORGETTING, SEEDS, st.lists(st.integers(0, 130), max_size=5))
def test_learning_many_equals_learning_one_by_one(
    setting: dict[str, Any], forgetting: float, seed: int, cuts: list[int]
) -> None:
    X = rows(seed, 150)
    single, chunked, whole = (
        made(setting, forgetting=forgetting, threshold=SOON) for _ in range(3)
    )
    for row in X[:130]:
        single.learn_one(row)
    for chunk in np.split(X[:130], sorted(cuts)):
        chunked.learn_many(chunk)
    whole.learn_many(X[:130])
    assert chunked.evidence.close_to(single.evidence)
    assert close(chunked.score_many(X), single.score_many(X))
    assert chunked.learned == single.learned == 130
    np.testing.assert_array_equal(chunked.gate.recent.rows, single.gate.recent.rows)
    assert chunked.state == single.state == "watching"
    for name in ("clock", "accepted", "nearly_missed", "stride"):
        assert getattr(chunked.gate.recent, name) == getattr(single.gate.recent, name)
    if chunked.basis.score == "distance":
        # In bulk, scores are by a model that may be older; how old does not depend on the cuts.
        assert chunked.threshold == pytest.approx(whole.threshold, rel=1e-9)


@settings(max_examples=law_examples(30), deadline=None)
@given(SETTINGS, FORGETTING, SEEDS)
def test_observing_equals_learning_the_rows_that_were_not_anomalous(
    setting: dict[str, Any], forgetting: float, seed: int
) -> None:
    X = rows(seed, 200)
    X[100::9] *= 20.0
    watching = made(setting, forgetting=forgetting, threshold=SOON)
    accepted = [row for row in X if watching.observe(row).learned]
    taught = made(setting, forgetting=forgetting)
    taught.learn_many(accepted)
    assert 0 < len(accepted) < len(X)
    assert watching.evidence.close_to(taught.evidence)
    assert close(watching.score_many(X), taught.score_many(X))


@settings(max_examples=law_examples(40), deadline=None)
@given(
    SETTINGS,
    SEEDS,
    st.lists(st.integers(0, 200), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
def test_merging_equals_having_learned_the_rows_of_all(
    setting: dict[str, Any], seed: int, cuts: list[int], random: Any
) -> None:
    X = rows(seed, 220)
    central = made(setting)
    central.learn_many(X[:200])
    parts = np.split(X[:200], sorted(cuts))
    random.shuffle(parts)
    devices = []
    for part in parts:
        device = made(setting)
        device.learn_many(part)
        devices.append(device)
    contributions = [device.evidence for device in devices]
    for own, device in enumerate(devices):
        order = [other for other in range(len(devices)) if other != own]
        random.shuffle(order)
        for other in order:
            device.merge(contributions[other])
        assert close(device.score_many(X), central.score_many(X))
        assert device.evidence == contributions[own]


@settings(max_examples=law_examples(30), deadline=None)
@given(SETTINGS, FORGETTING, SEEDS, st.integers(1, 100), st.integers(1, 100))
def test_merging_then_subtracting_gives_the_detector_back(
    setting: dict[str, Any], forgetting: float, seed: int, first: int, second: int
) -> None:
    X = rows(seed, 120)
    detector = made(setting, forgetting=forgetting, threshold=SOON)
    detector.learn_many(X)
    scores, threshold = detector.score_many(X), detector.threshold
    others = []
    for count in (first, second):
        other = made(setting)
        other.learn_many(rows(seed + count, count))
        others.append(other.evidence)
        detector.merge(other.evidence)
    for other in others:
        detector.subtract(other)
    # Row by row first: that way and the one of batches keep their inverses apart.
    assert close([detector.score_one(row) for row in X], scores)
    assert close(detector.score_many(X), scores)
    assert detector.threshold == pytest.approx(threshold, rel=1e-9)


@settings(max_examples=law_examples(25), deadline=None)
@given(LAYERS, st.sampled_from([1e-3, 1.0]), FORGETTING, SEEDS)
def test_the_threshold_comes_from_models_that_never_saw_the_row_they_judge(
    layer: HiddenLayer, ridge: float, forgetting: float, seed: int
) -> None:
    X = rows(seed, 96)
    detector = Detector(layer, score="loss", ridge=ridge, forgetting=forgetting, threshold=SOON)
    for row in X:
        detector.learn_one(row)
    H, scores = layer(X), []
    for row in range(96):
        W = (forgetting ** np.arange(row - 1, -1, -1.0))[:, np.newaxis] * H[:row]
        beta = np.linalg.solve(W.T @ H[:row] + ridge * np.eye(layer.units), W.T @ X[:row])
        scores.append(np.mean((X[row] - H[row] @ beta) ** 2))
    # The younger half counts. 5 % of 48 + 1 rows are 2.45, and with a margin of √2.45 half of that;
    # the margin is a factor of 1.35 at most.
    *_, second, largest = sorted(scores[48:])
    assert detector.threshold == pytest.approx(min(largest, 1.35 * second), rel=1e-6)


@settings(max_examples=law_examples(25), deadline=None)
@given(LAYERS, SEEDS)
def test_a_scaling_is_the_same_as_rows_scaled_beforehand(layer: HiddenLayer, seed: int) -> None:
    X = rows(seed, 220)
    # A distance knows how far scaled columns may be expected to move.
    inside = Detector(layer, scaling=SCALING, score="loss", threshold=SOON)
    outside = Detector(layer, score="loss", threshold=SOON)
    scaled = (X + 2.0) / 5.0
    here = [inside.observe(row) for row in X[:200]]
    there = [outside.observe(row) for row in scaled[:200]]
    assert close([verdict.score for verdict in here], [verdict.score for verdict in there])
    assert [verdict.anomalous for verdict in here] == [verdict.anomalous for verdict in there]
    assert close(inside.score_many(X), outside.score_many(scaled))
    assert inside.threshold == pytest.approx(outside.threshold, rel=1e-8)


@settings(max_examples=law_examples(40), deadline=None)
@given(
    SETTINGS,
    st.sampled_from([1, 3]),
    st.sampled_from([None, PatternRule(start_rows=60)]),
    FORGETTING,
    SEEDS,
    st.lists(st.integers(0, 330), max_size=6),
)
def test_observing_many_gives_the_verdicts_of_observing_one_by_one(
    setting: dict[str, Any],
    window: int,
    patterns: PatternRule | None,
    forgetting: float,
    seed: int,
    cuts: list[int],
) -> None:
    """Also where anomalous rows come, and events begin and end among them."""
    X = rows(seed, 330)
    X[150:170] += 30.0
    X[250::9] *= 15.0
    options: dict[str, Any] = {"window": window, "patterns": patterns}
    if patterns is None:
        options["forgetting"] = forgetting
    options |= {"threshold": SOON, "quarantine": 7}
    single, together = made(setting, **options), made(setting, **options)
    one_by_one = [single.observe(row) for row in X]
    at_once = [
        verdict for chunk in np.split(X, sorted(cuts)) for verdict in together.observe_many(chunk)
    ]
    assert len(at_once) == len(one_by_one)
    for mine, theirs in zip(one_by_one, at_once, strict=True):
        assert mine.score == pytest.approx(theirs.score, rel=1e-7, abs=1e-12)
        assert mine.threshold == pytest.approx(theirs.threshold, rel=1e-7)
        for name in ("anomalous", "learned", "alarm", "state", "pattern", "flagged"):
            assert getattr(mine, name) == getattr(theirs, name), name
        np.testing.assert_array_equal(mine.row, theirs.row)
    assert any(verdict.anomalous for verdict in at_once)
    assert together.evidence.close_to(single.evidence)
