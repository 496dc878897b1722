"""What was learned, hour by hour: cut, bounded, saved, and taken out as if there had been a gap."""

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput, Detector, Evidence, HiddenLayer, PatternRule, Scaling
from elmgrove.detector.decision import ROWS
from elmgrove.detector.feedback import reject
from elmgrove.detector.history import HOUR, MOST, Span, fade
from elmgrove.detector.state import pack_detector, unpack_detector
from support.laws import law_examples

COLUMNS = 3
KINDS: dict[str, dict[str, Any]] = {
    "distance": {"layer": HiddenLayer(COLUMNS, COLUMNS)},
    "distance by mixtures": {"layer": HiddenLayer(COLUMNS, 2, seed=3)},
    "loss": {"layer": HiddenLayer(COLUMNS, 2, activation="tanh", seed=3), "score": "loss"},
}


@dataclass
class Story:
    """Rows with times, and the hours of them that are to be taken out."""

    kind: str
    X: np.ndarray
    times: np.ndarray
    window: int
    forgetting: float
    out: tuple[int, int]

    @property
    def span(self) -> Span:
        begin, end = self.out
        return Span(begin * HOUR, end * HOUR)

    @property
    def inside(self) -> np.ndarray:
        return (self.times >= self.span.begin) & (self.times < self.span.end)

    def detector(self, **more: Any) -> Detector:
        settings = {**KINDS[self.kind], "window": self.window, "forgetting": self.forgetting}
        return Detector(**settings, **more)

    def without(self) -> Detector:
        """A detector for which there was a gap."""
        made = self.detector()
        before, after = self.times < self.span.begin, self.times >= self.span.end
        made.learn_many(self.X[before], self.times[before])
        made.interrupt()
        made.learn_many(self.X[after], self.times[after])
        return made


@st.composite
def stories(draw: st.DrawFn) -> Story:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    hours = draw(st.integers(1, 6))
    per_hour = draw(st.integers(1, 30))
    times = np.sort(rng.uniform(0.0, hours * HOUR, hours * per_hour))
    X = rng.normal(draw(st.sampled_from([0.0, 50.0])), 1.0, size=(len(times), COLUMNS))
    begin = draw(st.integers(0, hours - 1))
    return Story(
        draw(st.sampled_from(sorted(KINDS))),
        X,
        times,
        draw(st.sampled_from([1, 1, 2, 5])),
        draw(st.sampled_from([1.0, 1.0, 0.99, 0.9])),
        (begin, draw(st.integers(begin + 1, hours))),
    )


def fed(story: Story, how: str) -> Detector:
    made = story.detector()
    if how == "many":
        made.learn_many(story.X, story.times)
    elif how == "chunks":
        for start in range(0, len(story.X), 7):
            made.learn_many(story.X[start : start + 7], story.times[start : start + 7])
    else:
        for x, time in zip(story.X, story.times.tolist(), strict=True):
            made.learn_one(x, time)
    return made


def equal(found: Evidence, wanted: Evidence, whole: Evidence) -> bool:
    """Whether two are equal to 1e-9 of what had been learned: rounding is a share of that."""
    return (found + whole).close_to(wanted + whole, 1e-9) and found.count == pytest.approx(
        wanted.count, rel=1e-9
    )


def again(detector: Detector) -> Detector:
    return unpack_detector(*pack_detector(detector))


# Laws


@settings(max_examples=law_examples(300), deadline=None)
@given(stories(), st.sampled_from(["many", "chunks", "one"]), st.booleans(), st.booleans())
def test_without_an_hour_all_is_as_if_it_had_never_been_learned(
    story: Story, how: str, saved: bool, forgetful: bool
) -> None:
    # Whether or not the rows of the hour are still known one by one.
    with patch("elmgrove.detector.decision.ROWS", 2 if forgetful else ROWS):
        detector = fed(story, how)
        if saved:
            detector = again(detector)
        whole = detector.evidence
        told = reject(detector, story.span)
    wanted = story.without()
    assert told.exact
    assert equal(detector.evidence, wanted.evidence, whole)
    assert detector.evidence.admissible()
    assert told.taken == fed(story, how).learned - wanted.learned == detector.taken


