"""Excerpts are within their bytes, however wide a device is and whatever its columns are called."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from elmgrove import Detector
from elmgrove.detector.events import Event
from elmgrove.detector.verdict import Cause
from elmgrove.device.report import events_within, rows_within, status_within
from elmgrove.device.status import status_of
from elmgrove.federation.member import Member
from elmgrove.federation.report import (
    MOST_BYTES_EVENTS,
    MOST_BYTES_STATUS,
    MOST_BYTES_WAITING,
    Report,
)
from elmgrove.federation.schemas import MOST_EVENTS, MOST_WAITING, json_size
from support.factories import trained
from support.reports import report, status

LONG = "温度" * 5000
CAUSES = tuple(Cause(f"{number}{LONG}", 0.1, 1.5, 2.5) for number in range(8))


def event(number: int, causes: tuple[Cause, ...] = CAUSES, **more: Any) -> Event:
    made = Event(number, 1.7e9 + number, 1.8e9, 9.0, 1.7e9, 2.0, 7, causes)
    return replace(made, **more)


def taken(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a server takes: it refuses what is not an event, or too long."""
    return list(report(events=tuple(events)).events)


def test_many_events_of_long_names_lose_causes_and_say_so() -> None:
    found = taken(events_within([event(number) for number in range(40)]))
    assert [one["number"] for one in found] == list(range(40 - MOST_EVENTS, 40))
    assert MOST_BYTES_EVENTS / 4 < json_size(found) <= MOST_BYTES_EVENTS
    for one in found:
        kept = len(one["causes"])
        assert kept < 8
        assert one["text"].endswith(f"({kept} of 8 causes are shown)")
    few = taken(events_within([event(1)]))
    assert len(few[0]["causes"]) == 8, "where there is room, none is lost"
    assert few[0]["causes"][0]["feature"].endswith("…")


@pytest.mark.parametrize(
    ("more", "causes"),
    [
        ({"peak": math.nan}, None),
        ({"threshold": math.inf}, None),
        ({"begin": 1e30}, None),
        ({"causes": (Cause("a\x00\n", math.inf, 1.0, 1.0), Cause("b", 0.1, 1.0, 1.0))}, ["b"]),
        ({"causes": (Cause("a\x00\n", 0.1, math.inf, math.nan),)}, ["a?"]),
        ({"causes": (Cause("\ud800\x00", 0.1, 1.0, 1.0),)}, ["??"]),
        ({"begin": 17, "end": None, "peak_at": 18}, ["flow"]),
    ],
)
def test_what_no_json_and_no_calendar_has_is_left_out(
    more: dict[str, Any], causes: list[str] | None
) -> None:
    usual = {"causes": (Cause("flow", 0.9, 22.0, 31.0),)}
    found = taken(events_within([event(1, **usual | more)]))
    assert [[one["feature"] for one in told["causes"]] for told in found] == (
        [] if causes is None else [causes]
    )


def test_a_status_is_cut_with_a_word_that_it_was() -> None:
    long = {"text": LONG, "causes": [cause._asdict() for cause in CAUSES]}
    many = status(event=long, drift={"sensors": [LONG] * 60, "text": ""})
    assert json_size(many) > 10 * MOST_BYTES_STATUS
    found = status_within(many)
    assert json_size(found) <= MOST_BYTES_STATUS
    assert "without causes" in found["cut"]
    assert found["event"]["causes"] == found["drift"]["sensors"] == []
    assert report(status=found).state == "watching"
    assert "cut" not in status_within(status())


def wide(columns: int, names: str = "sensor {}") -> Member:
    """A device with so many columns, and anomalous rows."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, columns)) + 5e6
    frame = pd.DataFrame(X, columns=[names.format(number) for number in range(columns)])
    detector = trained(Detector.for_data(frame, units=4), X)
    for number in range(60):
        detector.quarantine.add(
            detector.basis.scaling(X[number] + 1.0), 9.5, (1.7e9, 1.7e9 + number)
        )
    return Member("wide", detector)


def test_rows_are_told_in_their_own_units_the_newest() -> None:
    member = wide(3)
    found = rows_within(member.detector.quarantine.waiting, member.detector.basis)
    assert len(found) == MOST_WAITING
    assert found[-1]["time"] == 1.7e9 + 59
    X = np.random.default_rng(1).normal(size=(200, 3)) + 5e6
    assert found[-1]["values"] == pytest.approx(
        {f"sensor {n}": X[59, n] + 1.0 for n in range(3)}, rel=1e-8
    )
    assert found[-1]["score"] == 9.5
    assert report(quarantine=tuple(found)).quarantine == tuple(found)


@pytest.mark.parametrize(
    ("columns", "names"), [(500, "sensor {}"), (4096, "the sensor number {} of all")]
)
def test_of_wide_rows_fewer_are_told_and_of_very_wide_ones_the_first_columns(
    columns: int, names: str
) -> None:
    member = wide(columns, names)
    waiting = member.detector.quarantine.waiting
    found = rows_within(waiting, member.detector.basis)
    assert 0 < len(found) < MOST_WAITING
    assert MOST_BYTES_WAITING / 3 < json_size(found) <= MOST_BYTES_WAITING
    assert found[-1]["time"] == 1.7e9 + 59
    if columns == 4096:
        (one,) = found
        assert one["cut"] == f"the first {len(one['values'])} of 4096 columns"
    else:
        assert all(len(one["values"]) == columns and "cut" not in one for one in found)


def test_a_wide_device_is_told_of_within_all_bounds() -> None:
    member = wide(2000, "x" * 300 + "{}")
    told = status_of(member) | {"version": "1", "sync_seconds": None}
    made: Report = report(
        status=status_within(told),
        quarantine=tuple(rows_within(member.detector.quarantine.waiting, member.detector.basis)),
    )
    assert json_size(made.fields) < MOST_BYTES_STATUS + MOST_BYTES_WAITING
