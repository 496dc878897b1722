"""Without ``show_rows`` no row of an event can be put together of all that was ever told of it."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import Basis, Detector, HiddenLayer, Spectrum
from elmgrove.detector.events import Hit, OpenEvent
from elmgrove.detector.verdict import Cause
from elmgrove.device.commands import Commands
from elmgrove.device.output import Observation
from elmgrove.device.report import AgentReports, Redaction
from elmgrove.device.settings import Settings
from elmgrove.federation.member import Member
from elmgrove.federation.report import Report
from elmgrove.federation.schemas import MOST_EVENTS
from support.reports import numbers_in

#: Readings of a sensor are near a level of its own, so that a number says whose it is.
LEVEL, APART, DEVIATION = 1e7, 1e6, 1e3
START = 1_700_006_400.0


def fewest(sensors: int) -> int:
    """So many readings of a row may be told: with what was expected, and the peak, too few."""
    return next(most for most in (3, 2, 1, 0) if most == 0 or 2 * most + 1 < sensors)


def basis(*features: str, **more: Any) -> Basis:
    return Basis(HiddenLayer(len(features), 2), len(features), features, **more)


# Whatever the rows of an event are


@st.composite
def rows_of_an_event(draw: st.DrawFn) -> tuple[int, list[tuple[float, list[Cause], bool]]]:
    """Rows of so many sensors: how anomalous each is, why, and whether there is a report after it.

    What is seen of sensor 3 in row 7 is 73, so that each reading says whose it is.
    """
    sensors = draw(st.integers(1, 10))
    rows = []
    for row in range(draw(st.integers(1, 9))):
        causes = []
        for sensor in draw(st.permutations(range(sensors)))[:8]:
            ago = draw(st.integers(0, row))
            seen = 10.0 * (row - ago) + sensor
            causes.append(Cause(f"s{sensor}", draw(st.floats(0, 1)), seen, seen + 0.5, ago))
        causes.sort(key=lambda cause: -cause.share)
        rows.append((draw(st.floats(1, 9)), causes, draw(st.booleans())))
    return sensors, rows


def verdict(score: float, causes: Sequence[Cause]) -> Any:
    """An anomalous row that its causes explain."""
    return SimpleNamespace(score=score, threshold=1.0, known=(), explain=lambda k: list(causes)[:k])


@given(rows_of_an_event())
def test_no_row_of_an_event_is_told_piece_by_piece(
    story: tuple[int, list[tuple[float, list[Cause], bool]]],
) -> None:
    sensors, rows = story
    discretion = Redaction(basis(*(f"s{one}" for one in range(sensors))), {})
    running, told = OpenEvent(1, 0, 0, 0), set[int]()
    for row, (score, causes, asked) in enumerate(rows):
        running.add(row, verdict(score, causes))
        running.confirm(Hit(row, row))
        if asked:
            event = discretion.event(running.event())
            told |= {int(one.seen) for one in event.causes if one.seen == one.seen}
            told |= {int(seen) for seen in re.findall(r"s\d (\d+) \(not", str(event))}
    for row in range(len(rows)):
        assert len({one for one in told if one // 10 == row}) <= fewest(sensors)


def test_inputs_of_one_column_are_one_sensor() -> None:
    words = {"mode": ["auto", "off", "on"]}
    features = ("flow", "temp", "bar", "mode=auto", "mode=off", "mode=on")
    causes = tuple(Cause(name, 0.2, 1.0, 0.0) for name in reversed(features))
    worded = Redaction(basis(*features, categories=words), {})
    assert worded.choose(event(causes)) == ["mode"], "one of four"
    spectrum = Spectrum(1000.0, 64, 3)
    bands = Basis(HiddenLayer(12, 2), 12, ("a", "b", "c", "d"), spectrum=spectrum)
    banded, names = Redaction(bands, {}), bands.names
    shown = banded.event(event(tuple(Cause(name, 0.1, 2.0, 0.0) for name in names[4:])))
    assert [one.feature for one in shown.causes if one.seen == 2.0] == list(names[4:6])


def event(causes: tuple[Cause, ...], number: int = 1) -> Any:
    running = OpenEvent(number, 0, 0, 0)
    running.add(0, verdict(9.0, causes))
    running.confirm(Hit(0, 0))
    return running.event()


def test_readings_and_shares_are_rounded_and_few_events_remembered() -> None:
    discretion = Redaction(basis("flow", "temp", "amp", "bar"), {})
    causes = (Cause("flow", 0.98765, 22.3456, 31.9876), Cause("temp", 0.00123, 5.0, 6.0))
    shown = discretion.event(event(causes))
    assert shown.causes[0] == Cause("flow", 1.0, 22.3, 32.0)
    assert shown.peak == float(f"{shown.peak:.3g}")
    assert shown.causes[1][:2] == ("temp", 0.0)
    assert str(shown).endswith("; flow 22.3 (not 32), temp")
    for number in range(100):
        discretion.choose(event(causes, number))
    assert len(discretion.chosen) == MOST_EVENTS


# A device


def level(sensor: int) -> float:
    return LEVEL + APART * sensor


def rows(seed: int, number: int, sensors: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0.0, DEVIATION, size=(number, sensors))
    return noise + [level(one) for one in range(sensors)]


def device(sensors: int, **more: Any) -> Member:
    names = [f"s{one}" for one in range(sensors)]
    detector = Detector.for_data(pd.DataFrame(rows(0, 1000, sensors), columns=names), **more)
    detector.learn_many(rows(0, 1000, sensors))
    return Member("pump", detector)


def reports(of: Member) -> AgentReports:
    return AgentReports(Settings(), of, Commands(of, nullcontext), lambda: None)


def told_after_each(member: Member, X: np.ndarray) -> list[Report]:
    """What it tells, with a report after each row; half-way it is started again."""
    found, telling = [], reports(member)
    for number, row in enumerate(X):
        verdict = member.detector.observe(row, START + number)
        telling.observe(Observation(member, None, verdict, ()))
        made = telling.make()
        assert made is not None
        found.append(made)
        if 2 * number == len(X):
            telling.note()
            member = Member.from_bytes(member.to_bytes())
            telling = reports(member)
    return found


def read(report: Report, sensors: int) -> set[int]:
    """The sensors whose readings are somewhere in a report, be it in a text."""
    numbers = [number for _, number in numbers_in(report.fields)]
    return {one for one in range(sensors) if any(abs(n - level(one)) < APART / 3 for n in numbers)}


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("sensors", range(1, 11))
def test_all_reports_of_an_event_read_few_of_its_sensors(sensors: int, window: int) -> None:
    member = device(sensors, window=window)
    X = rows(1, 24, sensors)
    # One sensor after another is off, and farther off than the one before.
    for number in range(6, len(X)):
        X[number, number // 2 % sensors] += 4.0 * DEVIATION * number
    found = told_after_each(member, X)
    assert {one["number"] for report in found for one in report.events} == {1}
    told = set[int]().union(*(read(report, sensors) for report in found))
    assert len(told) == fewest(sensors)
    causes = found[-1].events[-1]["causes"]
    assert len(causes) == min(sensors, 8)
    assert all(one["share"] is not None for one in causes)
    status = found[-1].status["event"]
    assert [one["seen"] for one in status["causes"]] == [one["seen"] for one in causes]


def test_what_drift_tells_from_row_to_row_gives_none_of_them_away() -> None:
    """Means of n and n + 1 rows, if they are exact, are the row in between."""
    X = rows(1, 200, 3) + np.array([20.0 * DEVIATION, 0.0, 0.0])
    found = [one.status["drift"] for one in told_after_each(device(3), X)]
    means = [
        (drift["rows"], one["after"], row[0])
        for drift, row in zip(found, X, strict=True)
        if drift is not None
        for one in drift["sensors"]
        if one["sensor"] == "s0"
    ]
    assert len(means) > 100
    assert means[-1][1] == pytest.approx(level(0) + 20.0 * DEVIATION, abs=DEVIATION)
    between = [
        abs(later * after - rows_before * before - reading)
        for (rows_before, before, _), (later, after, reading) in pairwise(means)
    ]
    assert np.median(between) > DEVIATION / 2, "no better than a guess"
