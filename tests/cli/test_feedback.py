"""``elmgrove accept`` and ``elmgrove reject``: on a state file, and on the agent that has it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove.cli.feedback import Device
from support.agents import Start, append_rows, verdicts
from support.commands import Elmgrove, made_once, one_clear_line
from support.factories import detector_in, write_rows

NAMES = ["time", "rpm", "temp", "volt", "amp"]
#: 2026-05-01, 12:00 UTC.
NOON = 1777636800.0
STATE = Path("pump.elm")


def pump(seed: int, count: int, begin: float, hotter: float = 0.0) -> np.ndarray:
    """Rows of a pump, one a second: one load behind all but volt; the first column is the time."""
    rng = np.random.default_rng(seed)
    load_ = rng.normal(size=count)
    return np.column_stack(
        [
            begin + np.arange(count),
            1500.0 + 100.0 * load_ + 5.0 * rng.normal(size=count),
            60.0 + 6.0 * load_ + 0.5 * rng.normal(size=count) + hotter,
            230.0 + rng.normal(size=count),
            8.0 + 0.8 * load_ + 0.05 * rng.normal(size=count),
        ]
    )


@pytest.fixture(autouse=True)
def anomalous_rows(elmgrove: Elmgrove) -> None:
    """A pump that learned 2,000 rows up to noon, and found 100 anomalous ones after that."""

    def make() -> None:
        write_rows(Path("normal.csv"), pump(1, 2000, NOON - 2000), NAMES)
        write_rows(Path("hot.csv"), pump(2, 100, NOON, hotter=15.0), NAMES)
        ran = elmgrove("learn", "normal.csv", "--state", STATE, "--time", "time")
        assert ran.code == 0, ran.err
        ran = elmgrove("device", "run", "--state", STATE, "--source", "hot.csv", "--verdicts", "")
        assert ran.code == 0, ran.err

    made_once("pump that was hot", make)
    assert waiting() == 100


def detector() -> Any:
    return detector_in(STATE)


def waiting() -> int:
    return len(detector().quarantine)


def anomalous(elmgrove: Elmgrove, rows: np.ndarray) -> int:
    """How many rows of these the state finds anomalous."""
    write_rows(Path("trial.csv"), rows, NAMES)
    return int((detector().score_many(rows[:, 1:]) > detector().threshold).sum())


def test_what_waits_is_learned_and_normal_from_then_on(elmgrove: Elmgrove) -> None:
    before, later = detector().learned, pump(3, 100, NOON + 100, hotter=15.0)
    assert anomalous(elmgrove, later) == 100
    asked = Device(STATE).ask("status")[0]
    assert asked["event"]["rows"] == 100
    assert "temp is" in asked["drift"]["text"]
    ran = elmgrove("accept", STATE, "--dry-run")
    assert "100 rows were learned as a new normal" in ran.out
    assert "Nothing was changed: --dry-run." in ran.out
    assert (waiting(), detector().learned) == (100, before)
    ran = elmgrove("accept", STATE)
    assert ran.code == 0, ran.err
    assert "100 rows were learned as a new normal" in ran.out
    assert "Now watching, anomalous above" in ran.out
    assert "Saved pump.elm." in ran.out
    assert (waiting(), detector().learned) == (0, before + 100)
    assert anomalous(elmgrove, later) <= 5
    found = Device(STATE).ask("status")[0]
    assert (found["event"], found["drift"]) == (None, None), "what was asked is answered"
    assert len(found["last_events"]) == 1
    assert "No row waited" in elmgrove("accept", STATE).out


def test_of_a_time_span_only_its_rows_are_learned(elmgrove: Elmgrove) -> None:
    ran = elmgrove("accept", STATE, "--from", "2026-05-01T12:00:20", "--to", str(NOON + 50))
    assert ran.code == 0, ran.err
    assert "30 rows were learned" in ran.out
    assert "from 2026-05-01 12:00:20 to 2026-05-01 12:00:50 (UTC)" in ran.err
    assert waiting() == 70


def test_rows_of_a_file_are_learned(elmgrove: Elmgrove) -> None:
    before = detector().learned
    write_rows(Path("given.csv"), pump(4, 60, NOON + 500, hotter=15.0), NAMES)
    ran = elmgrove("accept", STATE, "--rows", "given.csv")
    assert ran.code == 0, ran.err
    assert "60 rows were learned as a new normal" in ran.out
    assert (waiting(), detector().learned) == (100, before + 60)


def test_what_is_rejected_is_dropped_and_taken_out(elmgrove: Elmgrove) -> None:
    count = detector().evidence.count
    ran = elmgrove("reject", STATE)
    assert "100 rows were dropped, never to be learned" in ran.out
    assert (waiting(), detector().evidence.count) == (0, count)
    ran = elmgrove("reject", STATE, "--from", NOON - 500, "--dry-run")
    assert "taken out" in ran.out
    assert detector().evidence.count == count
    ran = elmgrove("reject", STATE, "--from", NOON - 500)
    assert detector().evidence.count < count


def test_the_last_answer_is_undone_and_who_gave_it_is_shown(elmgrove: Elmgrove) -> None:
    evidence = detector().evidence
    assert elmgrove("accept", STATE, "--instead").code == 0
    assert "100 rows wait again" in elmgrove("undo", STATE, "--dry-run").out
    assert waiting() == 0
    ran = elmgrove("undo", STATE)
    assert "Undone: 100 rows wait again; 2,000 rows are learned again" in ran.out
    assert waiting() == 100
    assert detector().evidence.close_to(evidence, 1e-9)
    shown = " ".join(elmgrove("status", STATE).out.replace("│", " ").split())
    assert "event 1: fine (command line, 20" in shown
    assert "event 1: undone (command line, 20" in shown
    ran = elmgrove("undo", STATE)
    assert (ran.code, "there is no answer to undo" in ran.err) == (1, True)


def test_what_is_rejected_stays_one_event_and_opens_no_other(elmgrove: Elmgrove) -> None:
    assert elmgrove("reject", STATE).code == 0
    assert detector().events.open is not None, "a fault that is rejected is not over"
    rows = pump(5, 400, NOON + 100)
    rows[:5, 2] += 15.0
    rows[350, 2] += 15.0
    write_rows(Path("later.csv"), rows, NAMES)
    words = ("--source", "later.csv", "--verdicts", "told.jsonl", "--only", "events")
    assert elmgrove("device", "run", "--state", STATE, *words).code == 0
    assert [one["kind"] for one in verdicts(Path("told.jsonl"))] == ["ended"]
    [event] = detector().events.closed
    assert (event.begin, event.rows) == (NOON, 105)


def test_one_anomalous_row_after_accept_is_no_event(elmgrove: Elmgrove) -> None:
    assert elmgrove("accept", STATE).code == 0
    rows = pump(5, 20, NOON + 100, hotter=15.0)
    rows[0, 2] += 60.0
    write_rows(Path("later.csv"), rows, NAMES)
    words = ("--source", "later.csv", "--verdicts", "told.jsonl", "--only", "events")
    assert elmgrove("device", "run", "--state", STATE, *words).code == 0
    assert waiting() == 1
    assert [one["kind"] for one in verdicts(Path("told.jsonl"))] == ["ended"]
    assert detector().events.count == 1


def test_what_is_no_time_and_no_span_is_said(elmgrove: Elmgrove) -> None:
    assert "'soon' is no time" in one_clear_line(elmgrove("accept", STATE, "--from", "soon"))
    backwards = elmgrove("reject", STATE, "--from", "2026-05-02", "--to", "2026-05-01")
    assert "ends after it begins" in backwards.err
    both = elmgrove("accept", STATE, "--rows", "hot.csv", "--from", "2026-05-02")
    assert "in one way" in both.err
    assert waiting() == 100


def test_the_quarantine_is_listed_newest_last(elmgrove: Elmgrove) -> None:
    ran = elmgrove("quarantine", STATE)
    lines = [line for line in ran.out.splitlines() if "2026-05-01" in line]
    assert len(lines) == 15
    assert "12:01:25" in lines[0]
    assert "12:01:39" in lines[-1]
    assert "temp" in lines[-1]
    assert "(not " in lines[-1]
    assert "pump: 100 waiting. These are the newest; 85 more wait." in ran.err
    assert max(map(len, ran.out.splitlines())) <= 200
    elmgrove("reject", STATE)
    ran = elmgrove("quarantine", STATE)
    assert (ran.out, ran.err) == ("", "pump: no anomalous row waits.\n")


def test_a_lasting_change_is_one_event_until_somebody_says_that_it_is_fine(
    elmgrove: Elmgrove, start: Start
) -> None:
    """Newcomer's 4: +15 °C for ever was 2,400 alarms in 2,400 rows."""
    write_rows(Path("live.csv"), pump(5, 200, NOON + 1000), NAMES)
    words = ("--source", "live.csv", "--follow", "--verdicts", "live.jsonl")
    agent = start("device", "run", "--state", STATE, *words)

    def judged() -> list[dict[str, Any]]:
        return [one for one in verdicts(Path("live.jsonl")) if "score" in one]

    def seen(number: int) -> None:
        agent.until(lambda: len(judged()) >= number)

    seen(200)
    append_rows(Path("live.csv"), pump(6, 2400, NOON + 1200, hotter=15.0))
    seen(2600)
    found = Device(STATE).ask("status")[0]
    assert found["state"] == "changing"
    assert found["event"] is not None
    opened = [one for one in verdicts(Path("live.jsonl")) if one.get("kind") == "opened"]
    assert len(opened) <= 3, "events, not rows"

    ran = elmgrove("accept", STATE)
    assert ran.code == 0, ran.err
    assert "The agent has saved it." in ran.out
    agent.until(lambda: agent.log.count("event 2 ended: ") == 1)
    append_rows(Path("live.csv"), pump(7, 1000, NOON + 3600, hotter=15.0))
    seen(3600)
    found = Device(STATE).ask("status")[0]
    assert (found["state"], found["event"]) == ("watching", None)
    assert sum(one["anomalous"] for one in judged()[-500:]) <= 25, "the new level is normal"
    assert agent.stop() == 0
