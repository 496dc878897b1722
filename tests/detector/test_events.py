"""Anomalous rows that belong together are one event: it opens once, lasts, and ends."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import AlarmRule, BadInput, Detector, FalseAlarmRate
from elmgrove.detector.decision import CHANGING, WATCHING, Flagged
from elmgrove.detector.events import (
    CLOSED,
    STRONGEST,
    Alarm,
    Event,
    Events,
    EventUpdate,
    Hit,
    when_text,
)
from elmgrove.detector.verdict import Cause, Verdict
from support.snapshots import held, restored

RULE = AlarmRule(k=2, n=3, cooldown=4)
FLOW = Cause("flow", 0.75, 22.0, 31.0)


def flow(score: float) -> list[Cause]:
    return [FLOW]


class Explains:
    """A model that explains a row by its score."""

    def __init__(self, explain: Callable[[float], list[Cause]]) -> None:
        self._explain = explain

    def causes(self, basis: object, score: float, k: int) -> list[Cause]:
        return self._explain(score)


def verdict(
    anomalous: bool,
    score: float = 3.0,
    time: float | None = None,
    before: str = WATCHING,
    known: tuple[str, ...] = (),
    explain: Callable[[float], list[Cause]] = flow,
) -> Verdict:
    nothing: Any = None
    row: Any = score
    judged = (anomalous, known, not anomalous, False)
    return Verdict(
        score, 1.5, *judged, before, 0, Flagged(1, 0, 0, 1), row, Explains(explain), nothing, time
    )


def feed(
    events: Events, anomalous: str, state: str = WATCHING, before: str = WATCHING, **more: Any
) -> list[Verdict]:
    """Rows as a drawing: # is anomalous; the state of the detector after and before them."""
    given = []
    for row in anomalous:
        events.row += 1
        given.append(verdict(row == "#", before=before, **more))
        if row == "#" or events.running is not None:
            events.follow(given[-1], state)
    return given


def spans(events: Events) -> list[tuple[Any, Any, int]]:
    return [(event.begin, event.end, event.rows) for event in events.closed]


# Opening, lasting and ending


def test_one_alarm_opens_an_event_that_began_with_the_first_anomalous_row() -> None:
    events = Events(RULE)
    given = feed(events, "..#.#")
    assert [one.alarm for one in given] == [False, False, False, False, True]
    assert [one.event for one in given] == [None, None, None, None, 1]
    assert events.open == Event(1, 3, None, 3.0, 3, 1.5, 2, (FLOW,))
    assert [one.kind for one in events.take_updates()] == ["opened"]


def test_it_ends_with_its_last_anomalous_row_once_the_cool_down_has_gone_by() -> None:
    events = Events(RULE)
    feed(events, "##...")
    assert events.open is not None
    feed(events, ".")
    assert events.open is None
    assert spans(events) == [(1, 2, 2)]
    assert [one.kind for one in events.take_updates()] == ["opened", "ended"]


def test_a_single_anomalous_row_prolongs_nothing_and_counts_only_if_more_follow() -> None:
    events = Events(RULE)
    feed(events, "##..#..")
    assert events.open is not None, "it may be the first of more"
    feed(events, ".")
    assert spans(events) == [(1, 2, 2)]
    again = Events(RULE)
    feed(again, "##..##" + "....")
    assert spans(again) == [(1, 6, 4)]


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 9), st.lists(st.booleans()))
def test_events_are_alarms_less_than_a_cool_down_apart(
    k: int, more: int, cooldown: int, anomalous: list[bool]
) -> None:
    """Said once more, by looking at the whole stream."""
    rule = AlarmRule(k, k + more, cooldown)
    events = Events(rule)
    feed(events, "".join("#" if one else "." for one in anomalous))
    found = [
        i
        for i, now in enumerate(anomalous, 1)
        if now and sum(anomalous[max(0, i - rule.n) : i]) >= rule.k
    ]
    groups: list[list[int]] = []
    for i in found:
        calm = range(groups[-1][-1] + rule.calm, i) if groups else ()
        if groups and all(any(anomalous[max(0, j - rule.n) : j]) for j in calm):
            groups[-1].append(i)
        else:
            groups.append([i])
    known = [*events.closed, *([] if events.open is None else [events.open])][-CLOSED:]
    ends = [event.end for event in known if event.end is not None]
    assert ends == [group[-1] for group in groups][-CLOSED:][: len(ends)]
    assert len(known) == min(len(groups), CLOSED)
    for event, group in zip(known, groups[-CLOSED:], strict=True):
        assert anomalous[event.begin - 1]
        assert event.rows == sum(anomalous[event.begin - 1 : group[-1]])


