"""``elmgrove tune``: another threshold or alarm rule, on a state or on the agent that has it."""

import os
import random
import time
from pathlib import Path

import pytest

from elmgrove.detector.detector import Detector
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.thresholds import FixedThreshold
from support.agents import Start, append_rows
from support.commands import Elmgrove, made_once, one_clear_line
from support.factories import detector_in, write_rows
from support.fans import fan_rows, write_fan_rows

KILLS = int(os.environ.get("ELMGROVE_TEST_AGENT_KILLS", "10"))


@pytest.fixture(name="fan")
def fan_fixture(elmgrove: Elmgrove) -> Detector:
    made_once(
        "fan to tune",
        lambda: elmgrove("learn", write_fan_rows("a.csv", fan_rows(1, 1000)), "--state", "fan.elm"),
    )
    return detector_in("fan.elm")


def test_tune_says_what_changed_and_saves_it(elmgrove: Elmgrove, fan: Detector) -> None:
    ran = elmgrove("tune", "fan.elm", "--rate", 0.05, "--alarm", "1/6")
    after = detector_in("fan.elm")
    assert (ran.code, ran.err) == (0, "")
    said = ran.out.splitlines()
    assert said[:3] == [
        "rate: 0.05, before 0.01",
        "alarm_k: 1, before 3",
        "alarm_n: 6, before 5",
    ]
    assert said[3].startswith(f"scores above {after.threshold:.4g} are anomalous, ")
    assert said[4:] == ["Saved fan.elm."]
    assert after.threshold < fan.threshold
    assert after.events.rule == AlarmRule(1, 6, 60)
    assert after.learned == fan.learned


def test_a_fixed_threshold(elmgrove: Elmgrove, fan: Detector) -> None:
    ran = elmgrove("tune", "fan.elm", "--threshold", 2.5)
    assert detector_in("fan.elm").gate.policy == FixedThreshold(2.5)
    assert "threshold: 2.5, before none\n" in ran.out


def test_watch_now_ends_learning(elmgrove: Elmgrove) -> None:
    """An agent that learned from its stream alone need not count first."""
    write_fan_rows("stream.csv", fan_rows(1, 250))
    given = ("--source", "stream.csv", "--verdicts", "", "--window", 1)
    assert elmgrove("device", "run", "--state", "fan.elm", *given).code == 0
    assert detector_in("fan.elm").state == "learning"
    ran = elmgrove("tune", "fan.elm", "--watch-now")
    assert f"scores above {detector_in('fan.elm').threshold:.4g} are anomalous" in ran.out
    assert detector_in("fan.elm").state == "watching"
    assert elmgrove("device", "run", "--state", "new.elm", *given, "--watch-now").code == 0
    assert detector_in("new.elm").state == "watching"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "nothing to change: give --rate, --threshold, --alarm or --watch-now"),
        (("--rate", 2), "between 0 and 1"),
        (("--rate", 0.1, "--threshold", 3), "ways to the same thing"),
        (("--alarm", "5/3"), "1 ≤ k ≤ n"),
        (("--alarm", "3 of 5"), "alarm: K/N or K/N/COOLDOWN, like 3/5"),
    ],
)
def test_what_can_not_be_is_one_clear_line(
    elmgrove: Elmgrove, fan: Detector, options: tuple[object, ...], reason: str
) -> None:
    before = Path("fan.elm").read_bytes()
    assert reason in one_clear_line(elmgrove("tune", "fan.elm", *options))
    assert Path("fan.elm").read_bytes() == before


def test_a_running_agent_is_told_and_goes_on(
    elmgrove: Elmgrove, device: Start, tmp_path: Path
) -> None:
    write_rows(tmp_path / "fan.csv", fan_rows(1, 600))
    agent = device("fan", follow=True, save_rows=600, alarm="3/5")
    agent.until(lambda: Path("fan.elm").exists())
    ran = elmgrove("tune", "fan.elm", "--alarm", "1/1", "--rate", 0.02)
    assert ran.out.splitlines()[-1] == "The agent has saved it."
    agent.logs("tune, asked by command line: rate: 0.02, before 0.01 alarm_k: 1, before 3")
    # Saved before it was said, so a power cut loses nothing.
    agent.kill()
    assert detector_in("fan.elm").events.rule.k == 1
    again = device("fan", follow=True)
    append_rows(tmp_path / "fan.csv", fan_rows(2, 1) + 50.0)
    again.until(lambda: '"alarm": true' in Path("fan.jsonl").read_text())
    assert again.stop() == 0


def test_a_tune_that_is_killed_leaves_the_state_before_or_after(
    elmgrove: Elmgrove, start: Start, fan: Detector
) -> None:
    rates, chance = [0.01], random.Random(0)
    for attempt in range(KILLS):
        wanted = 0.011 + attempt / 1000.0
        running = start("tune", "fan.elm", "--rate", wanted)
        time.sleep(chance.uniform(0.0, 0.1))
        running.kill()
        held = detector_in("fan.elm").gate.policy.rate
        assert held in (rates[-1], pytest.approx(wanted))
        rates.append(held)
    # And nothing is in the way of the next one.
    assert elmgrove("tune", "fan.elm", "--rate", 0.05).code == 0
    assert detector_in("fan.elm").gate.policy.rate == 0.05
