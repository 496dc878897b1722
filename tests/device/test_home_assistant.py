"""A device appears in Home Assistant by itself: its message, and a real Home Assistant with it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove.device.mqtt import DeviceTopics, discovery, discovery_topic
from elmgrove.exchange.broker_address import BrokerAddress
from support.agents import Start
from support.home_assistant import Environment, living_in
from support.mosquitto import Mosquitto, running_broker
from support.paho_client import Somebody, messages, somebody_at
from support.places import GOLDEN
from support.pumps import NAMES, load_rows
from support.serving import wait_until

#: What the mqtt component of a Home Assistant said of itself (tests/support/home_assistant_schema).
COMPONENT = json.loads((GOLDEN / "home-assistant-2026.2.json").read_text())
QUICK = {"start_rows": 50, "watch_now": True, "verdicts": "", "window": 1}
TOO_HOT = np.array([0.0, 40.0, 0.0, 0.0])
ENTITIES = {
    "sensor.pump_1_score",
    "sensor.pump_1_threshold",
    "sensor.pump_1_rows_learned",
    "sensor.pump_1_state",
    "binary_sensor.pump_1_anomalous",
    "binary_sensor.pump_1_drift",
    "button.pump_1_accept",
    "button.pump_1_reject",
}


def topics(name: str = "pump 1", url: str = "mqtt://host/elmgrove") -> DeviceTopics:
    return DeviceTopics.under(BrokerAddress.parsed(url), name)


def require_known(what: str, given: dict[str, Any]) -> None:
    known = COMPONENT["options"][what]
    assert {*given} <= {*known["known"]}
    assert {*known["required"]} <= {*given}


def test_the_message_is_one_that_the_component_knows() -> None:
    message = discovery(topics(), "0.2.0")
    require_known("message", message)
    require_known("device", message["device"])
    require_known("origin", message["origin"])
    assert message["device"]["identifiers"]
    for part in message["components"].values():
        own = {key: value for key, value in part.items() if key != "platform"}
        require_known(part["platform"], own)
        assert part["unique_id"]
    ids = [part["unique_id"] for part in message["components"].values()]
    assert len({*ids}) == len(ids)


@pytest.mark.parametrize("name", ["pump 1", "Pumpe Süd/2", "泵", "a" * 150, "+#"])
def test_the_topic_of_the_message_is_one_that_the_component_reads(name: str) -> None:
    topic = discovery_topic(topics(name))
    assert topic.startswith("homeassistant/device/")
    assert re.fullmatch(COMPONENT["topic"], topic.removeprefix("homeassistant/"))
    assert not {*topics(name).status} & {*"+#"}
    others = (topics(f"{name}!"), topics(name, "mqtt://host/other"))
    assert topic not in {discovery_topic(other) for other in others}


def test_what_can_be_done_is_asked_of_the_device_alone() -> None:
    parts = discovery(topics(), "0.2.0")["components"]
    assert [json.loads(parts[name]["payload_press"]) for name in ("accept", "reject")] == [
        {"action": "accept"},
        {"action": "reject"},
    ]
    assert parts["accept"]["command_topic"] == "elmgrove/pump%201/do"


@pytest.fixture(name="place")
def place_fixture(mosquitto: None, tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path, "autosave_on_changes false") as place:
        yield place


def test_a_device_says_it_again_when_home_assistant_begins(place: Mosquitto, device: Start) -> None:
    with somebody_at(place, "homeassistant/#", "told/#") as house:
        agent = device("pump 1", source=place.url("plant"), mqtt=place.url("told"), **QUICK)
        where = discovery_topic(topics("pump 1", place.url("told")))
        agent.until(lambda: len(house.under(where)) == 1)
        said = house.objects(where)[0]
        assert said["device"]["name"] == "pump 1"
        house.say("homeassistant/status", "offline")
        house.say("homeassistant/status", b"\xff\xfe")
        before = len(house.under("told/pump%201/status"))
        house.say("homeassistant/status", "online")
        agent.until(lambda: len(house.under(where)) == 2)
        agent.until(lambda: len(house.under("told/pump%201/status")) > before)
        assert house.objects(where)[1] == said
        with somebody_at(place, where) as late:
            wait_until(lambda: len(late.under(where)) == 1)
            assert late.under(where)[0].retain
        assert agent.stop() == 0
    assert len(house.under(where)) == 2


# With Home Assistant itself


@pytest.mark.parametrize("later", [False, True], ids=["installed", "later"])
def test_the_component_takes_the_message_and_leaves_nothing_out(
    home_assistant: Environment, later: bool
) -> None:
    found = home_assistant.read(discovery(topics(), "0.2.0"), later=later)
    assert not [name for name, missing in found["left_out"].items() if missing]


def test_a_machine_appears_by_itself_and_its_buttons_work(
    home_assistant: Environment, place: Mosquitto, device: Start, tmp_path: Path
) -> None:
    where = discovery_topic(topics("pump 1", place.url("told")))
    agent = device("pump 1", source=place.url("plant"), mqtt=place.url("told"), **QUICK)
    agent.logs("subscribed to")
    with somebody_at(place, where, "told/#", "homeassistant/status") as plant:
        plant.say_all(messages("plant", NAMES, load_rows(300, 1)))
        wait_until(lambda: len(plant.under(where)) == 1)
        with living_in(tmp_path / "house", home_assistant, place) as house:
            house.until(lambda: {*house.states()} >= ENTITIES)
            # It has said that it begins, and the device has said again what it is.
            house.until(lambda: bool(plant.under("homeassistant/status")))
            house.until(lambda: len(plant.under(where)) == 2)
            score = "sensor.pump_1_score"
            maker = house.rendered(f"{{{{ device_attr('{score}', 'manufacturer') }}}}")
            assert maker == "Elmgrove"
            assert house.rendered(f"{{{{ device_attr('{score}', 'name') }}}}") == "pump 1"
            house.until(lambda: int(house.state("sensor.pump_1_rows_learned") or 0) > 280)
            assert house.state("sensor.pump_1_state") == "watching"
            assert float(house.state(score) or "nan") > 0.0
            assert float(house.state("sensor.pump_1_threshold") or "nan") > 1.0
            assert house.state("binary_sensor.pump_1_anomalous") == "off"
            assert house.state("binary_sensor.pump_1_drift") == "off"
            anomalous_then_fine(house, plant)
            agent.kill()
            house.until(lambda: house.state(score) == "unavailable")
            assert "ERROR" not in house.log.read_text().partition("Starting Home Assistant")[2]
        device("pump 1", source=place.url("plant"), mqtt=place.url("told"), **QUICK)
        with living_in(tmp_path / "house", home_assistant, place) as house:
            house.until(lambda: house.state("binary_sensor.pump_1_anomalous") == "off")
            # Who takes the machine away empties its message.
            plant.say(where, b"", retain=True)
            house.until(lambda: not {*house.states()} & ENTITIES)


def anomalous_then_fine(house: Any, plant: Somebody) -> None:
    """Rows are anomalous, and somebody presses the button."""
    plant.say_all(messages("plant", NAMES, load_rows(40, 2) + TOO_HOT))
    house.until(lambda: house.state("binary_sensor.pump_1_anomalous") == "on")
    anomalous = house.states()["binary_sensor.pump_1_anomalous"]["attributes"]
    assert anomalous["device_class"] == "problem"
    assert "temp" in anomalous["text"]
    house.until(lambda: house.state("binary_sensor.pump_1_drift") == "on")
    assert "temp is" in house.states()["binary_sensor.pump_1_drift"]["attributes"]["text"]
    house.press("button.pump_1_accept")
    house.until(lambda: house.state("binary_sensor.pump_1_anomalous") == "off")
    done = plant.objects("told/pump%201/done")[-1]
    assert (done["refused"], done["action"]) == (False, "accept")
    assert "rows were learned as a new normal" in done["said"][0]
    house.until(lambda: int(house.state("sensor.pump_1_rows_learned") or 0) > 320)
    house.press("button.pump_1_reject")
    wait_until(lambda: len(plant.objects("told/pump%201/done")) == 2)
    assert plant.objects("told/pump%201/done")[-1]["action"] == "reject"
