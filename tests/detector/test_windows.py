"""Windows: when they are chosen, what they hold, and a detector that has one."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput, Detector, FalseAlarmRate, HiddenLayer, Verdict
from elmgrove.algebra.basis import MOST_INPUTS
from elmgrove.detector.inputs import Window, choose_window, stacked
from elmgrove.detector.patterns import PatternRule
from elmgrove.detector.replay import ScoredRows
from elmgrove.detector.state import pack_detector, unpack_detector
from support.factories import trained
from support.laws import law_examples

COLUMNS = 3
SOON = FalseAlarmRate(0.01, confidence=0)


def slow(rows: int, seed: int = 0, columns: int = COLUMNS) -> np.ndarray:
    """A time series: each row is much like the one before."""
    rng = np.random.default_rng(seed)
    noise, x = rng.normal(size=(rows, columns)), np.zeros(columns)
    series = np.empty((rows, columns))
    for index, step in enumerate(noise):
        x = 0.9 * x + step
        series[index] = x
    return series


def watching(rows: int = 1500, **settings: Any) -> Detector:
    layer = HiddenLayer(COLUMNS, 30, seed=1)
    detector = Detector(**{"layer": layer, "window": 10, "threshold": SOON, **settings})
    detector.learn_many(slow(rows))
    assert detector.state == "watching"
    return detector


def result(verdict: Verdict) -> tuple[object, ...]:
    return verdict.anomalous, verdict.learned, verdict.alarm, verdict.state, verdict.flagged


# The choice


def test_a_time_series_gets_ten_rows_and_the_reason() -> None:
    table = choose_window(np.random.default_rng(0).normal(size=(1000, 4)))
    assert table.window == 1
    assert "hardly alike" in table.reason
    choice = choose_window(slow(1000))
    assert choice.window == 10
    assert choice.reason.startswith("neighbouring rows are alike (correlation 0.")
    assert choice.reason.endswith("a time series")


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_constant_columns_and_large_offsets_do_not_decide(offset: float) -> None:
    series = slow(500) + offset
    constant = np.full((500, 7), offset + 5.0)
    assert choose_window(np.hstack([series, constant])).window == 10
    assert choose_window(constant).window == 1
    table = np.random.default_rng(0).normal(size=(500, 3)) + offset
    assert choose_window(np.hstack([table, constant])).window == 1


def test_for_data_asks_for_it_unless_told() -> None:
    assert Detector.for_data(slow(500)).basis.window == 10
    assert Detector.for_data(slow(500), window=4).basis.window == 4
    assert Detector.for_data(np.random.default_rng(0).normal(size=(500, 3))).basis.window == 1
    for refused in (0, -1, 2.5, "many"):
        with pytest.raises(BadInput, match="window"):
            Detector.for_data(slow(500), window=refused)


# What a window holds


@settings(max_examples=law_examples(60), deadline=None)
@given(
    st.integers(1, 12),
    st.integers(0, 700),
    st.lists(st.tuples(st.integers(0, 700), st.booleans()), max_size=6),
)
def test_any_split_over_add_and_add_many_gives_the_same_inputs(
    size: int, count: int, cuts: list[tuple[int, bool]]
) -> None:
    X = np.arange(count * 2.0).reshape(count, 2)
    window, inputs = Window(size, 2), list[np.ndarray]()
    places = sorted((min(place, count), one_by_one) for place, one_by_one in cuts)
    start = 0
    for end, one_by_one in [*places, (count, True)]:
        chunk, start = X[start:end], end
        if one_by_one:
            inputs += [made.copy() for row in chunk if (made := window.add(row)) is not None]
        else:
            inputs += list(window.add_many(chunk))
    expected = [X[end - size : end].reshape(-1) for end in range(size, count + 1)]
    assert len(inputs) == len(expected)
    assert all((a == b).all() for a, b in zip(inputs, expected, strict=True))
    np.testing.assert_array_equal(window.tail, X[count - min(count, size - 1) :])
    assert len(window) == min(count, size - 1)


@given(st.integers(1, 6), st.integers(0, 20))
def test_stacked_sets_each_row_and_those_before_side_by_side(size: int, count: int) -> None:
    X = np.arange(count * 3.0).reshape(count, 3)
    expected = [X[end - size : end].reshape(-1) for end in range(size, count + 1)]
    assert stacked(X, size).tolist() == [row.tolist() for row in expected]
    assert stacked(X, size).shape[1] == 3 * size


# A detector with a window

SETTINGS: dict[str, dict[str, Any]] = {
    "distance": {},
    "few units": {"layer": HiddenLayer(COLUMNS, 6, seed=1)},
    "loss": {"score": "loss", "layer": HiddenLayer(COLUMNS, 6, seed=1)},
    "tanh": {"layer": HiddenLayer(COLUMNS, 6, "tanh", seed=1)},
    "forgetting": {"forgetting": 0.99},
    "patterns": {"patterns": PatternRule(start_rows=100)},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_learning_many_equals_a_loop_and_gaps_are_left_out(name: str) -> None:
    options = {"layer": HiddenLayer(COLUMNS, 30, seed=1), "window": 10, **SETTINGS[name]}
    single, many = Detector(**options), Detector(**options)
    X = slow(300)
    for start, end in ((0, 120), (120, 125), (125, 300)):
        for row in X[start:end]:
            single.learn_one(row)
        for chunk in np.split(X[start:end], [1, 3, 40]):
            many.learn_many(chunk)
        for each in (single, many):
            each.interrupt()
    # The second stretch completes no window at all.
    assert many.learned == single.learned == 300 - 9 - 5 - 9
    assert many.evidence.close_to(single.evidence, 1e-9)
    if name not in ("forgetting", "patterns"):
        inputs = np.vstack([stacked(X[:120], 10), stacked(X[125:], 10)])
        plain = trained(Detector(many.basis.hidden, score=many.basis.score), inputs)
        for mine, theirs in zip(
            many.evidence.arrays.values(), plain.evidence.arrays.values(), strict=True
        ):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SETTINGS)
def test_after_a_gap_rows_have_a_score_but_are_neither_judged_nor_learned(name: str) -> None:
    detector = watching(**SETTINGS[name])
    learned, seen, recent = detector.learned, detector.progress.seen, detector.gate.recent.clock
    detector.interrupt()
    X = slow(30, seed=5)
    X[3] += 100.0
    for index, row in enumerate(X):
        expected, calm = detector.score_one(row), detector.events.open is None
        verdict = detector.observe(row)
        assert verdict.score == pytest.approx(expected, rel=1e-3)
        assert np.isfinite(verdict.score)
        assert verdict.state == "watching"
        if index < 9:
            assert result(verdict)[:3] == (False, False, False)
            assert len(verdict.explain(2)) == 2
            assert len(detector.blame(row, 2)) == 2
        else:
            assert verdict.learned == (calm and not verdict.anomalous)
        if index == 8:
            assert (detector.learned, detector.progress.seen) == (learned, seen)
            assert detector.gate.recent.clock == recent
        if index == 9:
            assert detector.progress.seen.rows == seen.rows + 1
            # The row that is 100 off is part of this window, and of nine more.
            assert verdict.anomalous


def test_a_score_of_part_of_a_window_is_the_distance_of_those_rows_alone() -> None:
    """What the missing rows would have been does not matter: their columns are left out."""
    detector = watching()
    distance = detector.model.distance
    D = np.diag(distance.deviation)
    covariance = D @ (np.eye(30) + distance.L.T @ distance.L) @ D
    rows = 0.3 * slow(4, seed=8)
    detector.interrupt()
    for count in range(1, 5):
        kept = slice(30 - COLUMNS * count, None)
        x = rows[:count].reshape(-1) - distance.mean[kept]
        square = float(x @ np.linalg.solve(covariance[kept, kept], x))
        scale = detector.observe(rows[count - 1]).score * COLUMNS * count / square
        # The same factor whatever the rows, and near 1.
        assert scale == pytest.approx(distance.scale, rel=1e-3)


@pytest.mark.parametrize("name", SETTINGS)
def test_score_many_scores_a_stretch_by_itself_and_its_first_rows_by_what_there_is(
    name: str,
) -> None:
    detector = watching(**SETTINGS[name])
    X = slow(40, seed=3)
    scores = detector.score_many(X)
    np.testing.assert_allclose(scores[9:], detector.model.scores(stacked(X, 10)), rtol=1e-5)
    detector.interrupt()
    one_by_one = []
    for row in X:
        one_by_one.append(detector.score_one(row))
        detector.preparation.last_rows.add(row)
    np.testing.assert_allclose(scores, one_by_one, rtol=1e-6)
    assert detector.score_many(X[:0]).shape == (0,)
    np.testing.assert_allclose(detector.score_many(X[:4]), scores[:4], rtol=1e-5)


def test_blocks_of_score_many_do_not_show() -> None:
    detector = watching()
    X = slow(9000, seed=4)
    expected = detector.model.scores(stacked(X, 10))
    np.testing.assert_allclose(detector.score_many(X)[9:], expected, rtol=1e-9)


@pytest.mark.combinations
@pytest.mark.parametrize("ago", [0, 1, 4, 9])
@pytest.mark.parametrize("column", range(COLUMNS))
def test_blame_names_the_sensor_and_how_long_ago(column: int, ago: int) -> None:
    detector = watching(features=["heat", "speed", "load"])
    rows = slow(20, seed=7)
    clean = rows[19 - ago, column]
    rows[19 - ago, column] += 12.0
    detector.interrupt()
    for row in rows[:-1]:
        detector.observe(row)
    (blamed,) = detector.blame(rows[-1], 1)
    verdict = detector.observe(rows[-1])
    assert verdict.anomalous
    for cause in (blamed, verdict.explain(1)[0]):
        assert cause.feature == ("heat", "speed", "load")[column]
        assert cause.ago == ago
        assert cause.seen == pytest.approx(rows[19 - ago, column], rel=1e-6)
        # What the other sensors say, which here know nothing of it.
        assert abs(cause.expected - clean) < 12.0


# Saved and restored


def restored(detector: Detector) -> Detector:
    fields, arrays = pack_detector(detector)
    return unpack_detector(json.loads(json.dumps(fields)), arrays)


@pytest.mark.combinations
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("held", [0, 1, 5, 9, 10, 30])
def test_a_state_saved_in_the_middle_of_a_window_goes_on_with_the_same_verdicts(
    name: str, held: int
) -> None:
    detector = watching(**SETTINGS[name])
    X = slow(130, seed=6)
    X[60:63] += 20.0
    for row in X[:17]:
        detector.observe(row)
    detector.interrupt()
    for row in X[17 : 17 + held]:
        detector.observe(row)
    again = restored(detector)
    assert len(again.preparation.last_rows) == min(held, 9)
    np.testing.assert_array_equal(
        again.preparation.last_rows.tail, detector.preparation.last_rows.tail
    )
    for row in X[17 + held :]:
        mine, theirs = detector.observe(row), again.observe(row)
        assert result(mine) == result(theirs)
        assert mine.score == pytest.approx(theirs.score, rel=1e-9)
        assert mine.threshold == pytest.approx(theirs.threshold, rel=1e-9)
    assert again.evidence.close_to(detector.evidence)


def test_more_inputs_than_a_detector_can_have_are_refused() -> None:
    rows = np.random.default_rng(0).normal(size=(60, MOST_INPUTS + 1))
    with pytest.raises(BadInput, match="4,097 columns are more than the 4,096 inputs"):
        Detector.for_data(rows)
    with pytest.raises(BadInput, match="500 columns in windows of 10 rows are more than"):
        Detector.for_data(rows[:, :500], window=10)
    assert Detector.for_data(rows[:, :500]).window == 1, "chosen so that they fit"


# Windows over stretches of rows: many at once as one by one, gaps, and one row of a stretch

WIDE = 4


def rows(number: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    level = np.cumsum(rng.normal(size=(number, 2)), axis=0) * 0.1
    mixing = np.array([[1.0, 0.5, -1.0], [0.2, 1.0, 0.7]])
    return level @ mixing + 0.1 * rng.normal(size=(number, 3))


def trained_detector(score: str, number: int = 200) -> Detector:
    return trained(Detector(HiddenLayer(3, 6), window=WIDE, score=score), rows(number))


@pytest.mark.parametrize("score", ["distance", "loss"])
def test_a_row_of_a_stretch_is_blamed_as_if_it_had_just_come(score: str) -> None:
    detector, new = trained_detector(score), rows(12, seed=2)
    new[7, 1] += 5.0
    scored = ScoredRows(detector, new)
    for place in (0, 2, 3, 7, 9, 11):
        detector.interrupt()
        for x in new[max(place - WIDE + 1, 0) : place]:
            detector.preparation.last_rows.add(x)
        assert scored.causes(place, 2) == detector.blame(new[place], 2)
    assert [scored.causes(place, 1)[0].ago for place in (7, 8, 10)] == [0, 1, 3]