@settings(max_examples=law_examples(60), deadline=None)
@given(stories(), st.integers(0, 20))
def test_what_is_learned_after_an_hour_was_taken_out_is_learned_as_without_it(
    story: Story, more: int
) -> None:
    detector, wanted = fed(story, "many"), story.without()
    whole = detector.evidence
    reject(detector, story.span)
    rows = np.random.default_rng(1).normal(size=(more, COLUMNS))
    for one in (detector, wanted):
        one.interrupt()
        one.learn_many(rows, 10 * HOUR + np.arange(more))
    assert equal(detector.evidence, wanted.evidence, whole)
    # And that hour can go as well.
    told = reject(detector, Span(10 * HOUR, 11 * HOUR))
    assert told.taken == max(more - story.window + 1, 0)
    assert equal(detector.evidence, story.without().evidence, whole)


@settings(max_examples=law_examples(100), deadline=None)
@given(stories())
def test_increments_are_all_that_was_learned(story: Story) -> None:
    detector = fed(story, "many")
    detector.increments.cut()
    (part,) = detector.parts
    assert detector.increments.rest(part).evidence.close_to(part.evidence, 1e-9)
    assert sum(one.rows for one in detector.increments.kept) == detector.learned
    assert detector.increments.rows_after(part, 0) == detector.learned


@settings(max_examples=law_examples(60), deadline=None)
@given(stories(), st.integers(0, 100), st.data())
def test_rows_after_count_what_is_left_of_those_learned_later(
    story: Story, learned: int, data: st.DataObject
) -> None:
    detector = fed(story, data.draw(st.sampled_from(["many", "one"])))
    numbers = np.arange(1, detector.learned + 1)
    ended = story.times[story.window - 1 :]
    began = story.times[: len(ended)]
    met = (began < story.span.end) & (ended >= story.span.begin)
    reject(detector, story.span)
    (part,) = detector.parts
    left = int((numbers[~met] > learned).sum())
    assert detector.increments.rows_after(part, learned) <= left
    if not detector.increments.kept or all(
        not one.after < learned < one.until for one in detector.increments.kept
    ):
        assert detector.increments.rows_after(part, learned) == left


# Rows in a span that ends within an increment


@settings(max_examples=law_examples(150), deadline=None)
@given(stories(), st.floats(0.0, 6.0), st.floats(0.01, 3.0), st.booleans())
def test_rows_that_are_still_known_are_taken_out_one_by_one(
    story: Story, begin: float, hours: float, saved: bool
) -> None:
    story.out = (begin, begin + hours)  # type: ignore[assignment]
    detector = fed(story, "many")
    known = len(detector.gate.recent.rows)
    assert known == detector.learned
    detector, whole = again(detector) if saved else detector, detector.evidence
    told = reject(detector, story.span)
    wanted = story.without()
    assert told.exact
    assert equal(detector.evidence, wanted.evidence, whole)
    assert len(detector.gate.recent.rows) == wanted.learned
    assert reject(detector, story.span).taken == 0


@pytest.mark.parametrize("forgetting", [1.0, 0.999])
@pytest.mark.parametrize("kind", KINDS)
def test_of_an_hour_whose_first_rows_are_not_known_any_more_the_last_can_go(
    kind: str, forgetting: float
) -> None:
    rng = np.random.default_rng(0)
    story = Story(kind, rng.normal(size=(3000, COLUMNS)), np.arange(3000.0), 1, forgetting, (0, 1))
    detector, wanted = fed(story, "many"), story.detector()
    told = reject(detector, Span(2700.0, 2800.0))
    assert told.exact
    assert told.taken == 100
    wanted.learn_many(np.delete(story.X, np.s_[2700:2800], axis=0))
    assert detector.evidence.close_to(wanted.evidence, 1e-9)


def test_where_rows_are_not_known_any_more_whole_increments_go_and_it_is_said() -> None:
    rng = np.random.default_rng(0)
    story = Story("distance", rng.normal(size=(9000, COLUMNS)), np.arange(9000.0), 1, 1.0, (0, 1))
    detector = fed(story, "many")
    told = reject(detector, Span(3700.0, 3800.0))
    assert not told.exact
    assert (told.taken, told.first, told.last) == (3600, 3600.0, 7199.0)
    assert "by whole increments, from 1970-01-01 01:00:00 UTC to 1970-01-01 01:59:59" in str(told)
    wanted = story.detector()
    wanted.learn_many(np.delete(story.X, np.s_[3600:7200], axis=0))
    assert detector.evidence.close_to(wanted.evidence, 1e-9)


