"""A broker that goes away and comes back, while an agent reads from it and speaks to it."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from elmgrove.device.outbox import MOST_VERDICTS
from support.agents import Start, append_rows, verdicts, write_rows
from support.mosquitto import Mosquitto, running_broker
from support.paho_client import messages, somebody_at
from support.pump import NAMES, pump
from support.serving import wait_until

#: How often the broker ends while rows come; .ci/run asks for more.
RESTARTS = int(os.environ.get("ELMGROVE_TEST_BROKER_RESTARTS", "4"))
QUICK = {"start_rows": 50, "confidence": 0, "window": 1}
BEGIN = 1714564800


@pytest.fixture(name="place")
def place_fixture(mosquitto: None, tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path, "max_queued_messages 100000") as place:
        yield place


def test_the_broker_may_end_again_and_again_and_each_row_is_judged_once(
    place: Mosquitto, device: Start, tmp_path: Path
) -> None:
    agent = device("pump", source=place.url("plant/pump"), mqtt=place.url("told"), **QUICK)
    agent.logs("subscribed to")
    rows = pump(30 * (RESTARTS + 1), 1)
    for begin in range(0, len(rows), 30):
        with somebody_at(place) as plant:
            some = messages("plant/pump", NAMES, rows[begin : begin + 30], BEGIN + begin)
            plant.say_all(some)
        # Right after: some of them are on their way to the agent, and others wait.
        if begin + 30 < len(rows):
            place.stop()
            place.start()

    def judged() -> list[str]:
        return [one["time"] for one in verdicts(tmp_path / "pump.jsonl")]

    agent.until(lambda: len({*judged()}) == len(rows))
    with somebody_at(place, "told/pump/status") as plant:
        wait_until(lambda: bool(plant.objects("told/pump/status")))
        agent.until(lambda: plant.objects("told/pump/status")[-1]["agent"] == "online")
    assert agent.stop() == 0
    assert len(judged()) == len(rows)


def test_rows_do_not_wait_for_a_broker_and_what_matters_is_told_when_it_is_back(
    place: Mosquitto, device: Start, tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "fan.csv", pump(300, 2), [*NAMES])
    agent = device("fan", mqtt=place.url("told"), follow=True, **QUICK)
    agent.until(lambda: len(verdicts(tmp_path / "fan.jsonl")) == 300)
    place.stop()
    append_rows(path, pump(50, 3) + np.array([0.0, 40.0, 0.0, 0.0]))
    append_rows(path, pump(MOST_VERDICTS + 200, 4))
    agent.until(lambda: len(verdicts(tmp_path / "fan.jsonl")) == 550 + MOST_VERDICTS)
    agent.logs("what there is to say waits in memory")
    place.start()
    with somebody_at(place, "told/fan/#") as plant:
        agent.logs("can be used again")
        last = f"fan.csv, line {551 + MOST_VERDICTS}"

        def told() -> list[str]:
            return [one["where"] for one in plant.objects("told/fan/verdict")]

        agent.until(lambda: last in told())
        kinds = [one["kind"] for one in plant.objects("told/fan/event")]
        assert kinds[0] == "opened"
        assert "ended" in kinds
        # All that waited at the end; the oldest made room.
        assert len(told()) >= MOST_VERDICTS - 50
        agent.until(lambda: plant.objects("told/fan/status")[-1]["agent"] == "online")
    assert agent.stop() == 0
    assert agent.log.count("what there is to say waits in memory") == 1
    assert "messages for it were dropped" in agent.log


def test_an_agent_begins_without_its_broker_and_ends_without_it(
    place: Mosquitto, device: Start, tmp_path: Path
) -> None:
    place.stop()
    agent = device("pump", source=place.url("plant/pump"), mqtt=place.url("told"), **QUICK)
    agent.logs("rows are waited for")
    agent.logs("what there is to say waits in memory")
    place.start()
    agent.logs("subscribed to")
    with somebody_at(place, "told/pump/#") as plant:
        plant.say_all(messages("plant/pump", NAMES, pump(60, 5)))
        agent.until(lambda: len(plant.under("told/pump/verdict")) == 60)
    place.stop()
    assert agent.stop() == 0
    assert agent.log.count("rows are waited for") <= 2
