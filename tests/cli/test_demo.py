"""The demo keeps what it promises: its story, its picture, and the fleet that goes on."""

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from support.agents import sessions
from support.demo import PUMPS, Demo, started
from support.serving import wait_until

BREAKS, MOVES, LEAVES, WARMS, LATE = PUMPS


@pytest.fixture(name="day")
def day_fixture(demo: Demo) -> dict[str, Any]:
    found: dict[str, Any] = demo.numbers["day"]
    return found


def test_it_keeps_all_its_promises(demo: Demo) -> None:
    promises = demo.numbers["promises"]
    assert len(promises) == 15
    assert [text for text, kept in promises.items() if not kept] == []
    assert "Not so in this run" not in demo.text


def test_each_learns_alone_first(demo: Demo) -> None:
    learned = demo.numbers["learned"]
    assert list(learned) == [BREAKS, MOVES, LEAVES, WARMS]
    assert all(one["notices"]["vibration"] < 1.0 for one in learned.values())


def test_after_a_night_all_watch(demo: Demo) -> None:
    joined = demo.numbers["joined"]
    assert (joined["watching"], joined["events"]) == (4, 0)
    assert 100 < joined["bytes"] < 10_000, "sums, and no rows"


def test_the_fault_is_found_and_explained_and_normal_nowhere(day: dict[str, Any]) -> None:
    fault = day[BREAKS]
    [event] = fault["events"]
    assert 0 < fault["delay"] <= 60
    assert event["end"] is None, "it is still worn"
    first, second = event["causes"][:2]
    assert (first["feature"], second["feature"]) == ("vibration", "temperature")
    assert first["seen"] > 2 * first["expected"]
    assert second["seen"] > second["expected"] + 10
    assert fault["flagged"] > 200
    assert event["known"] == []
    assert "a new normal or a fault?" in fault["question"]


@pytest.mark.parametrize("name", [MOVES, WARMS])
def test_what_another_pump_knows_is_an_event_that_names_it(day: dict[str, Any], name: str) -> None:
    found = day[name]
    [event] = found["events"]
    assert event["known"] == [LEAVES]
    assert f", normal at {LEAVES}; " in event["text"]
    assert found["flagged"] > 50


def test_the_move_is_asked_about_and_accepted(day: dict[str, Any]) -> None:
    move = day[MOVES]
    assert f"a new normal or a fault? (normal at {LEAVES}) accept or reject" in move["question"]
    assert move["flagged after"] <= 0.1 * move["rows after"] == 12


def test_a_late_one_learns_a_morning_and_finds_its_fault(demo: Demo) -> None:
    late = demo.numbers["late"]
    assert (late["learned"], late["rows"]) == (300, 120)
    assert late["flagged"] <= 0.1 * late["rows"]
    assert late["rows until the alarm"] <= 10
    assert late["found"] > 0.9
    [event] = late["events"]
    assert "pressure" in [cause["feature"] for cause in event["causes"][:3]]


def test_one_that_left_leaves_no_trace_and_what_was_accepted_stays(demo: Demo) -> None:
    left = demo.numbers["left"]
    assert 0 <= left["difference"] < 1e-9
    assert left["flagged"] <= 0.1 * left["rows"] == 9


def test_it_says_that_pumps_are_simulated_and_prints_what_it_wrote(demo: Demo) -> None:
    numbers, text = demo.numbers, " ".join(demo.text.split())
    assert "The pumps are simulated (seed 1)" in text
    fault, move, late = numbers["day"][BREAKS], numbers["day"][MOVES], numbers["late"]
    assert f"Alarm after {fault['delay']} minutes; {fault['flagged']} rows" in text
    [event] = move["events"]
    assert f"Alarm: {event['rows']} rows, normal at {LEAVES};" in text
    assert f"all normal, it flags {late['flagged']}." in text
    assert "rows were learned as a new normal." in text
    alarms = sum(len(one["events"]) for one in numbers["day"].values())
    assert f"Alarms on that day: {alarms}." in text


def test_it_ends_with_the_dashboards_address_and_how_to_log_in(demo: Demo) -> None:
    told = re.search(r"Dashboard: (http://127\.0\.0\.1:\d+)/ui/\s", demo.text)
    assert told is not None
    assert demo.numbers["joined"]["address"] == f"{told[1]}/pumps"
    assert re.search(r"token:\s+[\w-]{43}\s", demo.text)


def test_the_fleet_goes_on_with_rows_of_each_pump(demo: Demo) -> None:
    assert set(demo.streamed) == set(PUMPS)
    assert min(demo.streamed.values()) > 0
    assert f"{LEAVES} works in batches" in demo.text


def test_a_signal_ends_all_its_processes(tmp_path: Path) -> None:
    with started(tmp_path / "made" / "demo") as ran:
        wait_until(lambda: bool(list(tmp_path.glob("elmgrove-demo-*/pump-*.log"))))
        assert ran.pid in sessions()
        ran.send_signal(signal.SIGTERM)
        _, err = ran.communicate(timeout=300)
    assert ran.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in err
    assert ran.pid not in sessions()
    assert not list(tmp_path.glob("elmgrove-demo-*"))


def test_it_draws_a_picture(demo: Demo) -> None:
    picture = (demo.folder / "demo.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.endswith(b"IEND\xaeB`\x82")
    width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
    assert 800 <= width <= 3000
    assert 300 <= height <= 2000
    assert 10_000 < len(picture) < 1_000_000