def test_rows_that_were_forgotten_too_far_are_not_brought_back_one_by_one() -> None:
    rng = np.random.default_rng(0)
    story = Story("distance", rng.normal(size=(3000, COLUMNS)), np.arange(3000.0), 1, 0.9, (0, 1))
    detector = fed(story, "many")
    assert not reject(detector, Span(2700.0, 2800.0)).exact
    assert detector.evidence.count == 0.0


# Patterns


def two_normals(seed: int, rows: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, COLUMNS))
    X[rng.random(rows) < 0.5] += 40.0
    return X


@pytest.mark.parametrize("score", ["distance", "loss"])
@pytest.mark.parametrize("saved", [False, True])
def test_an_hour_goes_out_of_each_pattern(score: str, saved: bool) -> None:
    X, times = two_normals(0, 2000), np.arange(2000) * 20.0
    made = [
        Detector(
            HiddenLayer(COLUMNS, COLUMNS, seed=1),
            score=score,
            scaling=Scaling.fitted("standard", X),
            patterns=PatternRule(2, start_rows=64),
        )
        for _ in range(2)
    ]
    detector, wanted = made
    detector.learn_many(X, times)
    kept = (times < 5 * HOUR) | (times >= 7 * HOUR)
    wanted.learn_many(X[kept], times[kept])
    detector = again(detector) if saved else detector
    told = reject(detector, Span(5 * HOUR, 7 * HOUR))
    assert told.exact
    assert told.taken == 360
    for mine, theirs in zip(detector.parts, wanted.parts, strict=True):
        assert mine.number == theirs.number
        assert mine.evidence.close_to(theirs.evidence, 1e-9)
        assert mine.total is not None
        np.testing.assert_allclose(mine.total, theirs.total, rtol=1e-9)
    np.testing.assert_allclose(detector.score_many(X[:50]), wanted.score_many(X[:50]), rtol=0.05)


def test_a_pattern_of_which_nothing_is_left_is_none() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, COLUMNS))
    detector = Detector(
        HiddenLayer(COLUMNS, COLUMNS), patterns=PatternRule(start_rows=64, silhouette=0.9)
    )
    detector.learn_many(X, np.arange(600) * 6.0)
    detector.model.adopt(X[:100] + 40.0)
    detector.increments.note(2 * HOUR, 2 * HOUR)
    assert len(detector.parts) == 2
    assert reject(detector, Span(2 * HOUR, 3 * HOUR)).taken == 0
    detector.increments.note_many(np.full((100, 2), 2 * HOUR))
    detector.model.adopt(X[:100] - 40.0)
    assert [part.number for part in detector.parts] == [0, 1, 2]
    assert reject(detector, Span(2 * HOUR, 3 * HOUR)).taken == 100
    assert [part.number for part in detector.parts] == [0, 1]


@pytest.mark.parametrize("learned", [40, 63, 64, 65, 200])
def test_rows_are_taken_out_before_it_is_decided_how_many_patterns_there_are(learned: int) -> None:
    X, times = two_normals(0, 300), np.arange(300) * 60.0
    rule = PatternRule(2, start_rows=64)
    detector = Detector(HiddenLayer(COLUMNS, COLUMNS), patterns=rule)
    wanted = Detector(HiddenLayer(COLUMNS, COLUMNS), patterns=rule)
    detector.learn_many(X[:learned], times[:learned])
    told = reject(detector, Span(600.0, 1200.0))
    if learned < 64:
        assert told.taken == 10
        wanted.learn_many(np.delete(X, np.s_[10:20], axis=0))
        detector.learn_many(X[learned:], times[learned:])
        assert detector.evidence.close_to(wanted.evidence, 1e-9)
        assert [part.learned for part in detector.parts] == [part.learned for part in wanted.parts]
    else:
        # The first rows decided together, and are one increment.
        assert not told.exact
        assert told.taken >= 64


def test_first_rows_that_are_not_all_known_any_more_stay() -> None:
    X = two_normals(0, 800)
    detector = Detector(HiddenLayer(COLUMNS, COLUMNS), patterns=PatternRule(2, start_rows=1000))
    detector.learn_many(X, np.arange(800.0) * 60.0)
    before = detector.evidence
    with pytest.raises(BadInput, match="take rows out after 200 more"):
        reject(detector, Span(3600.0, 7200.0))
    assert detector.evidence == before
    assert detector.taken == 0


