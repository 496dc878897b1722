"""Taking part in rounds on a server: waiting, answering once, going on after an end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from elmgrove.device import Participant, SavedAnswer
from elmgrove.errors import BadFile, BadInput
from elmgrove.exchange import HttpRounds
from elmgrove.federation import Refused
from elmgrove.rounds import Agenda, Client
from elmgrove.storage import load, save, seal
from support.held_rounds import NAMES, agenda_of, found_rounds, plan_of, taking_part
from support.ports import free_port
from support.serving import Server, answers, charter, process, serving, wait_until

GOLDEN = Path(__file__).parent.parent / "golden" / "fan-1.answer"


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(f"sqlite:///{tmp_path_factory.mktemp('server')}/store.db") as running:
        yield running


def test_the_golden_answer_is_read() -> None:
    made = SavedAnswer.from_bytes(GOLDEN.read_bytes())
    assert made == SavedAnswer(3, b"reply", b"memory")
    assert made.to_bytes() == GOLDEN.read_bytes()
    with pytest.raises(BadFile):
        SavedAnswer.from_bytes(seal("elmgrove.answer", {}, {}))


def test_a_client_that_was_ended_sends_the_same_again_and_learns_nothing_twice(
    server: Server, tmp_path: Path
) -> None:
    plan = plan_of("fedavg", rounds=2, fraction=1.0)
    fans = found_rounds(server, agenda_of(plan, "again"), plan.round_rule())
    with taking_part(fans.url, fans.token, plan, folder=tmp_path, names=NAMES[:3]) as others:
        with taking_part(fans.url, fans.token, plan, folder=tmp_path, names=("d",)) as one:
            wait_until(lambda: (tmp_path / "d.answer").exists())
            one.stop.set()
        first = load(tmp_path / "d.answer", SavedAnswer.from_bytes)
        with taking_part(fans.url, fans.token, plan, folder=tmp_path, names=("d",)) as one:
            one.wait()
        others.wait()
    last = load(tmp_path / "d.answer", SavedAnswer.from_bytes)
    assert first.number in (1, 2)
    assert last.number == 2
    assert int.from_bytes(last.memory, "little") == len(plan.rows["d"]), "each row once"
    answered = [one["answered"] for one in fans.shown()["reports"]]
    assert answered == [list(NAMES)] * 2


class Failing(Client):
    """Can't train."""

    def train(self, request: bytes, number: int) -> bytes:
        raise BadInput("the sensor is\x00 gone")


def test_an_answer_that_was_kept_is_sent_and_nothing_is_learned_again(
    server: Server, tmp_path: Path
) -> None:
    plan = plan_of("fedavg", rounds=1, fraction=1.0)
    fans = found_rounds(server, agenda_of(plan, "kept", clients=1), plan.round_rule())
    trained = plan.client("a")
    reply = trained.train(fans.ask("GET", "/rounds/0/request").content, 1)
    save(tmp_path / "a.answer", SavedAnswer(1, reply, trained.memory))

    def make(agenda: Agenda, request: bytes, memory: bytes) -> Client:
        assert memory == trained.memory
        return type("Made", (Failing,), {"receive": trained.receive})("a")

    with HttpRounds(fans.url, "a", token=fans.token) as rounds:
        ending = Participant(rounds, make, kept=tmp_path / "a.answer").run()
    assert ending is not None
    assert fans.shown()["reports"][0]["answered"] == ["a"]


def test_nobody_waits_for_a_client_that_fails(server: Server) -> None:
    plan = plan_of("fedavg", rounds=2, fraction=1.0)
    fans = found_rounds(server, agenda_of(plan, "failing"), plan.round_rule())

    def made(client: Client) -> Client:
        if client.name != "d":
            return client
        failing = type("Made", (Failing,), {"receive": client.receive})
        return failing("d")

    with taking_part(fans.url, fans.token, plan, made=made) as fleet:
        fleet.wait()
    for report in fans.shown()["reports"]:
        assert report["left_out"] == {"d": "BadInput: the sensor is? gone"}
    assert any("left out" in text for text in fleet.told["d"])


def test_a_client_that_can_not_be_made_ends_with_the_reason(server: Server) -> None:
    plan = plan_of("fedavg", rounds=1, fraction=1.0)
    fans = found_rounds(server, agenda_of(plan, "unmade", clients=1), plan.round_rule())

    def make(agenda: Agenda, request: bytes, memory: bytes) -> Client:
        raise BadInput("no such column")

    with HttpRounds(fans.url, "a", token=fans.token) as rounds, pytest.raises(BadInput):
        Participant(rounds, make).run()
    wait_until(lambda: fans.shown()["number"] == 2)
    assert fans.shown()["reports"][0]["left_out"] == {"a": "BadInput: no such column"}


def test_a_federation_without_rounds_says_so(server: Server) -> None:
    other = server.found(charter())
    url = f"{server.base}/{other.charter.name}"
    with (
        HttpRounds(url, "a", token=other.token) as rounds,
        pytest.raises(Refused, match="no federation in rounds"),
    ):
        Participant(rounds, lambda *_: Failing("a")).run()


def test_a_server_that_is_away_is_waited_for(tmp_path: Path) -> None:
    store, port = f"sqlite:///{tmp_path}/store.db", free_port()
    plan = plan_of("fedavg", rounds=1, fraction=1.0)
    base = Server(f"http://127.0.0.1:{port}", store)
    with base.http:
        with process(store, port=port):
            wait_until(lambda: answers(port))
            fans = found_rounds(base, agenda_of(plan, "fans"), plan.round_rule())
        with taking_part(fans.url, fans.token, plan, folder=tmp_path) as fleet:
            wait_until(lambda: len(fleet.told) == 4 and all(fleet.told.values()))
            assert all("Trying again" in told[0] for told in fleet.told.values())
            with process(store, port=port):
                fleet.wait()
