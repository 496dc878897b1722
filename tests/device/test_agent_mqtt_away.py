"""A broker that goes away and comes back, while an agent reads from it and speaks to it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove.detector.drift import SPIKE
from elmgrove.device.mqtt import MOST_WAITING
from support.agents import Start, append_rows, verdicts
from support.factories import write_rows
from support.mosquitto import Mosquitto, running_broker
from support.paho_client import Somebody, messages, somebody_at
from support.pumps import NAMES, load_rows
from support.serving import wait_until

#: How often the broker ends while rows come; .ci/run asks for more.
RESTARTS = int(os.environ.get("ELMGROVE_TEST_BROKER_RESTARTS", "4"))
#: Rows after which it watches.
LEARNED = 300
QUICK = {"start_rows": 50, "watch_now": True, "window": 1}
BEGIN = 1714564800
TOO_HOT = np.array([0.0, 40.0, 0.0, 0.0])


@pytest.fixture(name="place")
def place_fixture(mosquitto: None, tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path, "max_queued_messages 100000") as place:
        yield place


def test_the_broker_may_end_again_and_again_and_nothing_is_lost(
    place: Mosquitto, device: Start, tmp_path: Path
) -> None:
    """Each row is judged once, and all that the agent says of it is heard, in its order."""
    agent = device(
        "pump",
        source=place.url("plant/pump"),
        mqtt=place.url("told"),
        log_format="json",
        **QUICK | {"alarm": "3/5/5"},
    )
    agent.logs("subscribed to")
    # After the rows by which it learns, an event with each restart.
    rows = load_rows(LEARNED + 30 * RESTARTS, 1)
    rows[[at for at in range(LEARNED, len(rows)) if at % 30 < 4]] += TOO_HOT
    with somebody_at(place, "told/pump/#", client_id="listener") as listener:
        for end in range(LEARNED, len(rows) + 1, 30):
            begin = end - 30 if end > LEARNED else 0
            with somebody_at(place) as plant:
                plant.say_all(messages("plant/pump", NAMES, rows[begin:end], BEGIN + begin))
            if end == len(rows):
                break
            # Right after: some of them are on their way to the agent, and others wait. Or when the
            # agent is there again: some of what it says is on its way.
            before = greetings(listener)
            place.stop()
            place.start()
            if end % 60:
                wait_until(lambda before=before: greetings(listener) > before)
        agent.until(lambda: len({*times(verdicts(tmp_path / "pump.jsonl"))}) == len(rows))
        wait_until(lambda: len({*times(listener.objects("told/pump/verdict"))}) == len(rows))
        agent.until(lambda: listener.objects("told/pump/status")[-1]["agent"] == "online")
        assert agent.stop() == 0
        wait_until(lambda: listener.objects("told/pump/status")[-1]["agent"] == "offline")
    judged = times(verdicts(tmp_path / "pump.jsonl"))
    assert len(judged) == len(rows)
    # What was under way when the broker ended may have come twice.
    assert list(dict.fromkeys(times(listener.objects("told/pump/verdict")))) == judged
    logged = [one for one in map(json.loads, agent.log.splitlines()) if is_news(one)]
    assert len(logged) >= RESTARTS
    heard = [one["text"] for one in listener.objects("told/pump/event")]
    assert list(dict.fromkeys(heard)) == [one["message"] for one in logged]


def is_news(line: dict[str, Any]) -> bool:
    """Whether a line of the log is about an event or a drift that is told."""
    fields = line.get("fields", {})
    return "news" in fields or fields.get("drift", {"kind": SPIKE})["kind"] != SPIKE


def greetings(listener: Somebody) -> int:
    """How often the agent has said that it is there: with each link once, at least."""
    return sum(one["agent"] == "online" for one in listener.objects("told/pump/status"))


def times(judged: list[dict[str, Any]]) -> list[str]:
    """When the rows were that these verdicts are of."""
    return [one["time"] for one in judged]


def test_rows_do_not_wait_for_a_broker_and_what_matters_is_told_when_it_is_back(
    place: Mosquitto, device: Start, tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "fan.csv", load_rows(300, 2), [*NAMES])
    agent = device("fan", mqtt=place.url("told"), follow=True, **QUICK)
    agent.until(lambda: len(verdicts(tmp_path / "fan.jsonl")) == 300)
    place.stop()
    append_rows(path, load_rows(50, 3) + TOO_HOT)
    append_rows(path, load_rows(MOST_WAITING + 200, 4))
    agent.until(lambda: len(verdicts(tmp_path / "fan.jsonl")) == 550 + MOST_WAITING)
    agent.logs("what there is to say waits in memory")
    place.start()
    with somebody_at(place, "told/fan/#") as plant:
        agent.logs("can be used again")
        last = f"fan.csv, line {551 + MOST_WAITING}"

        def told() -> list[str]:
            return [one["where"] for one in plant.objects("told/fan/verdict")]

        agent.until(lambda: last in told())
        kinds = [one["kind"] for one in plant.objects("told/fan/event")]
        assert kinds[0] == "opened"
        assert "ended" in kinds
        # All that waited at the end; the oldest made room.
        assert len(told()) >= MOST_WAITING - 50
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
        plant.say_all(messages("plant/pump", NAMES, load_rows(60, 5)))
        agent.until(lambda: len(plant.under("told/pump/verdict")) == 60)
    place.stop()
    assert agent.stop() == 0
    assert agent.log.count("rows are waited for") <= 2