# What the gate remembers


def test_scores_and_rows_of_the_span_no_longer_hold_the_threshold_up() -> None:
    rng = np.random.default_rng(0)
    X, times = rng.normal(size=(3000, COLUMNS)), np.arange(3000) * 10.0
    fault = (times >= 7 * HOUR) & (times < 8 * HOUR)
    bad = np.where(fault[:, np.newaxis], X + rng.normal(size=X.shape) * 1.5, X)
    detector, wanted = (
        Detector(HiddenLayer(COLUMNS, COLUMNS), scaling=Scaling.fitted("standard", X))
        for _ in range(2)
    )
    detector.learn_many(bad, times)
    wanted.learn_many(X[~fault], times[~fault])
    assert detector.threshold > 1.5 * wanted.threshold
    reject(detector, Span(7 * HOUR, 8 * HOUR))
    assert detector.threshold == pytest.approx(wanted.threshold, rel=0.2)
    assert detector.state == "watching"
    stamps = detector.gate.recent.stamps
    assert not ((stamps[:, 1] >= 7 * HOUR) & (stamps[:, 1] < 8 * HOUR)).any()


def test_scores_after_the_span_follow_the_model_that_never_knew_it() -> None:
    rng = np.random.default_rng(0)
    X, times = rng.normal(size=(3000, COLUMNS)), np.arange(3000) * 10.0
    fault = (times >= 2 * HOUR) & (times < 3 * HOUR)
    bad = np.where(fault[:, np.newaxis], X * 6.0, X)
    detector, wanted = (
        Detector(HiddenLayer(COLUMNS, COLUMNS), scaling=Scaling.fitted("standard", X))
        for _ in range(2)
    )
    detector.learn_many(bad, times)
    wanted.learn_many(X[~fault], times[~fault])
    # Rows that came since were hardly anomalous to a model of such rows.
    assert detector.threshold < 0.5 * wanted.threshold
    reject(detector, Span(2 * HOUR, 3 * HOUR))
    # One factor for all of them, though that model forgot the fault slowly.
    assert detector.threshold == pytest.approx(wanted.threshold, rel=0.3)


def test_without_enough_scores_the_last_rows_are_scored_again() -> None:
    X = np.random.default_rng(0).normal(size=(1000, COLUMNS))
    detector = Detector(HiddenLayer(COLUMNS, COLUMNS), scaling=Scaling.fitted("standard", X))
    detector.learn_many(X[:300], np.arange(300.0))
    detector.learn_many(X[300:], HOUR + np.arange(700.0))
    reject(detector, Span(HOUR + 250.0, 2 * HOUR))
    # Of the scores 50 are left, and of the rows that are still known 62.
    assert len(detector.gate.recent) == 62
    # They were known to be normal, and are enough for a threshold with a margin.
    assert detector.state == "watching"
    assert np.mean(detector.score_many(X) > detector.threshold) < 0.02
    assert detector.learned - detector.taken == 550


def test_nothing_is_left_of_a_detector_whose_hours_all_go() -> None:
    X = np.random.default_rng(0).normal(size=(500, COLUMNS))
    detector = Detector(HiddenLayer(COLUMNS, COLUMNS))
    detector.learn_many(X, np.arange(500.0))
    assert reject(detector, Span()).taken == 500
    assert detector.evidence.count == 0.0
    assert detector.state == "learning"
    assert detector.increments.kept == []
    detector = again(detector)
    detector.learn_many(X + 7.0, HOUR + np.arange(500.0))
    wanted = Detector(HiddenLayer(COLUMNS, COLUMNS))
    wanted.learn_many(X + 7.0)
    assert detector.evidence.close_to(wanted.evidence, 1e-9)
    assert detector.threshold == pytest.approx(wanted.threshold, rel=0.1)


# Times


def test_rows_without_a_time_stay_together_and_are_never_taken_out() -> None:
    X = np.random.default_rng(0).normal(size=(300, COLUMNS))
    detector = Detector(HiddenLayer(COLUMNS, COLUMNS))
    detector.learn_many(X[:100])
    detector.learn_many(X[100:200], np.arange(100.0))
    detector.learn_many(X[200:])
    assert reject(detector, Span()).taken == 100
    (one,) = detector.increments.kept[:1]
    assert not one.times.known
    wanted = Detector(HiddenLayer(COLUMNS, COLUMNS))
    wanted.learn_many(np.delete(X, np.s_[100:200], axis=0))
    assert detector.evidence.close_to(wanted.evidence, 1e-9)


