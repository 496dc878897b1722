"""Without a server: agents that pull from each other, a shared folder, and one pull by hand."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Detector
from elmgrove.device.agent import Agent
from elmgrove.device.listening import Listener
from elmgrove.device.settings import Settings
from elmgrove.exchange import FolderExchange, Unreachable
from elmgrove.exchange.peers import PeerSession
from elmgrove.federation import Contribution, Cost, Member, Named, bundle
from elmgrove.storage.disk import load, save
from support.agents import Start, address, append_rows, verdicts, write_rows
from support.commands import Elmgrove, one_clear_line
from support.peers import answering, heard, sync
from support.ports import free_port
from support.serving import LAYER, Federation, charter, evidence, rows, said

CHARTER = charter("fans")


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(Path("like.evidence"), said("x", 99))


def central(*parts: np.ndarray) -> np.ndarray:
    """β of a model that learned all these rows in one place."""
    whole = Detector(LAYER, ridge=CHARTER.ridge)
    whole.learn_many(np.vstack(parts))
    return np.asarray(whole.model.beta)


def member(name: str, seed: int, number: int = 20) -> Member:
    made: Member = CHARTER.start(name)
    made.detector.learn_many(rows(seed, number))
    return made


@contextmanager
def listening(token: str = "") -> Iterator[Listener]:
    made = Listener("127.0.0.1:0", token)
    try:
        yield made
    finally:
        made.close()


# A session with peers


def test_what_was_heard_travels_on(tmp_path: Path) -> None:
    """In a ring each hears from its neighbour alone, and ends with the rows of all."""
    members = [member(f"fan-{seed}", seed) for seed in range(4)]
    with ExitStack() as stack:
        listeners = [stack.enter_context(listening()) for _ in members]
        sessions = [
            PeerSession(one, [listeners[index - 1].url], save=listeners[index].tell)
            for index, one in enumerate(members)
        ]
        for _ in range(4):
            for session, listener in zip(sessions, listeners, strict=True):
                sync(session)
                listener.tell(session.member)
        assert [sync(session).updated for session in sessions] == [False] * 4
    expected = central(*(rows(seed, 20) for seed in range(4)))
    for one in members:
        assert one.detector.model.beta == pytest.approx(expected, rel=1e-9)


def test_a_peer_that_is_away_does_not_keep_others_from_being_heard() -> None:
    pump, fan = member("pump", 1), member("fan", 2)
    pump.offer()
    away = f"http://127.0.0.1:{free_port()}"
    with listening() as listener, answering(b"?", 404) as stranger, answering(b"<html>") as page:
        listener.tell(pump)
        session = PeerSession(fan, [away, stranger, page, "ftp://nonsense", listener.url])
        report = sync(session)
    assert (report.devices, report.updated) == (1, True)
    for url in (away, stranger, page, "ftp://nonsense"):
        assert url in report.refusal
    assert listener.url not in report.refusal


def test_nobody_there_is_unreachable() -> None:
    urls = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]
    with pytest.raises(Unreachable, match=urls[1]):
        sync(PeerSession(member("fan", 1), urls))


def test_a_wrong_token_is_told() -> None:
    with (
        listening("sesame") as listener,
        pytest.raises(Unreachable, match="A valid token is needed"),
    ):
        sync(PeerSession(member("fan", 1), [listener.url], token="guess"))


def test_evidence_that_does_not_fit_is_left_out_with_its_reason() -> None:
    honest = said("liar", 1)
    lie = Contribution(
        "liar",
        20,
        (
            type(honest.evidence)(
                honest.evidence.basis, honest.evidence.U, honest.evidence.V, 0.0, 20.0
            ),
        ),
    )
    with answering(bundle([lie.to_bytes(), said("pump", 2).to_bytes()])) as url:
        report = sync(PeerSession(member("fan", 3), [url]))
    assert report.devices == 1
    assert "'liar'" in report.refusal


def test_only_those_whom_the_rule_chooses_are_merged() -> None:
    fan = member("fan", 3)
    with answering(bundle([said("a", 1).to_bytes(), said("b", 2).to_bytes()])) as url:
        session = PeerSession(fan, [url], rule=Named(["b"]))
        assert sync(session).updated
        assert not sync(session).updated
    assert [held.origin for held in fan.ledger] == ["b"]


def test_with_a_budget_the_cheapest_peer_is_asked() -> None:
    large = bundle([said("a", 1).to_bytes(), said("b", 2).to_bytes()])
    small = bundle([said("c", 3).to_bytes()])
    fan = member("fan", 4)
    with answering(large) as dear, answering(small) as cheap:
        session = PeerSession(fan, [dear, cheap], budget=Cost(60.0, len(small)))
        assert {entry.origin for entry in session.transfer(session.prepare()).entries} == {
            "a",
            "b",
            "c",
        }
        assert {entry.origin for entry in session.transfer(session.prepare()).entries} == {"c"}


def test_an_older_copy_of_oneself_is_news_to_be_told() -> None:
    """The world knows more rows of this device than it does: it takes the lead over them."""
    restored = member("fan", 1, 10)
    restored.offer()
    with answering(bundle([said("fan", 1, 30).to_bytes()])) as url:
        session = PeerSession(restored, [url])
        assert sync(session).updated
        assert restored.shared is not None
        assert restored.shared.epoch > 30
        assert not sync(session).updated
    pump = member("pump", 2)
    pump.receive(said("fan", 1, 30))
    pump.receive_all([restored.shared])
    assert pump.detector.model.beta == pytest.approx(central(rows(1, 10), rows(2, 20)), rel=1e-9)


# Agents


def test_agents_that_listen_end_as_with_a_server(
    device: Start, elmgrove: Elmgrove, federation: Federation
) -> None:
    X = {name: rows(seed, 40) for seed, name in enumerate(("a", "b", "c"))}
    for name, part in X.items():
        write_rows(Path(f"{name}.csv"), part)
        through_server = {"name": name, "source": f"{name}.csv", "verdicts": ""}
        through_server |= {"exchange": address(federation), "token": federation.token}
        Agent(Settings(**through_server, state=f"{name}-served.elm")).run()
    served = load(Path("c-served.elm"), Member.from_bytes).detector.model.beta

    urls = {name: f"http://127.0.0.1:{free_port()}" for name in X}
    usual = {"like": "like.evidence", "follow": True, "sync_seconds": 0.1, "save_seconds": 0.1}
    usual |= {"peer_token": "sesame", "guard": False, "merged": True}
    peers = {"a": ["b"], "b": ["c", "a"], "c": ["b"]}
    # A peer that is always there and has nothing to tell: an agent that reaches no peer would
    # wait longer and longer, and they do not start at one moment.
    with answering(bundle([])) as silent:
        started = {
            name: device(
                name,
                **usual,
                listen=urls[name].removeprefix("http://"),
                peers=[silent, *(urls[peer] for peer in peers[name])],
            )
            for name in X
        }
        for name, agent in started.items():
            agent.until(lambda name=name: total(name) == 80)
        assert started["c"].stop() == 0
    c = load(Path("c.elm"), Member.from_bytes)
    assert c.detector.model.beta == pytest.approx(central(*X.values()), rel=1e-9)
    assert c.detector.model.beta == pytest.approx(served, rel=1e-9)

    # By hand, into a state that no agent is at.
    save(Path("d.elm"), CHARTER.start("d"))
    pull_from_a = ("device", "pull", urls["a"], "--state", "d.elm", "--token")
    assert len(one_clear_line(elmgrove(*pull_from_a, "guess")).splitlines()) == 1
    pulled = elmgrove(*pull_from_a, "sesame")
    assert pulled.code == 0, pulled.err
    assert "d now uses its own rows and those of a, b, c." in pulled.err
    found = load(Path("d.elm"), Member.from_bytes).detector
    assert found.received is not None
    assert found.received.close_to(evidence(np.vstack(list(X.values()))), 1e-9)
    assert [agent.stop() for name, agent in started.items() if name != "c"] == [0, 0]
    assert len(one_clear_line(elmgrove(*pull_from_a, "sesame")).splitlines()) == 1

    # A restart without new rows has as much to tell as before.
    listen = urls["c"].removeprefix("http://")
    again = device("c", listen=listen, peer_token="sesame", follow=True)
    again.until(lambda: len(heard(urls["c"], "sesame")) == 3)


def total(name: str) -> float:
    """The rows of others that a device's state has."""
    path = Path(f"{name}.elm")
    received = load(path, Member.from_bytes).detector.received if path.exists() else None
    return 0 if received is None else received.count


