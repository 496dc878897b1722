"""What a picture shows: events as the detector tells them, sensors, and no peak lost."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.image import imread

from elmgrove import AlarmRule, BadInput, Detector, FixedThreshold, MissingExtra, PatternRule
from elmgrove.detector.plot import draw, save_picture, thinned, title
from elmgrove.detector.replay import (
    TIME,
    Replay,
    ScoredRows,
    intervals_by_rule,
    intervals_of_events,
)
from support.factories import detector_for, trained
from support.labelled import NAMES, labelled, labelled_pump_rows, times

ROWS, LABELS = labelled()
WARMER = np.array([0.0, 15.0, 0.0, 0.0])


def trained_detector(**settings: object) -> Detector:
    learned = pd.DataFrame(labelled_pump_rows(2000, seed=3), columns=NAMES)
    return detector_for(learned, **settings)


@pytest.fixture(name="detector", scope="module")
def detector_fixture() -> Detector:
    return trained_detector()


# Events


@given(
    st.lists(st.booleans(), max_size=60),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 12),
)
def test_events_are_those_that_a_stream_gives(
    anomalous: list[bool], k: int, more: int, cooldown: int
) -> None:
    rule = AlarmRule(k, k + more, cooldown)
    # A fixed threshold, so that rows are anomalous as stated whatever came before.
    detector = Detector.for_data(
        np.eye(2).repeat(5, axis=0), window=1, threshold=FixedThreshold(1e3), alarm=rule, warmup=0
    )
    detector.learn_many(np.eye(2).repeat(20, axis=0))
    verdicts = detector.observe_many([[1e6, 0] if one else [1, 0] for one in anomalous] or [[1, 0]])
    assert [one.anomalous for one in verdicts] == (anomalous or [False])
    found = intervals_by_rule(np.array([one.anomalous for one in verdicts]), rule)
    told = intervals_of_events([one.event for one in verdicts], [one.alarm for one in verdicts])
    # A stream names an event from its alarm on, and anomalous rows after its last one as well.
    assert [one.alarm for one in found] == [one.alarm for one in told]
    assert all(a.first <= a.alarm <= a.last <= b.last for a, b in zip(found, told, strict=True))
    ended = [*detector.events.closed]
    assert [(one.first + 1, one.last + 1) for one in found[: len(ended)]] == [
        (one.begin, one.end) for one in ended
    ]


def test_rows_after_a_gap_complete_no_window() -> None:
    detector = trained_detector(window=5)
    rows = np.vstack([ROWS[:50], ROWS[300:310], ROWS[500:520]])
    rows[50:54] += 1e3
    replay = Replay.of_rows(detector, rows, gaps=[50, 60])
    whole = detector.score_many(rows[:50])
    assert replay.scores[:50] == pytest.approx(whole)
    assert not replay.anomalous[50:54].any()
    assert replay.gaps == [50, 60]
    expected = replay.sensors.expected("temp", np.arange(len(rows)))
    unknown = np.isnan(expected.value)
    assert unknown.nonzero()[0].tolist() == [0, 1, 2, 3, 50, 51, 52, 53, 60, 61, 62, 63]


# Sensors


@pytest.mark.parametrize("window", [1, 4])
def test_what_was_expected_is_what_a_cause_says(window: int) -> None:
    detector = trained_detector(window=window)
    replay = Replay.of_rows(detector, ROWS)
    place = 1420
    [causes] = replay.sensors.causes([place])
    assert [(c.feature, c.share) for c in causes] == [
        (c.feature, c.share) for c in ScoredRows(detector, ROWS).causes(place, 4)
    ]
    for one in causes:
        value = replay.sensors.expected(one.feature, np.array([place - one.ago])).value
        if not one.ago:
            assert value[0] == pytest.approx(one.expected)
        seen = replay.sensors.values(one.feature)
        assert seen == pytest.approx(ROWS[:, NAMES.index(one.feature)])


@pytest.mark.parametrize("settings", [{"score": "loss"}, {"patterns": PatternRule(patterns=2)}])
def test_other_models_say_what_they_expected(settings: dict[str, object]) -> None:
    detector = trained_detector(window=1, **settings)
    replay = Replay.of_rows(detector, ROWS[:20])
    [causes] = replay.sensors.causes([7])
    [first, *_] = causes
    value, deviation = replay.sensors.expected(first.feature, np.array([7]))
    assert value[0] == pytest.approx(first.expected)
    assert np.isnan(deviation[0]) == ("score" in settings)


# Few points, no peak lost


@given(arrays(float, st.integers(1, 400), elements=st.floats(-9, 9)), st.integers(1, 20))
def test_the_highest_and_lowest_are_drawn(values: np.ndarray, parts: int) -> None:
    places = thinned(values, parts)
    assert len(places) <= max(2 * parts + 2, 2)
    assert values[places].max() == values.max()
    assert values[places].min() == values.min()
    assert {0, len(values) - 1} <= set(places.tolist())
    assert (np.diff(places) > 0).all()


# Words and pictures


def test_the_title_says_what_is_to_be_seen(detector: Detector) -> None:
    said = title(Replay.of_rows(detector, ROWS, times(len(ROWS)), name="pump"))
    assert said.startswith("pump: 4 events in 1,600 rows, the worst at 2026-03-0")
    assert " was " in said
    assert ", not " in said
    calm = ROWS[detector.score_many(ROWS) < detector.threshold][:120]
    odd = np.vstack([calm, ROWS[1420:1421]])
    assert title(Replay.of_rows(detector, odd)) == "no event in 121 rows, 1 anomalous"
    fresh = trained(Detector.for_data(ROWS), ROWS[:20])
    assert "still learning" in title(Replay.of_rows(fresh, ROWS[:50]))


def test_a_state_shows_what_it_learned_and_what_waits() -> None:
    detector = trained_detector()
    assert title(Replay.of_state(detector)).endswith("learned, and 0 that wait in quarantine")
    detector.observe_many(ROWS)
    replay = Replay.of_state(detector, "pump")
    waiting = len(detector.quarantine)
    assert title(replay) == (
        f"pump: the last 512 rows it learned, and {waiting} that wait in quarantine"
    )
    assert np.median(replay.scores[-waiting:]) > 2.0 * detector.threshold
    assert [one.split(":")[0] for one in replay.history] == [
        f"event {event.number}" for event in detector.events.closed[-4:]
    ]
    timed = trained_detector()
    timed.observe_many(ROWS, times(len(ROWS)))
    assert "quarantine (2026-03-01T" in title(Replay.of_state(timed))
    with pytest.raises(BadInput, match="nothing to draw"):
        Replay.of_state(Detector.for_data(ROWS))


def _drawn(replay: Replay, path: Path, **how: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_picture(draw(replay, **how), path)
    return imread(path)


@pytest.mark.parametrize(
    ("count", "timed"), [(1, True), (1, False), (2, True), (50, False), (1600, True), (9000, True)]
)
def test_any_number_of_rows_is_drawn_without_a_warning(
    tmp_path: Path, detector: Detector, count: int, timed: bool
) -> None:
    rows = np.resize(ROWS, (count, 4))
    replay = Replay.of_rows(detector, rows, times(count) if timed else None, name="a $1 pump $2")
    seen = _drawn(replay, tmp_path / "picture.png")
    assert seen.std() > 0.02, "not blank"


def test_what_can_be_drawn_at_the_ends(tmp_path: Path, detector: Detector) -> None:
    for name, rows in {
        "equal": np.repeat(ROWS[:1], 40, axis=0),
        "huge": ROWS[:40] * 1e6,
        "all anomalous": ROWS[:40] + WARMER,
    }.items():
        _drawn(Replay.of_rows(detector, rows), tmp_path / f"{name}.png")
    _drawn(Replay.of_state(detector), tmp_path / "state.png")
    # Names that the font lacks, or that a formula could have.
    named = pd.DataFrame(labelled_pump_rows(300), columns=["回転数", "температура", "$x$", "_"])
    _drawn(Replay.of_rows(detector_for(named), named), tmp_path / "names.png")
    one = trained(Detector.for_data(labelled_pump_rows(500)[:, :1]), labelled_pump_rows(500)[:, :1])
    _drawn(Replay.of_rows(one, ROWS[:, :1]), tmp_path / "one column.png")


def test_an_event_that_is_not_there_is_refused(detector: Detector) -> None:
    replay = Replay.of_rows(detector, ROWS)
    draw(replay, event=4)
    with pytest.raises(BadInput, match="no event 5, but 1 to 4"):
        draw(replay, event=5)
    with pytest.raises(BadInput, match="no event 1: nothing here is one"):
        draw(Replay.of_rows(detector, ROWS[:20]), event=1)


def test_a_long_course_shows_sensors_around_its_worst_event(detector: Detector) -> None:
    rows = np.vstack(
        [labelled_pump_rows(4000, seed=5), ROWS[1380:1460], labelled_pump_rows(1000, seed=6)]
    )
    figure = draw(Replay.of_rows(detector, rows))
    low, high = figure.axes[1].get_xlim()
    assert 3800 < low < 4020 < 4060 < high < 4300
    assert "around event" in figure.axes[-1].get_xlabel()
    assert figure.axes[0].get_xlim()[1] > 5000


def test_a_detector_draws_rows(tmp_path: Path, detector: Detector) -> None:
    learned = detector.learned
    index = pd.date_range("2026-03-01", periods=len(ROWS), freq="min")
    frame = pd.DataFrame(ROWS, columns=NAMES, index=index)
    figure = detector.plot(frame, tmp_path / "pump.png", name="pump")
    assert imread(tmp_path / "pump.png").shape[1] > 1000
    assert figure.axes[-1].get_xlabel().startswith(TIME)
    assert detector.learned == learned
    with pytest.raises(BadInput, match="no row"):
        detector.plot(ROWS[:0], tmp_path / "none.png")
    with pytest.raises(BadInput, match="nonsense"):
        detector.plot(ROWS, tmp_path / "pump.nonsense")


def test_a_figure_without_a_file_is_pyplots(
    monkeypatch: pytest.MonkeyPatch, detector: Detector
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    figure = detector.plot(ROWS[:50])
    assert figure.number in pyplot.get_fignums()
    pyplot.close(figure)


def test_without_matplotlib_the_error_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, detector: Detector
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra) as caught:
        detector.plot(ROWS[:50], "never.png")
    assert "pip install 'elmgrove[plot]'" in str(caught.value)
    assert "pip install '.[plot]'" in str(caught.value)


def test_rows_beside_the_fault_do_not_water_down_what_explains_it(detector: Detector) -> None:
    rows = labelled_pump_rows(400, seed=8)
    rows[200:206] += WARMER
    # An event that goes on for long after its fault, as one does whose rows are anomalous by
    # chance.
    replay = Replay.of_rows(detector, rows)
    first = replay.intervals[0]
    wide = replace(replay, intervals=(first._replace(last=first.last + 60),))
    said = [axes.get_title(loc="left") for axes in draw(wide).axes]
    share = int(said[1].removeprefix("temp: explains ").partition(" ")[0])
    assert share >= 90