@pytest.mark.parametrize(("begin", "end"), [(1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0)])
def test_a_span_ends_after_it_begins(begin: float, end: float) -> None:
    with pytest.raises(BadInput, match="a span ends after it begins"):
        Span(begin, end)


# Bounds


@pytest.mark.combinations
@pytest.mark.parametrize("forgetting", [1.0, 0.995])
@pytest.mark.parametrize("how", ["many", "one"])
def test_there_are_never_too_many_and_the_older_ones_are_coarser(
    how: str, forgetting: float
) -> None:
    rng = np.random.default_rng(0)
    hours = 200
    story = Story(
        "distance",
        rng.normal(size=(hours * 4, COLUMNS)),
        np.arange(hours * 4) * HOUR / 4,
        1,
        forgetting,
        (0, 1),
    )
    detector = fed(story, how)
    detector.increments.cut()
    kept = detector.increments.kept
    assert len(kept) <= MOST
    lengths = [one.times.last - one.times.first for one in kept]
    assert lengths[-8:] == [0.75 * HOUR] * 8
    assert max(lengths) == max(lengths[: len(lengths) // 4])
    assert max(lengths) < hours * HOUR / 4
    (part,) = detector.parts
    assert detector.increments.rest(part).evidence.close_to(part.evidence, 1e-9)


def test_bytes_are_bounded_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmgrove.detector.history.MOST_BYTES", 8 * 12 * 5)
    story = Story("distance", np.ones((100, COLUMNS)), np.arange(100) * HOUR, 1, 1.0, (0, 1))
    detector = fed(story, "one")
    assert len(detector.increments.kept) == 5


# On disk


@settings(max_examples=law_examples(40), deadline=None)
@given(stories().filter(lambda story: story.kind != "loss"), st.integers(0, 100))
def test_a_detector_goes_on_from_disk_as_if_nothing_had_been(story: Story, place: int) -> None:
    detector = story.detector()
    for number, (x, time) in enumerate(zip(story.X, story.times.tolist(), strict=True)):
        if number == place:
            detector = again(detector)
        detector.learn_one(x, time)
    wanted = pack_detector(fed(story, "one"))
    found = pack_detector(detector)
    assert found[0] == wanted[0]
    assert found[1].keys() == wanted[1].keys()
    differ = [
        name for name, array in found[1].items() if array.tobytes() != wanted[1][name].tobytes()
    ]
    assert differ == []


def test_what_is_not_an_increment_is_refused() -> None:
    story = Story("distance", np.ones((100, COLUMNS)), np.arange(100) * HOUR / 9, 1, 1.0, (0, 1))
    fields, arrays = pack_detector(fed(story, "one"))
    fields["memory"]["increments"]["kept"][0]["pieces"][0]["rows"] = 1000
    with pytest.raises(BadInput, match="1000 rows"):
        unpack_detector(fields, arrays)


def test_of_what_was_faded_whole_increments_go() -> None:
    rng = np.random.default_rng(0)
    X, times = rng.normal(size=(300, COLUMNS)), np.arange(300) * 60.0
    story = Story("distance", X, times, 1, 1.0, (1, 2))
    detector = fed(story, "many")
    fade(detector, 0.25)
    # All rows are still known, but one of them no longer counts as it would if it came now.
    told = reject(detector, Span(HOUR + 600.0, HOUR + 1200.0))
    assert (told.taken, told.exact) == (60, False)
    assert detector.evidence.close_to(story.without().evidence.weighted(0.25), 1e-9)


@pytest.mark.parametrize("time", [1e30, -1e12, np.inf, np.nan])
def test_a_time_that_no_calendar_has_is_refused_and_nothing_learned(time: float) -> None:
    detector = Detector(HiddenLayer(COLUMNS, COLUMNS))
    row = np.zeros(COLUMNS)
    for refused in (
        lambda: detector.observe(row, time),
        lambda: detector.learn_one(row, time),
        lambda: detector.observe_many([row, row], [0.0, time]),
        lambda: detector.learn_many([row, row], [0.0, time]),
    ):
        with pytest.raises(BadInput, match=r"no time between the years 1 and 9999|one finite num"):
            refused()
    assert detector.learned == 0