# A change that stays


def test_while_changing_it_stays_open_and_that_is_one_alarm_more() -> None:
    events = Events(RULE)
    feed(events, "##")
    given = [*feed(events, "#", state=CHANGING), *feed(events, "#..#....", CHANGING, CHANGING)]
    assert [place for place, one in enumerate(given) if one.alarm] == [0]
    assert [one.kind for one in events.take_updates()] == ["opened"]
    assert events.open is not None
    assert events.open.changing
    feed(events, ".")
    assert spans(events) == [(1, 7, 5)]
    assert events.closed[0].changing


def test_while_changing_it_takes_four_cool_downs_to_end_and_the_next_is_no_change() -> None:
    events = Events(RULE)
    feed(events, "##", state=CHANGING)
    feed(events, 15 * ".", CHANGING, CHANGING)
    assert events.open is not None
    feed(events, ".#.##", CHANGING, CHANGING)
    assert spans(events) == [(1, 2, 2)]
    assert [one.kind for one in events.take_updates()] == ["opened", "ended", "opened"]
    assert events.open is not None
    assert (events.closed[0].changing, events.open.changing) == (True, False)


# What is known of it


def test_the_peak_is_the_strongest_row_and_when_it_was() -> None:
    events = Events(RULE)
    for time, score in enumerate((3.0, 9.0, 4.0)):
        feed(events, "#", score=score, time=1714573200.0 + 60 * time)
    event = events.open
    assert event is not None
    assert (event.begin, event.peak, event.peak_at) == (1714573200.0, 9.0, 1714573260.0)


def test_causes_are_those_of_its_strongest_rows_in_order() -> None:
    def causes(score: float) -> list[Cause]:
        if score > 8.0:
            return [Cause("a", 0.6, 1.0, 0.0), Cause("b", 0.4, 2.0, 0.0)]
        return [Cause("b", 0.9, 7.0, 0.0), Cause("c", 0.1, 3.0, 0.0)]

    events = Events(AlarmRule(k=1, n=1))
    for score in (3.0, 9.0, 3.0):
        events.row += 1
        events.follow(verdict(True, score, explain=causes), WATCHING)
    assert events.open is not None
    told = events.open.causes
    assert [cause.feature for cause in told] == ["b", "a", "c"]
    assert [cause.seen for cause in told] == [2.0, 1.0, 3.0], "of the peak, where it has them"
    assert told[0].share == pytest.approx((0.9 + 0.4 + 0.9) / 3)


def test_of_many_rows_only_the_strongest_are_explained() -> None:
    asked: list[float] = []

    def causes(score: float) -> list[Cause]:
        asked.append(score)
        return [FLOW]

    events = Events(AlarmRule(k=1, n=1))
    for score in [*range(20, 2, -1)] * 20:
        events.row += 1
        events.follow(verdict(True, float(score), explain=causes), WATCHING)
    assert len(asked) < 3 * STRONGEST
    assert events.open is not None
    assert (events.open.peak, events.open.rows) == (20.0, 360)


def test_only_the_last_ones_are_remembered() -> None:
    events = Events(AlarmRule(k=1, n=1, cooldown=0))
    feed(events, "#." * 50)
    assert [event.number for event in events.closed] == list(range(31, 51))


