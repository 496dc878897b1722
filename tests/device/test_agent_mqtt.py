"""An agent with nothing but a broker: rows come from there, and all that it says goes there."""

import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

from elmgrove.detector.drift import SPIKE
from elmgrove.device.mqtt import MOST_WAITING
from elmgrove.federation.member import Member
from support.agents import Running, Start, append_rows, verdicts
from support.factories import member_in, write_rows
from support.mosquitto import Mosquitto, running_broker
from support.paho_client import Somebody, messages, somebody_at
from support.pumps import NAMES, load_rows
from support.serving import Authority, wait_until
from support.sources import hostile, random_messages

#: Settings with which a device watches after some fifty rows.
QUICK = {"start_rows": 50, "watch_now": True, "verdicts": "", "window": 1}
#: The broker of most tests need not keep anything over its end, and drops no message. (Not by 0: so
#: mosquitto 2.0.11 hangs up on who publishes what it may not.)
FAST = "autosave_on_changes false\nmax_queued_messages 100000"
TOO_HOT = np.array([0.0, 40.0, 0.0, 0.0])
_numbers = count()


@pytest.fixture(name="place", scope="module")
def place_fixture(mosquitto: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with running_broker(tmp_path_factory.mktemp("mosquitto"), FAST) as place:
        yield place


class Pump:
    """A device with topics of its own, and somebody who gives it rows and hears all it says."""

    def __init__(self, place: Mosquitto, plant: Somebody, device: Start, **settings: Any) -> None:
        self.name = f"pump-{next(_numbers)}"
        self.plant, self.place = plant, place
        self._device, self._settings = device, settings
        plant.listen(f"told/{self.name}/#")
        self.agent = self.start()

    def start(self, **more: Any) -> Running:
        usual = {"source": self.place.url(f"plant/{self.name}"), "mqtt": self.place.url("told")}
        before = self.greetings()
        self.agent = self._device(self.name, **usual | QUICK | self._settings | more)
        self.agent.logs("subscribed to")
        # By then it hears what it is asked as well.
        self.agent.until(lambda: self.greetings() > before)
        return self.agent

    def greetings(self) -> int:
        """How often it has said that it is there."""
        return sum(status["agent"] == "online" for status in self.told("status"))

    def give(self, rows: np.ndarray) -> None:
        """Publishes rows, and waits until the agent has told of them all."""
        wanted = len(self.told("verdict")) + len(rows)
        self.plant.say_all(messages(f"plant/{self.name}", NAMES, rows))
        self.agent.until(lambda: len(self.told("verdict")) >= wanted)

    def told(self, what: str) -> list[dict[str, Any]]:
        return self.plant.objects(f"told/{self.name}/{what}")

    def status(self) -> dict[str, Any]:
        return self.told("status")[-1]

    def ask(self, asked: Any) -> dict[str, Any]:
        """Asks for something, and gives the answer."""
        before = len(self.told("done"))
        self.plant.say(f"told/{self.name}/do", asked)
        self.agent.until(lambda: len(self.told("done")) > before)
        return self.told("done")[-1]

    @property
    def member(self) -> Member:
        return member_in(self.agent.folder / f"{self.name}.elm")


@pytest.fixture(name="authority")
def authority_fixture(tmp_path: Path) -> Authority:
    return Authority(tmp_path, trustme.CA())


@pytest.fixture(name="plant")
def plant_fixture(place: Mosquitto) -> Iterator[Somebody]:
    with somebody_at(place) as plant:
        yield plant


def test_a_machine_is_set_up_with_nothing_but_a_broker(
    place: Mosquitto, plant: Somebody, device: Start
) -> None:
    one = Pump(place, plant, device)
    assert (one.status()["agent"], one.status()["state"]) == ("online", "waiting")
    one.give(load_rows(300, 1))
    assert sum(verdict["anomalous"] for verdict in one.told("verdict")[100:]) < 20
    one.give(load_rows(20, 2) + TOO_HOT)
    assert all(verdict["anomalous"] for verdict in one.told("verdict")[300:])
    assert one.told("verdict")[-1]["where"] == f"plant/{one.name}, message 320"
    event = one.told("event")[0]
    assert (event["device"], event["kind"]) == (one.name, "opened")
    assert event["causes"][0]["feature"] == "temp"
    one.agent.until(lambda: one.status()["event"] is not None)
    assert one.status()["event"]["causes"][0]["feature"] == "temp"
    assert one.status()["score"] > one.status()["threshold"]
    done = one.ask({"action": "accept", "id": "mine"})
    assert (done["refused"], done["action"], done["id"]) == (False, "accept", "mine")
    assert "learned as a new normal" in done["said"][0]
    one.agent.until(lambda: one.status()["event"] is None)
    assert one.told("event")[-1]["kind"] == "ended"
    assert "rows wait again" in one.ask({"action": "undo"})["said"][0]
    one.agent.until(lambda: one.status()["event"] is not None)
    assert one.told("event")[-1]["kind"] == "opened"
    assert [said["by"] for said in one.status()["answers"]] == ["mqtt", "mqtt"]
    assert one.ask({"action": "accept"})["refused"] is False
    one.agent.until(lambda: one.status()["event"] is None)
    assert one.agent.stop() == 0, one.agent.log
    wait_until(lambda: one.status() == {"agent": "offline", "device": one.name})
    detector = one.member.detector
    assert detector.learned - detector.taken == 320


def test_what_comes_while_the_agent_is_away_is_not_lost(
    place: Mosquitto, plant: Somebody, device: Start
) -> None:
    one = Pump(place, plant, device)
    sent = messages(f"plant/{one.name}", NAMES, load_rows(300, 4), begin=1714564800)

    def judged() -> list[str]:
        return [verdict["time"] for verdict in one.told("verdict")]

    plant.say_all(sent[:150])
    one.agent.until(lambda: len(judged()) == 150)
    assert one.agent.stop() == 0
    plant.say_all(sent[150:250])
    one.start()
    one.agent.until(lambda: len(judged()) == 250)
    assert len({*judged()}) == 250, "nothing comes twice after an end in order"
    # Killed as well: what it learned since it last saved is lost, and not what waits.
    one.agent.kill()
    plant.say_all(sent[250:])
    one.start()
    # A row that it had judged, and not acknowledged yet when it was killed, comes again.
    one.agent.until(lambda: len({*judged()}) == 300)
    assert one.agent.stop() == 0
    assert [*dict.fromkeys(judged())] == sorted({*judged()}), "in their order"


def test_the_broker_says_that_an_agent_is_gone_which_could_not_say_so(
    place: Mosquitto, plant: Somebody, device: Start
) -> None:
    one = Pump(place, plant, device)
    one.give(load_rows(60, 5))
    one.agent.kill()
    wait_until(lambda: one.status() == {"agent": "offline", "device": one.name})
    with somebody_at(place, f"told/{one.name}/status") as late:
        wait_until(lambda: bool(late.under(f"told/{one.name}/status")))
        assert late.objects(f"told/{one.name}/status")[0]["agent"] == "offline"
        assert late.under(f"told/{one.name}/status")[0].retain
    one.start()
    assert one.status()["agent"] == "online"


def test_what_is_asked_in_the_wrong_way_is_answered_and_ends_nothing(
    place: Mosquitto, plant: Somebody, device: Start
) -> None:
    one = Pump(place, plant, device)
    assert "has not begun" in one.ask({"action": "accept"})["said"][0]
    one.give(load_rows(60, 7))
    for asked, said in {
        "no JSON": "this is not JSON",
        "[" * 4000: "this is not JSON",
        "[1]": "ask by an object",
        "NaN": "ask by an object",
        "null": "ask by an object",
        "x" * 5000: "at most 4,096 bytes",
        '{"action": "tune", "rate": 0.5}': "action is accept, reject or undo, not 'tune'",
        '{"action": ["accept"]}': "action is accept, reject or undo",
        '{"action": {"a": 1}}': "action is accept, reject or undo",
        '{"action": "accept", "id": 7}': "id is a text",
        '{"action": "accept", "rows": [[1, 2, 3, 4]]}': "accept takes event, from, instead, to",
        '{"action": "accept", "from": "yesterday"}': "is no time",
        '{"action": "accept", "from": NaN}': "is no time",
        '{"action": "accept", "from": 1e400}': "is no time",
        '{"action": "reject", "instead": true}': "reject takes event, from, to",
        '{"action": "accept", "instead": "yes"}': "instead is true or false",
        '{"action": "reject", "from": null, "to": null}': "'from' is null",
        '{"action": "undo", "from": 1}': "undo takes nothing",
        b"\xff\xfe\x00": "this is not JSON",
        '{"action": "\\ud800"}': "action is accept, reject or undo",
    }.items():
        answer = one.ask(asked)
        assert answer["refused"], asked
        assert said in answer["said"][0], asked
    one.give(load_rows(5, 8))
    answer = one.ask({"action": "reject", "id": "ä\ud800"})
    assert (answer["refused"], answer["action"]) == (False, "reject")
    assert one.agent.stop() == 0


def test_what_was_retained_is_not_done(place: Mosquitto, plant: Somebody, device: Start) -> None:
    one = Pump(place, plant, device)
    one.give(load_rows(200, 9))
    one.give(load_rows(10, 10) + TOO_HOT)
    assert one.agent.stop() == 0
    plant.say(f"told/{one.name}/do", {"action": "accept"}, retain=True)
    one.start()
    one.agent.logs("a message that was retained is not done")
    assert one.ask({"action": "accept", "id": "now"})["id"] == "now"
    assert len(one.told("done")) == 1
    plant.say(f"told/{one.name}/do", b"", retain=True)


def test_who_asks_without_end_is_told_to_wait_and_rows_go_on(
    place: Mosquitto, plant: Somebody, device: Start
) -> None:
    one = Pump(place, plant, device)
    one.give(load_rows(60, 11))
    plant.say_all([(f"told/{one.name}/do", {"action": "reject", "id": str(i)}) for i in range(300)])
    one.give(load_rows(20, 12))
    one.agent.until(lambda: any("others wait" in done["said"][0] for done in one.told("done")))
    one.agent.until(lambda: any(not done["refused"] for done in one.told("done")))
    assert one.agent.stop() == 0


USERS = {"pump": "secret", "plant": "knows"}
ACL = """\
user pump
topic read plant/pump
topic write told/pump/#
topic read told/pump/do

user plant
topic readwrite #
"""


@pytest.mark.parametrize("by", ["password", "certificate"])
def test_with_tls_and_rules_what_is_refused_is_told_once(
    mosquitto: None, tmp_path: Path, authority: Authority, device: Start, by: str
) -> None:
    if by == "password":
        asks, users, name = "", USERS, "pump"
        plants, own = {"user": "plant", "password": "knows"}, {"mqtt_password": "secret"}
    else:
        asks, users, name = "require_certificate true\nuse_identity_as_username true", None, ""
        plants = authority.signed("plant")
        own = {"certificate": authority.signed_with_key("pump")}
    config, ca = f"{FAST}\n{asks}", authority.ca
    with (
        running_broker(tmp_path, config, users=users, acl=ACL, authority=authority) as place,
        somebody_at(place, "told/pump/#", ca=ca, **plants) as plant,
    ):
        where = {"source": place.url("plant/pump", name), "mqtt": place.url("told", name)}
        agent = device("pump", **where, ca=ca, **own, **QUICK)
        agent.logs("subscribed to")
        plant.say_all(messages("plant/pump", NAMES, load_rows(100, 13)))
        agent.until(lambda: len(plant.under("told/pump/verdict")) == 100)
        # The rules say nothing of Home Assistant.
        agent.logs("not published")
        plant.say("told/pump/do", {"action": "reject"})
        agent.until(lambda: bool(plant.under("told/pump/done")))
        assert agent.stop() == 0
        assert agent.log.count("not published") == 1
        assert "write homeassistant/device/" in agent.log
        assert "secret" not in agent.log


def test_whatever_anybody_says_the_agent_goes_on(
    place: Mosquitto, plant: Somebody, device: Start
) -> None:
    one = Pump(place, plant, device)
    # Before there is a row; and damaged rows, once it is known what rows are.
    for seed, said in ((17, [*hostile().values()]), (18, random_messages(200, 16))):
        for topic in (f"plant/{one.name}", f"told/{one.name}/do", "homeassistant/status"):
            plant.say_all([(topic, payload) for payload in said])
        wanted = len(one.told("verdict")) + 60
        plant.say_all(messages(f"plant/{one.name}", NAMES, load_rows(60, seed)))
        one.agent.until(lambda wanted=wanted: len(one.told("verdict")) >= wanted)
    one.agent.until(lambda: (one.status().get("rows") or {"left_out": 0})["left_out"] > 100)
    assert one.agent.stop() == 0
    assert "Traceback" not in one.agent.log
    assert one.agent.log.count("is left out") == 10


def test_a_wrong_password_is_told_and_watching_goes_on(
    mosquitto: None, tmp_path: Path, device: Start
) -> None:
    with running_broker(tmp_path, FAST, users=USERS) as place:
        write_rows(tmp_path / "fan.csv", load_rows(80, 14), [*NAMES])
        agent = device(
            "fan",
            follow=True,
            mqtt=place.url("told", "pump"),
            mqtt_password="wrong",
            **QUICK | {"verdicts": "fan.jsonl"},
        )
        agent.logs("does not let 'pump' in")
        agent.until(lambda: len(verdicts(tmp_path / "fan.jsonl")) == 80)
        assert agent.stop() == 0
        assert agent.log.count("does not let 'pump' in") == 1
        assert "messages were not delivered" in agent.log


def test_devices_learn_from_each_other_by_the_broker_that_has_their_rows(
    place: Mosquitto, plant: Somebody, start: Start, device: Start, tmp_path: Path
) -> None:
    data = write_rows(tmp_path / "normal.csv", load_rows(200, 20), [*NAMES])
    where = place.url("federation/pumps")
    learned = start("learn", data, "--state", "like.elm", "--window", 1)
    assert learned.end() == 0, learned.log
    founding = ("federation", "create", "pumps", "--like", "like.elm")
    made = start(*founding, "--exchange", where)
    assert made.end() == 0, made.log
    names = ("left", "right")
    plant.listen("told/left/#", "told/right/#")
    usual = {"exchange": where, "mqtt": place.url("told"), "sync_seconds": 0.5, "guard": False}
    agents = [
        device(name, source=place.url(f"plant/{name}"), watch_now=True, verdicts="", **usual)
        for name in names
    ]
    for seed, (name, agent) in enumerate(zip(names, agents, strict=True), 21):
        agent.logs("subscribed to")
        plant.say_all(messages(f"plant/{name}", NAMES, load_rows(150, seed)))
    for name, agent in zip(names, agents, strict=True):
        seeds = count(100)

        def knows(name: str = name, seeds: Iterator[int] = seeds) -> bool:
            # What changed is told every few seconds, where there are new rows.
            plant.say_all(messages(f"plant/{name}", NAMES, load_rows(1, next(seeds))))
            return bool(plant.objects(f"told/{name}/status")[-1].get("others") == 1)

        agent.until(knows)
        assert len(plant.under(f"told/{name}/verdict")) >= 150
    assert [agent.stop() for agent in agents] == [0, 0]


# A broker that goes away and comes back, while an agent reads from it and speaks to it

#: How often the broker ends while rows come; .ci/run asks for more.
RESTARTS = int(os.environ.get("ELMGROVE_TEST_BROKER_RESTARTS", "4"))
#: Rows after which it watches.
LEARNED = 300
WATCHING = {"start_rows": 50, "watch_now": True, "window": 1}
BEGIN = 1714564800


@pytest.fixture(name="away")
def away_fixture(mosquitto: None, tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path, "max_queued_messages 100000") as away:
        yield away


def test_the_broker_may_end_again_and_again_and_nothing_is_lost(
    away: Mosquitto, device: Start, tmp_path: Path
) -> None:
    """Each row is judged once, and all that the agent says of it is heard, in its order."""
    agent = device(
        "pump",
        source=away.url("plant/pump"),
        mqtt=away.url("told"),
        log_format="json",
        **WATCHING | {"alarm": "3/5/5"},
    )
    agent.logs("subscribed to")
    # After the rows by which it learns, an event with each restart.
    rows = load_rows(LEARNED + 30 * RESTARTS, 1)
    rows[[at for at in range(LEARNED, len(rows)) if at % 30 < 4]] += TOO_HOT
    with somebody_at(away, "told/pump/#", client_id="listener") as listener:
        for end in range(LEARNED, len(rows) + 1, 30):
            begin = end - 30 if end > LEARNED else 0
            with somebody_at(away) as plant:
                plant.say_all(messages("plant/pump", NAMES, rows[begin:end], BEGIN + begin))
            if end == len(rows):
                break
            # Right after: some of them are on their way to the agent, and others wait. Or when the
            # agent is there again: some of what it says is on its way.
            before = greetings(listener)
            away.stop()
            away.start()
            if end % 60:
                wait_until(lambda before=before: greetings(listener) > before)
        agent.until(lambda: len({*times_of(verdicts(tmp_path / "pump.jsonl"))}) == len(rows))
        wait_until(lambda: len({*times_of(listener.objects("told/pump/verdict"))}) == len(rows))
        agent.until(lambda: listener.objects("told/pump/status")[-1]["agent"] == "online")
        assert agent.stop() == 0
        wait_until(lambda: listener.objects("told/pump/status")[-1]["agent"] == "offline")
    judged = times_of(verdicts(tmp_path / "pump.jsonl"))
    assert len(judged) == len(rows)
    # What was under way when the broker ended may have come twice.
    assert list(dict.fromkeys(times_of(listener.objects("told/pump/verdict")))) == judged
    logged = [one for one in map(json.loads, agent.log.splitlines()) if is_new(one)]
    assert len(logged) >= RESTARTS
    heard = [one["text"] for one in listener.objects("told/pump/event")]
    assert list(dict.fromkeys(heard)) == [one["message"] for one in logged]


def is_new(line: dict[str, Any]) -> bool:
    """Whether a line of the log is about an event or a drift that is told."""
    fields = line.get("fields", {})
    return "news" in fields or fields.get("drift", {"kind": SPIKE})["kind"] != SPIKE


def greetings(listener: Somebody) -> int:
    """How often the agent has said that it is there: with each link once, at least."""
    return sum(one["agent"] == "online" for one in listener.objects("told/pump/status"))


def times_of(judged: list[dict[str, Any]]) -> list[str]:
    """When the rows were that these verdicts are of."""
    return [one["time"] for one in judged]


def test_rows_do_not_wait_for_a_broker_and_what_matters_is_told_when_it_is_back(
    away: Mosquitto, device: Start, tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "fan.csv", load_rows(300, 2), [*NAMES])
    agent = device("fan", mqtt=away.url("told"), follow=True, **WATCHING)
    agent.until(lambda: len(verdicts(tmp_path / "fan.jsonl")) == 300)
    away.stop()
    append_rows(path, load_rows(50, 3) + TOO_HOT)
    append_rows(path, load_rows(MOST_WAITING + 200, 4))
    agent.until(lambda: len(verdicts(tmp_path / "fan.jsonl")) == 550 + MOST_WAITING)
    agent.logs("what there is to say waits in memory")
    away.start()
    with somebody_at(away, "told/fan/#") as plant:
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
    away: Mosquitto, device: Start, tmp_path: Path
) -> None:
    away.stop()
    agent = device("pump", source=away.url("plant/pump"), mqtt=away.url("told"), **WATCHING)
    agent.logs("rows are waited for")
    agent.logs("what there is to say waits in memory")
    away.start()
    agent.logs("subscribed to")
    with somebody_at(away, "told/pump/#") as plant:
        plant.say_all(messages("plant/pump", NAMES, load_rows(60, 5)))
        agent.until(lambda: len(plant.under("told/pump/verdict")) == 60)
    away.stop()
    assert agent.stop() == 0
    assert agent.log.count("rows are waited for") <= 2
