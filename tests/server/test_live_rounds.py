"""Rounds on a server of our own end as in one process, whatever happens meanwhile."""

import sqlite3
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from elmgrove.federation import Merged
from elmgrove.rounds import (
    AverageRule,
    Client,
    Exam,
    SumRule,
    drawn,
    run_here,
)
from elmgrove.server import Limits
from support.held_rounds import (
    BASIS,
    NAMES,
    Late,
    agenda_of,
    check,
    found_rounds,
    here,
    plan_of,
    rows_of,
    taking_part,
    where,
)
from support.ports import free_port
from support.serving import (
    ADMIN,
    AMPLE,
    Server,
    client,
    empty_database,
    killed_at_the_end,
    serving,
    wait_until,
)


def asking(server: Server, path: str, key: str) -> threading.Thread:
    """A caller with a connection of its own, that asks again as long as there is no room."""

    def ask() -> None:
        with client(server.base, headers={"Authorization": f"Bearer {key}"}) as http:
            while "retry-after" in http.get(path).headers:
                continue

    return threading.Thread(target=ask)


@pytest.mark.parametrize("rule", ["fedavg", "e2lm", "groups"])
def test_a_server_ends_with_the_model_of_one_process(server: Server, rule: str) -> None:
    plan = plan_of(rule)
    fans = found_rounds(server, agenda_of(plan, f"same-{rule}"), plan.round_rule())
    with taking_part(fans.url, fans.token, plan) as fleet:
        check(fans, plan, fleet.wait())
    assert fans.shown()["number"] == plan.rounds + 1


def test_eight_bits_end_alike_as_well(server: Server) -> None:
    plan = plan_of("fedavg", bits=8)
    fans = found_rounds(server, agenda_of(plan, "bits"), plan.round_rule())
    with taking_part(fans.url, fans.token, plan) as fleet:
        check(fans, plan, fleet.wait())


class Silent(Late):
    """Trains as another, and has nothing to say in some rounds."""

    def train(self, request: bytes, number: int) -> bytes:
        reply = self._client.train(request, number)
        return b"" if number in self._late else reply


@pytest.mark.parametrize("rule", ["fedavg", "e2lm"])
def test_a_client_that_is_late_is_left_out_and_the_others_go_on(server: Server, rule: str) -> None:
    plan = plan_of(rule, fraction=0.75)
    who = drawn(NAMES, plan.fraction, plan.seed, 2)[0]
    over = threading.Event()

    def made(client: Client) -> Client:
        return Late(client, {2}, over) if client.name == who else client

    fans = found_rounds(server, agenda_of(plan, f"late-{rule}", deadline=2.0), plan.round_rule())
    with taking_part(fans.url, fans.token, plan, made=made) as fleet:
        wait_until(lambda: fans.shown()["number"] > 2)
        over.set()
        outcomes = fleet.wait()
    reports = fans.shown()["reports"]
    assert reports[1]["left_out"][who] == "late: no reply within 2 s"

    def silent(client: Client) -> Client:
        """Its rows of a round are in its memory, and no reply of it."""
        rounds = {one["number"] for one in reports if client.name in one["left_out"]}
        return Silent(client, rounds, over)

    merged, expected, _ = here(plan, silent)
    assert [one.answered for one in expected] == [tuple(one["answered"]) for one in reports]
    for outcome in outcomes.values():
        assert outcome is not None
        np.testing.assert_allclose(outcome.merged.evidence.U, merged.evidence.U, rtol=1e-9)
        np.testing.assert_allclose(outcome.merged.evidence.V, merged.evidence.V, rtol=1e-9)


def test_if_nobody_answers_the_model_stays(server: Server) -> None:
    plan = plan_of("fedavg", rounds=2)
    fans = found_rounds(server, agenda_of(plan, "silence", deadline=0.05), plan.round_rule())
    for name in NAMES:
        joined = fans.ask("POST", "/devices", fans.token, json={"name": name})
        assert joined.status_code == 201
    wait_until(lambda: fans.shown()["number"] == 3)
    model = Merged.from_bytes(fans.ask("GET", "/rounds/model").content)
    before = plan.round_rule().merged()
    np.testing.assert_allclose(model.evidence.V, before.evidence.V, rtol=1e-9)
    assert [one["answered"] for one in fans.shown()["reports"]] == [[], []]


def test_the_model_is_tested_after_every_round(server: Server) -> None:
    plan = plan_of("e2lm", exam=Exam(rows_of(77)))
    fans = found_rounds(server, agenda_of(plan, "tested"), plan.round_rule(), plan.exam)
    with taking_part(fans.url, fans.token, plan) as fleet:
        fleet.wait()
    _, expected, _ = here(plan)
    for mine, theirs in zip(fans.shown()["reports"], expected, strict=True):
        assert theirs.evaluation is not None
        assert mine["evaluation"]["value"] == pytest.approx(theirs.evaluation.value, rel=1e-9)


def test_who_is_shut_out_is_not_waited_for_and_leaves_the_sum(server: Server) -> None:
    plan = plan_of("e2lm", rounds=2, fraction=1.0)
    fans = found_rounds(server, agenda_of(plan, "revoked"), plan.round_rule())
    over = threading.Event()

    def made(client: Client) -> Client:
        return Late(client, {2}, over) if client.name == "d" else client

    with taking_part(fans.url, fans.token, plan, made=made) as fleet:
        wait_until(lambda: where(fans) == (2, {"a", "b", "c"}))
        assert fans.ask("DELETE", "/devices/d").status_code == 204
        wait_until(lambda: fans.shown()["number"] == 3)
        over.set()
        for thread in fleet.threads:
            thread.join(60)
    assert "d" in fleet.errors
    assert fans.shown()["reports"][1]["left_out"] == {"d": "its key is no longer valid"}
    model = Merged.from_bytes(fans.ask("GET", "/rounds/model").content)
    assert model.devices == 3
    expected = SumRule("without", BASIS)
    run_here(
        expected,
        {name: plan.client(name) for name in "abc"},
        rounds=plan.rounds,
        fraction=1.0,
        seed=0,
    )
    np.testing.assert_allclose(model.evidence.U, expected.merged().evidence.U, rtol=1e-9)