def test_what_was_never_confirmed_is_no_part_of_it() -> None:
    """A peak after the end: a single stronger row within the cool-down."""
    events = Events(RULE)
    feed(events, "##")
    *_, single = feed(events, "..") + feed(events, "#", score=9.0)
    assert single.event is None
    assert events.open is not None
    assert (events.open.peak, events.open.rows) == (3.0, 2)
    feed(events, "....")
    [event] = events.closed
    assert (event.end, event.peak, event.peak_at, event.rows) == (2, 3.0, 1, 2)


def test_what_is_confirmed_later_is_part_of_it_with_its_peak() -> None:
    events = Events(RULE)
    feed(events, "##..")
    feed(events, "#", score=9.0)
    [second] = feed(events, "#")
    assert second.event == 1
    assert events.open is not None
    assert (events.open.peak, events.open.peak_at, events.open.rows) == (9.0, 5, 4)


# Worse


def test_a_slight_event_does_not_hide_a_large_fault() -> None:
    def causes(score: float) -> list[Cause]:
        return [Cause("cpu" if score > 8.0 else "flow", 1.0, 1.0, 0.0)]

    events = Events(AlarmRule(k=2, n=3, cooldown=9))
    for score in [1.53] * 20 + [24.0] + [1.53] * 3 + [24.0] * 5 + [1.53] * 20:
        events.row += 1
        events.follow(verdict(True, score, explain=causes), WATCHING)
    told = events.take_updates()
    assert [one.kind for one in told] == ["opened", "worse"]
    assert str(told[1]) == (
        "event 1 is worse: since row 1, 26 rows anomalous, peak 16 × threshold; cpu 1 (not 0)"
    )
    feed(events, 9 * ".")
    [ended] = events.take_updates()
    assert [cause.feature for cause in ended.event.causes] == ["cpu"]


# Accepted


def test_what_somebody_calls_normal_counts_for_no_alarm() -> None:
    events = Events(RULE)
    feed(events, "##")
    events.end()
    assert not any(one.alarm for one in feed(events, "#"))
    events.end()
    assert not any(one.alarm for one in feed(events, "#"))
    assert [one.kind for one in events.take_updates()] == ["opened", "ended"]


# In words


def test_in_words() -> None:
    causes = (FLOW, Cause("rpm", 0.2, 1480.6, 1502.0))
    open_ = Event(3, 1714573200.0, None, 12.15, 1714573260.5, 1.5, 1, causes)
    ended = Event(3, 1714573200.0, 1714575120.0, 12.15, 1714573260.5, 1.5, 31, causes, True)
    why = "flow 22 (not 31), rpm 1481 (not 1502)"
    assert str(open_) == (
        f"event 3: since 2024-05-01T14:20:00Z, 1 row anomalous, peak 8.1 × threshold; {why}"
    )
    assert str(EventUpdate("opened", open_)) == (
        f"event 3 opened at 2024-05-01T14:20:00Z: 1 row anomalous, peak 8.1 × threshold; {why}"
    )
    assert str(EventUpdate("ended", ended)) == (
        "event 3 ended: 2024-05-01T14:20:00Z to 2024-05-01T14:52:00Z, 31 rows anomalous, "
        f"peak 8.1 × threshold; {why}"
    )
    assert ended.fields["peak_at"] == "2024-05-01T14:21:00.500Z"


def test_a_time_that_no_calendar_has_is_told_all_the_same() -> None:
    assert when_text(1e18) == "1e+18 s after 1970"


# Another rule, and the disk


def test_another_rule_holds_from_the_next_row_on() -> None:
    events = Events(AlarmRule(k=3, n=5))
    feed(events, "##")
    events.rule = AlarmRule(k=2, n=5, cooldown=2)
    assert [one.alarm for one in feed(events, "#")] == [True]
    assert events.open is not None
    assert events.open.begin == 2


