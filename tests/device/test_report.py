"""What an agent tells of its device: no row, unless it may, and nothing twice once it is heard."""

import json
import logging
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import pytest

from elmgrove import Detector
from elmgrove.device.commands import Commands
from elmgrove.device.output import Observation
from elmgrove.device.report import AgentReports, Minutes
from elmgrove.device.settings import Settings
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.federation.report import Report, seconds_of
from elmgrove.federation.schemas import json_size
from support.factories import trained_member
from support.reports import numbers_in

#: When the first row is, and seconds between two.
START, STEP = 1_700_006_400.0, 10.0
COLUMNS = ["flow", "temp", "amp"]
#: All rows lie here, and nothing else that a report tells does.
LEVEL, LOWEST, HIGHEST = 5e6, 4e6, 7e6


def rows(seed: int, number: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(LEVEL, 1e4, size=(number, len(COLUMNS)))


CHARTER = Charter("pumps", Detector.for_data(pd.DataFrame(rows(0, 400), columns=COLUMNS)).basis)


def member(name: str = "pump", merged: bool = False, number: int = 400) -> Member:
    """A device that watches."""
    return trained_member(CHARTER.start(name, merged=merged), rows(1, number))


def reports(of: Member, **settings: Any) -> AgentReports:
    made = Settings(**settings)
    return AgentReports(made, of, Commands(of, nullcontext), lambda: None)


def watch(of: Member, told: AgentReports, X: np.ndarray, first: int = 0) -> None:
    for number, row in enumerate(X, first):
        verdict = of.detector.observe(row, START + STEP * number)
        told.observe(Observation(of, None, verdict, ()))


def made(told: AgentReports) -> Report:
    found = told.make()
    assert found is not None
    # As it arrives.
    return Report.from_fields(json.loads(json.dumps(found.fields, allow_nan=False)))


def anomalous(seed: int, number: int) -> np.ndarray:
    return rows(seed, number) + np.array([8e5, 0.0, 0.0])


def readings(report: Report) -> set[str]:
    """Where a report has numbers that can be readings of a sensor."""
    found = numbers_in(json.loads(json.dumps(report.fields)))
    return {path for path, number in found if LOWEST <= abs(number) <= HIGHEST}


def test_no_row_leaves_unless_the_setting_says_so() -> None:
    device = member()
    told = reports(device)
    watch(device, told, rows(2, 50))
    assert readings(made(told)) == set()
    watch(device, told, anomalous(3, 40), 50)
    device.notes["input"] = {"used": 90, "left_out": 1, "reason": "'5123456,7x' is no number"}
    found = made(told)
    assert readings(found) == set(), "of three sensors one would be too many"
    (event,) = found.events
    assert {one["feature"] for one in event["causes"]} == set(COLUMNS), "by name alone"
    assert found.quarantine is None
    assert "5123456" not in json.dumps(found.fields)
    assert found.status["rows"] == {"used": 90, "left_out": 1}

    shown = reports(device, reports="rows")
    found = made(shown)
    assert readings(found) >= {f".quarantine.values.{name}" for name in COLUMNS}
    assert found.quarantine is not None
    assert len(found.quarantine) == 40
    values = np.array([[row["values"][name] for name in COLUMNS] for row in found.quarantine])
    np.testing.assert_allclose(values, anomalous(3, 40), rtol=1e-8)
    assert found.status["rows"]["reason"] == "'5123456,7x' is no number"


def test_it_says_how_the_device_is_doing() -> None:
    device = member()
    told = reports(device, sync_seconds=30.0)
    watch(device, told, rows(2, 12))
    watch(device, told, anomalous(3, 6), 12)
    found = made(told)
    assert (found.device, found.state, found.event_open) == ("pump", "watching", True)
    assert found.status["sync_seconds"] == 30.0
    assert seconds_of(found.status["last_row"]) == START + 17 * STEP
    assert [(one.rows, one.anomalous) for one in found.minutes] == [(6, 0), (6, 0), (6, 6)]
    assert found.minutes[0].minute == START // 60
    (event,) = found.events
    assert event["causes"][0]["feature"] == "flow"
    assert "flow" in event["text"]
    assert made(reports(device, sync_seconds=0.0)).status["sync_seconds"] is None


def test_an_event_is_told_until_it_is_heard_and_again_when_it_changed() -> None:
    device = member()
    told = reports(device)
    watch(device, told, anomalous(3, 5))
    first = made(told).events
    assert [one["rows"] for one in first] == [5]
    assert made(told).events == first, "nobody heard it"
    told.heard(())
    assert (made(told).events, made(told).minutes) == ((), ())
    watch(device, told, anomalous(4, 2), 5)
    assert [one["rows"] for one in made(told).events] == [7]
    # What grows after it was made is not heard with it.
    watch(device, told, anomalous(5, 1), 7)
    told.heard(())
    assert [one["rows"] for one in made(told).events] == [8]
    told.heard(())
    watch(device, told, rows(6, 100), 8)
    (ended,) = made(told).events
    assert ended["end"] is not None


def test_what_was_not_told_is_told_after_a_restart() -> None:
    device = member()
    told = reports(device)
    watch(device, told, rows(2, 30))
    told.note()
    again = Member.from_bytes(device.to_bytes())
    assert made(reports(again)).minutes == made(told).minutes != ()
    assert made(reports(again)).status["last_row"] == made(told).status["last_row"]


def test_a_report_that_cant_be_made_costs_no_sync(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = reports(member())
    monkeypatch.setattr(Minutes, "untold", lambda self: 1 / 0)
    assert told.make() is told.make() is None
    assert [r.levelno for r in caplog.records] == [logging.WARNING], "told once"


def test_a_day_without_a_server_fits_into_a_report() -> None:
    device = member()
    told = reports(device, reports="rows")
    for number in range(2 * 1440):
        verdict = device.detector.observe(rows(number, 1)[0], START + 60.0 * number)
        told.observe(Observation(device, None, verdict, ()))
    found = made(told)
    assert len(found.minutes) == 1440
    assert json_size([one.fields for one in found.minutes]) < 100_000


# What others are to it


def others(count: int, shift: float = 0.0) -> list[Contribution]:
    found = []
    for number in range(count):
        other = member(f"other-{number:02}")
        other.detector.learn_many(rows(20 + number, 300) + shift)
        found.append(other.contribution())
    return found


def test_what_a_merge_changed_is_told_from_sums() -> None:
    device = member(merged=True, number=50)
    told = reports(device)
    with told.comparing():
        device.receive_all(others(2, 3e4))
    cooperation = made(told).cooperation
    assert cooperation is not None
    # By its own model typical rows score 1; one model of everybody is unlike its own rows.
    assert cooperation["before"] == pytest.approx(1.0)
    assert cooperation["after"] != pytest.approx(1.0, abs=0.05)
    # It has 50 rows, they have 700 each.
    assert cooperation["share"] == pytest.approx(1400 / 1450)
    assert cooperation["others"] == 2
    assert cooperation["contributors"] == ["other-00", "other-01"]
    assert cooperation["borrowed_rows"] == 0.0
    again = Member.from_bytes(device.to_bytes())
    assert made(reports(again)).cooperation == cooperation, "it is remembered"