def test_two_servers_on_one_data_base_close_each_round_once(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database = empty_database(request, tmp_path, "postgres")
    plan = plan_of("fedavg", rounds=4)
    with serving(database) as one, serving(database) as other:
        fans = found_rounds(one, agenda_of(plan, "fans"), plan.round_rule())
        half = ("a", "b"), ("c", "d")
        with (
            taking_part(fans.url, fans.token, plan, names=half[0]) as here_,
            taking_part(fans.at(other).url, fans.token, plan, names=half[1]) as there,
        ):
            outcomes = here_.wait() | there.wait()
        check(fans.at(other), plan, outcomes)
        acts = [record.act for record in one.audit("fans")]
        assert acts.count("round closed") == plan.rounds
        assert acts.count("rounds begun") == 1


def test_a_server_that_is_killed_goes_on_and_has_lost_nothing(tmp_path: Path) -> None:
    store, port = f"sqlite:///{tmp_path}/store.db", free_port()
    base = f"http://127.0.0.1:{port}"
    plan = plan_of("fedavg", rounds=2, fraction=1.0)
    may = threading.Event()

    def made(client: Client) -> Client:
        return Late(client, {1}, may) if client.name == "d" else client

    with ExitStack() as ends:
        server = Server(base, store)
        ends.enter_context(server.http)
        with killed_at_the_end(store, port):
            fans = found_rounds(server, agenda_of(plan, "fans"), plan.round_rule())
            fleet = ends.enter_context(taking_part(fans.url, fans.token, plan, made=made))
            ends.callback(may.set)
            wait_until(lambda: where(fans) == (1, {"a", "b", "c"}))
        with killed_at_the_end(store, port):
            assert where(fans) == (1, {"a", "b", "c"}), "they were acknowledged"
            may.set()
            check(fans, plan, fleet.wait())


def test_more_than_may_wait_are_told_to_ask_again(tmp_path: Path) -> None:
    few = Limits(**{**vars(AMPLE), "requests": 4})
    with serving(f"sqlite:///{tmp_path}/store.db", limits=few) as server:
        plan = plan_of("fedavg")
        fans = found_rounds(server, agenda_of(plan, "crowd"), plan.round_rule())
        keys = []
        for name in NAMES[:3]:
            joined = fans.ask("POST", "/devices", fans.token, json={"name": name})
            keys.append(joined.json()["key"])
        turn = f"/v1/federations/{fans.agenda.name}/rounds/turn"
        waiting = [asking(server, f"{turn}?wait=20", key) for key in keys[:2]]
        for thread in waiting:
            thread.start()
        try:

            def crowded() -> bool:
                began = time.monotonic()
                answer = fans.ask("GET", "/rounds/turn?wait=1", keys[2])
                told = answer.headers.get("retry-after")
                return told is not None and int(told) >= 1 and time.monotonic() - began < 1.0

            wait_until(crowded)
        finally:
            assert fans.ask("DELETE", "").status_code == 204
            for thread in waiting:
                thread.join()


def test_waiting_holds_no_connection_of_the_data_base(server: Server) -> None:
    # More of them than there are connections and threads.
    plan = plan_of("fedavg")
    fans = found_rounds(server, agenda_of(plan, "waiting", clients=30), plan.round_rule())
    keys = []
    for number in range(20):
        joined = fans.ask("POST", "/devices", fans.token, json={"name": f"n{number}"})
        keys.append(joined.json()["key"])
    turn = f"/v1/federations/{fans.agenda.name}/rounds/turn?wait=30"
    waiting = [asking(server, turn, key) for key in keys]
    for thread in waiting:
        thread.start()
    for _ in range(20):
        assert server.ask("GET", "/ready").status_code == 200
        assert server.ask("GET", "/v1/federations", ADMIN).status_code == 200
    assert all(thread.is_alive() for thread in waiting), "all of that while they waited"
    assert fans.ask("DELETE", "").status_code == 204
    for thread in waiting:
        thread.join()


def test_a_damaged_reply_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with serving(f"sqlite:///{path}") as server:
        plan = plan_of("e2lm", rounds=1, fraction=1.0)
        fans = found_rounds(server, agenda_of(plan, "fans"), plan.round_rule())
        may = threading.Event()

        def made(client: Client) -> Client:
            return Late(client, {1}, may) if client.name == "d" else client

        with taking_part(fans.url, fans.token, plan, made=made) as fleet:
            wait_until(lambda: set(fans.shown()["replied"]) == {"a", "b", "c"})
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE reply SET blob = x'00' WHERE origin = 'a'")
            may.set()
            fleet.wait()
        left_out = fans.shown()["reports"][0]["left_out"]
        assert left_out == {"a": "its reply was damaged in the data base"}


def test_the_first_model_is_that_of_the_first_batch(server: Server) -> None:
    plan = plan_of("fedavg")
    fans = found_rounds(server, agenda_of(plan, "first"), plan.round_rule())
    request = fans.ask("GET", "/rounds/0/request").content
    rule = AverageRule.asking("first", request)
    np.testing.assert_array_equal(rule.model.beta, plan.round_rule().model.beta)