@given(st.text("#.", max_size=60), st.text("#.", max_size=60))
def test_restored_at_any_row_it_goes_on_as_the_saved_one(before: str, after: str) -> None:
    saved = Events(RULE)
    feed(saved, before, time=1.5)
    again = restored(saved, Events(RULE))
    assert held(again) == held(saved)
    assert (again.open, again.closed) == (saved.open, saved.closed)
    assert again.take_updates() == saved.take_updates()
    told = [[(one.alarm, one.event) for one in feed(each, after)] for each in (saved, again)]
    assert told[0] == told[1]
    assert spans(again) == spans(saved)


# In a detector


def machine(rng: np.random.Generator, rows: int) -> np.ndarray:
    load = rng.normal(size=(rows, 1))
    return load * [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=(rows, 3))


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "together"])
def test_a_fault_of_a_machine_is_one_event_that_names_its_sensor(many: bool) -> None:
    rng = np.random.default_rng(0)
    detector = Detector.for_data(machine(rng, 100), threshold=FalseAlarmRate(0.002))
    detector.learn_many(machine(rng, 2000))
    rows, times = machine(rng, 400), 1714573200.0 + 60.0 * np.arange(400)
    rows[100:130, 1] += 3.0
    told = (
        detector.observe_many(rows, times)
        if many
        else [detector.observe(row, time) for row, time in zip(rows, times.tolist(), strict=True)]
    )
    [event] = detector.events.closed
    assert (event.begin, event.end, event.rows) == (times[100], times[129], 30)
    assert event.causes[0].feature == "column 1"
    assert [place for place, one in enumerate(told) if one.event] == list(range(102, 130))
    assert detector.events.row == 400


def test_the_causes_of_an_event_are_the_whole_of_it_at_most() -> None:
    # Two sensors that follow each other: either alone would take most of an error of both away.
    rng = np.random.default_rng(0)
    load = rng.normal(size=(600, 1))
    rows = np.hstack([load, load, load]) + 0.05 * rng.normal(size=(600, 3))
    detector = Detector.for_data(rows, window=1, alarm=AlarmRule(1, 1, 5))
    detector.learn_many(rows)
    faulty = np.array([1.0, -1.0, 0.0])
    assert sum(cause.share for cause in detector.blame(faulty)) > 1.05
    assert detector.observe(faulty).alarm
    event = detector.events.open
    assert event is not None
    assert len(event.causes) == 3
    assert sum(cause.share for cause in event.causes) == pytest.approx(1.0)


# Alarms follow from anomalous rows by a rule: k of the last n


def alarms(rule: AlarmRule, anomalous: str) -> str:
    """Rows in, alarms out, both as drawings: # for yes, . for no."""
    alarm = Alarm(rule)
    told = (row == "#" and alarm.raised(Hit(n, n)) for n, row in enumerate(anomalous))
    return "".join("#" if raised else "." for raised in told)


def test_by_default_a_row_or_two_are_no_alarm_and_three_of_five_are() -> None:
    assert alarms(AlarmRule(), "#....##....#..#") == "." * 15
    assert alarms(AlarmRule(), "#.#.#.") == "....#."
    assert alarms(AlarmRule(), "##...#") == "......"


@given(st.integers(1, 4), st.integers(0, 3), st.lists(st.booleans()))
def test_the_alarm_is_the_literal_rule(k: int, more: int, anomalous: list[bool]) -> None:
    """As its docstring says it, looking back over the whole stream for each row."""
    rule = AlarmRule(k, k + more)
    alarm = Alarm(rule)
    for i, now in enumerate(anomalous):
        recent = anomalous[max(0, i - rule.n + 1) : i + 1]
        assert not now or alarm.raised(Hit(i, i)) == (sum(recent) >= rule.k)


@pytest.mark.parametrize(
    ("k", "n", "cooldown"), [(0, 1, 0), (2, 1, 0), (-1, 3, 0), (1, 0, 0), (1, 1, -1)]
)
def test_a_rule_that_makes_no_sense_is_refused(k: int, n: int, cooldown: int) -> None:
    with pytest.raises(BadInput, match=r"alarm|cool-down"):
        AlarmRule(k, n, cooldown)