def test_a_listening_agent_keeps_the_guard(device: Start, tmp_path: Path) -> None:
    X = rows(1, 30)
    write_rows(Path("fan.csv"), X[:20])
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = {"like": "like.evidence", "follow": True, "save_rows": 1, "sync_rows": 1}
    settings |= {"listen": f"127.0.0.1:{port}", "peer_token": "sesame"}
    fan = device("fan", **settings)
    fan.until(lambda: len(verdicts(Path("fan.jsonl"))) == 20)
    fan.until(lambda: bool(heard(url, "sesame")) and heard(url, "sesame")[0].evidence.count >= 17)
    for _ in range(10):
        seen = len(verdicts(Path("fan.jsonl")))
        before = heard(url, "sesame")[0].evidence.count
        append_rows(Path("fan.csv"), X[20:21])
        X = np.delete(X, 20, axis=0)
        fan.until(lambda seen=seen: len(verdicts(Path("fan.jsonl"))) > seen)
        after = heard(url, "sesame")[0].evidence.count
        assert after == before or after - before >= 4
    assert fan.stop() == 0


def test_agents_that_share_a_folder_end_as_with_a_server() -> None:
    FolderExchange.create(Path("shared"), CHARTER)
    X = {name: rows(seed, 40) for seed, name in enumerate(("a", "b"))}
    for name, part in X.items():
        write_rows(Path(f"{name}.csv"), part)
        settings = {"name": name, "source": f"{name}.csv", "state": f"{name}.elm"}
        Agent(Settings(**settings, exchange="shared", verdicts="")).run()
    assert load(Path("b.elm"), Member.from_bytes).detector.model.beta == pytest.approx(
        central(*X.values()), rel=1e-9
    )
    write_rows(Path("a.csv"), rows(0, 60))
    again = {"name": "a", "source": "a.csv", "state": "a.elm", "verdicts": ""}
    Agent(Settings(**again, exchange="shared")).run()
    assert load(Path("a.elm"), Member.from_bytes).detector.model.beta == pytest.approx(
        central(rows(0, 60), X["b"]), rel=1e-9
    )
