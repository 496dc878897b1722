"""Federations in rounds on a server, for tests: made there, and clients in threads of their own."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, HiddenLayer
from elmgrove.device import Ending, Participant
from elmgrove.exchange import HttpRounds
from elmgrove.federation import Merged
from elmgrove.rounds import (
    Agenda,
    Client,
    Exam,
    Loss,
    Opening,
    Plan,
    RoundReport,
    RoundRule,
    run_here,
)
from support.serving import ADMIN, Server

INPUTS, UNITS = 5, 4
BASIS = Basis(HiddenLayer(INPUTS, UNITS, "sigmoid", seed=5), INPUTS, score="loss")
NAMES = ("a", "b", "c", "d")


def rows_of(seed: int, count: int = 60) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, INPUTS))


def plan_of(rule: str, rounds: int = 3, fraction: float = 0.5, **more: Any) -> Plan:
    """Four clients with rows of their own, and the first batch that Fed-ELMS needs."""
    rows = {name: rows_of(place) for place, name in enumerate(NAMES)}
    batch = rows_of(99, 2 * UNITS) if rule == "fedavg" else np.empty((0, 0))
    how = {"rounds": rounds, "fraction": fraction, "seed": 3, "batch": batch} | more
    return Plan(rule, BASIS, rows, **how)


def agenda_of(plan: Plan, name: str, **more: Any) -> Agenda:
    """What a server is told of a plan."""
    how = {"clients": len(plan.rows), "rounds": plan.rounds, "fraction": plan.fraction}
    how |= {"seed": plan.seed, "groups": plan.groups, "distance": plan.distance}
    return Agenda(name, plan.rule, **(how | more))


@dataclass
class HeldFederation:
    """A federation in rounds on a server, and how to join it."""

    server: Server
    agenda: Agenda
    token: str

    @property
    def url(self) -> str:
        return f"{self.server.base}/{self.agenda.name}"

    def ask(self, method: str, path: str, secret: str = ADMIN, **more: Any) -> Any:
        where = f"/v1/federations/{self.agenda.name}{path}"
        return self.server.ask(method, where, secret, **more)

    def shown(self) -> dict[str, Any]:
        answer = self.ask("GET", "/rounds")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def at(self, server: Server) -> "HeldFederation":
        return HeldFederation(server, self.agenda, self.token)


def found_rounds(
    server: Server, agenda: Agenda, rule: RoundRule[Any], exam: Exam | None = None
) -> HeldFederation:
    opening = Opening.of(agenda, rule, exam).to_bytes()
    answer = server.ask("POST", "/v1/rounds", ADMIN, content=opening)
    assert answer.status_code == 201, answer.text
    return HeldFederation(server, agenda, answer.json()["token"])


@dataclass
class Fleet:
    """Clients that take part, each in a thread."""

    outcomes: dict[str, Ending | None] = field(default_factory=dict)
    told: dict[str, list[str]] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    threads: list[threading.Thread] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float = 120.0) -> dict[str, Ending | None]:
        for thread in self.threads:
            thread.join(seconds)
            assert not thread.is_alive(), (self.told, self.errors)
        assert not self.errors, self.errors
        return self.outcomes


@contextmanager
def taking_part(
    url: str,
    token: str,
    plan: Plan,
    *,
    folder: Path | None = None,
    made: Callable[[Client], Client] = lambda client: client,
    names: Mapping[str, object] | tuple[str, ...] = NAMES,
) -> Iterator[Fleet]:
    """The clients of a plan; with a folder they keep their keys and answers there."""
    fleet = Fleet()

    def run(name: str) -> None:
        told = fleet.told.setdefault(name, [])
        keyfile = None if folder is None else folder / f"{name}.key"
        kept = None if folder is None else folder / f"{name}.answer"
        try:
            with HttpRounds(url, name, token=token, keyfile=keyfile) as server:
                client = Participant(
                    server,
                    lambda agenda, request, memory: made(plan.client(name, memory)),
                    kept=kept,
                    tell=told.append,
                    stop=fleet.stop,
                )
                fleet.outcomes[name] = client.run()
        except Exception as error:  # told to the test, which is in another thread
            fleet.errors[name] = error

    fleet.threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in fleet.threads:
        thread.start()
    try:
        yield fleet
    finally:
        fleet.stop.set()
        for thread in fleet.threads:
            thread.join()


class Late(Client):
    """Trains as another, but answers some rounds only when it may."""

    def __init__(self, client: Client, late: set[int], may: threading.Event) -> None:
        super().__init__(client.name)
        self._client, self._late, self._may = client, late, may

    @property
    def memory(self) -> bytes:
        return self._client.memory

    def train(self, request: bytes, number: int) -> bytes:
        reply = self._client.train(request, number)
        if number in self._late:
            self._may.wait(120.0)
        return reply

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        return self._client.receive(request, gift, number)


def where(fans: HeldFederation) -> tuple[int, set[str]]:
    """Which round it is, and who replied."""
    shown = fans.shown()
    return shown["number"], set(shown["replied"])


def here(plan: Plan, made: Any = lambda client: client) -> tuple[Merged, list[RoundReport], Any]:
    """The plan in this process: the model, the reports, and what clients got."""
    reports, rule = list[RoundReport](), plan.round_rule()
    clients = {name: made(plan.client(name)) for name in plan.rows}
    how = {"rounds": plan.rounds, "fraction": plan.fraction, "seed": plan.seed, "exam": plan.exam}
    delivery = run_here(rule, clients, on_round=reports.append, **how)
    return rule.merged(), reports, delivery


def check(fans: HeldFederation, plan: Plan, outcomes: Mapping[str, Ending | None]) -> None:
    """All is as in this process, to 1e-9."""
    merged, reports, delivery = here(plan)
    for name, outcome in outcomes.items():
        assert outcome is not None
        assert outcome.merged.devices == merged.devices
        for mine, theirs in zip(outcome.merged.parts, merged.parts, strict=True):
            np.testing.assert_allclose(mine.U, theirs.U, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(mine.V, theirs.V, rtol=1e-9, atol=1e-12)
        assert outcome.loss.mean == pytest.approx(delivery.losses[name].mean, rel=1e-9)
    found = [RoundReport.from_fields(one) for one in fans.shown()["reports"]]
    for mine, theirs in zip(found, reports, strict=True):
        assert (mine.number, mine.asked, mine.answered) == (
            theirs.number,
            theirs.asked,
            theirs.answered,
        )
        assert (mine.left_out, mine.up) == (theirs.left_out, theirs.up)
