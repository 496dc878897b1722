"""Federations in rounds on Flower: messages, strategy, simulation and processes."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, HiddenLayer
from elmgrove.rounds.clients import Client
from elmgrove.rounds.loop import RoundReport
from elmgrove.rounds.plan import Plan, RuleName
from elmgrove.rounds.predictor import Predictor
from elmgrove.rounds.rules import RoundRule, SumRule
from elmgrove.storage.disk import load
from support.labelled import seas
from support.patterns import INPUTS, rows_of
from support.places import ROOT
from support.rounds import plan_with_targets, run

pytestmark = pytest.mark.usefixtures("flower")

BASIS = Basis(HiddenLayer(INPUTS, 3, seed=7), INPUTS)
PATIENCE = 120.0
EXACT = 1e-9
LOOPBACK = ROOT / "examples" / "flower-app" / "loopback.py"


class Broken(Client):
    """Fails in one of several ways."""

    def __init__(self, name: str, way: str) -> None:
        super().__init__(name)
        self.way = way

    def train(self, request: bytes, number: int) -> bytes:
        if self.way == "raises":
            raise ConnectionError("the fan is on fire")
        return b"something else"


class FakeGrid:
    """Flower's grid with real client apps behind it, without processes between them."""

    def __init__(self, plan: Plan, clients: Iterable[Client]) -> None:
        from flwr.app import Context, RecordDict
        from flwr.supercore.task_identity import TaskIdentity

        from elmgrove.rounds.flower import client_app

        # The sender of messages, which Flower's processes set when they start.
        TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
        # Numbers of nodes as arbitrary as Flower's.
        self.clients = {97 * (i * 31 % 101) + 5: client for i, client in enumerate(clients)}
        self.silent: set[int] = set()
        self.gone: set[int] = set()
        self.queries: list[int] = []
        self.replies: dict[str, Any] = {}
        self.contexts = {
            node: Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})
            for node in self.clients
        }

        def made(context: Any, memory: bytes) -> Client:
            client = self.clients[context.node_id]
            # Made again for each message, as in Flower's processes.
            return plan.client(client.name, memory) if client.name in plan.rows else client

        self.app = client_app(made)

    def get_node_ids(self) -> Iterable[int]:
        return sorted(self.clients.keys() - self.gone)

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        from flwr.app import Error, Message

        pushed = list(messages)
        queries = sum(one.metadata.message_type == "query" for one in pushed)
        self.queries += [queries] if queries else []
        for message in pushed:
            node = message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = secrets.token_hex(8)
            asked = message.metadata.message_type == "query"
            if node in self.silent and not asked:
                continue
            if getattr(self.clients[node], "way", "") == "crashes" and not asked:
                reply = Message(Error(1, "the process is gone"), reply_to=message)
            else:
                reply = self.app(message, self.contexts[node])
            self.replies[message.metadata.message_id] = reply
        return [one.metadata.message_id for one in pushed]

    def pull_messages(self, numbers: Iterable[str]) -> list[Any]:
        # Replies come in any order.
        return [self.replies.pop(one) for one in sorted(numbers) if one in self.replies]


def plan_of(rule: str, rounds: int = 3, fraction: float = 0.6, **more: Any) -> Plan:
    rows = {f"c{index}": rows_of(0, index, 15 * index) for index in range(7)}
    batch = rows_of(0, 99, 12)
    return Plan(rule, BASIS, rows, rounds=rounds, fraction=fraction, seed=5, batch=batch, **more)


def flower_run(
    rule: RoundRule[Any], nodes: FakeGrid, rounds: int = 1, **chosen: Any
) -> list[RoundReport]:
    from elmgrove.rounds.flower import FlowerClients
    from elmgrove.rounds.loop import run_rounds

    reports: list[RoundReport] = []
    reaching = {"clients": len(nodes.clients), "timeout": 1.0}
    reaching |= {name: chosen.pop(name) for name in ("clients", "start") if name in chosen}
    settings = {"on_round": reports.append} | chosen
    if "on_round" in chosen:
        told = chosen["on_round"]
        settings["on_round"] = lambda report: (reports.append(report), told(report))
    engine = FlowerClients(nodes, **reaching)
    run_rounds(rule, engine, rounds=rounds, **settings)
    return reports


@pytest.mark.parametrize(
    ("rule", "bits", "made"),
    [
        *((rule, 64, plan_of) for rule in RuleName),
        *((rule, 64, plan_with_targets) for rule in RuleName),
        ("fedavg", 8, plan_of),
        ("fedavg", 8, plan_with_targets),
    ],
)
def test_flower_ends_where_the_engine_in_this_process_does(
    rule: str, bits: int, made: Callable[..., Plan]
) -> None:
    plan = made(rule, bits=bits)
    chosen = {
        "rounds": plan.rounds,
        "fraction": plan.fraction,
        "seed": plan.seed,
        "exam": plan.exam,
    }
    server = plan.round_rule()
    nodes = FakeGrid(plan, (plan.client(name) for name in plan.rows))
    there = flower_run(server, nodes, **chosen)
    central = plan.round_rule()
    clients = {name: plan.client(name) for name in plan.rows}
    here = run(central, clients, **chosen)
    assert server.merged().evidence.close_to(central.merged().evidence, EXACT)
    assert server.merged().to_bytes() == central.merged().to_bytes()
    costs = [[(r.asked, r.answered, r.left_out, r.down, r.up) for r in rs] for rs in (there, here)]
    assert costs[0] == costs[1]
    assert [report.evaluation for report in there] == [report.evaluation for report in here]
    assert all((report.evaluation is None) == (plan.exam is None) for report in there)


def test_a_client_that_can_not_be_used_is_left_out_with_the_reason_and_the_round_goes_on() -> None:
    plan = plan_of("e2lm", rounds=2, fraction=1.0)
    elsewhere = Basis(HiddenLayer(INPUTS, 3, seed=8), INPUTS)
    odd = replace(plan_of("e2lm"), basis=elsewhere, rows={"odd": rows_of(0, 6, 90)}).client("odd")

    class Odd(Client):
        def train(self, request: bytes, number: int) -> bytes:
            return odd.train(SumRule("e2lm", elsewhere).request(), number)

    others = [Broken(way, way) for way in ("raises", "nonsense", "crashes")]
    nodes = FakeGrid(
        plan, [*(plan.client(name) for name in ("c0", "c1", "c2")), *others, Odd("odd")]
    )
    rule = plan.round_rule()
    reports = flower_run(rule, nodes, rounds=2)
    for report in reports:
        assert report.answered == ("c1", "c2")
        assert report.left_out["raises"] == "ConnectionError: the fan is on fire"
        assert report.left_out["nonsense"].startswith("BadFile")
        assert report.left_out["crashes"] == "failed: the process is gone"
        assert report.left_out["c0"] == "nothing new"
        assert "seed: 7 here, 8 there" in report.left_out["odd"]
    assert rule.merged().evidence.count == 15 + 30


def test_a_silent_client_is_late_and_one_that_is_gone_is_not_asked() -> None:
    plan = plan_of("e2lm", rounds=3, fraction=1.0)
    nodes = FakeGrid(plan, (plan.client(name) for name in ("c1", "c2", "c3")))
    numbers = {client.name: node for node, client in nodes.clients.items()}

    def after(report: RoundReport) -> None:
        if report.number == 1:
            nodes.silent.add(numbers["c1"])
        else:
            nodes.gone.add(numbers["c2"])

    rule = plan.round_rule()
    reports = flower_run(rule, nodes, rounds=3, on_round=after)
    assert reports[0].answered == ("c1", "c2", "c3")
    assert reports[1].left_out == {"c1": "late: no answer within the time given"}
    assert reports[2].left_out["c2"] == "not connected"
    assert reports[2].answered == ("c3",)
    # By round 3 all rows of c3 are in, two thirds of c2's, one third of c1's.
    assert rule.merged().evidence.count == 45 + 20 + 5


def test_a_name_is_taken_once_and_a_node_without_one_takes_no_part(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plan = plan_of("e2lm", rounds=1, fraction=1.0)
    nodes = FakeGrid(plan, [plan.client("c1"), plan.client("c1"), Broken("", "raises")])
    rule = plan.round_rule()
    reports = flower_run(rule, nodes)
    assert reports[0].asked == ("c1",)
    assert rule.merged().evidence.count == 15
    assert "takes no part: the name 'c1' is taken" in caplog.text
    assert "takes no part: an origin is a name of 1 to 200" in caplog.text


def test_a_node_without_a_name_is_asked_again_in_each_round() -> None:
    plan = plan_of("e2lm", rounds=2, fraction=1.0)
    nodes = FakeGrid(plan, [plan.client("c1"), Broken("", "raises"), plan.client("c2")])
    late = list(nodes.clients)[2]
    nodes.gone.add(late)
    reports = flower_run(
        plan.round_rule(), nodes, rounds=2, clients=2, on_round=lambda report: nodes.gone.clear()
    )
    # The first two; then one that just came, and the nameless one again.
    assert nodes.queries == [2, 2]
    assert [report.answered for report in reports] == [("c1",), ("c1", "c2")]


def test_the_example_is_the_classifier_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(LOOPBACK.parent)
    from digits.client import client
    from digits.server import exam, rule

    averages = rule()
    nodes = FakeGrid(plan_of("e2lm"), (client({"partition-id": n}, 2) for n in range(10)))
    reports = flower_run(averages, nodes, rounds=2, exam=exam(None))
    found = [report.evaluation.value for report in reports]
    assert 0.85 < found[0] < found[1] < 1.0


def test_a_client_that_comes_back_on_another_node_goes_on_under_its_name() -> None:
    plan = plan_of("e2lm", rounds=2, fraction=1.0)
    nodes = FakeGrid(plan, [plan.client("c1"), plan.client("c2"), plan.client("c1")])
    first, _, again = nodes.clients
    nodes.gone.add(again)

    def after(report: RoundReport) -> None:
        nodes.gone = {first}

    rule = plan.round_rule()
    reports = flower_run(rule, nodes, rounds=2, clients=2, on_round=after)
    assert [report.answered for report in reports] == [("c1", "c2")] * 2
    assert rule.merged().evidence.count == 15 + 30


def test_too_few_clients_are_not_waited_for_without_end() -> None:
    plan = plan_of("e2lm")
    nodes = FakeGrid(plan, [plan.client("c1")])
    with pytest.raises(ValueError, match="1 of 2 clients came"):
        flower_run(plan.round_rule(), nodes, clients=2, start=0.2)


def test_bytes_are_the_same_after_the_records() -> None:
    from elmgrove.rounds.flower import blob_in, content

    for blob in (b"", b"\x00", secrets.token_bytes(100_000)):
        assert blob_in(content({}, reply=blob), "reply") == blob
    assert blob_in(content({}), "reply") == b""


# Processes


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders are made: a short path, as Ray has sockets in there."""
    with TemporaryDirectory(prefix="elm-", dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def running(scratch: Path) -> list[int]:
    """The processes that were started with this folder for what is temporary, and their like."""
    found, marked = list[int](), f"TMPDIR={scratch}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            inside = (process / "cwd").readlink().is_relative_to(scratch)
            command = (process / "cmdline").read_bytes()
            if (
                inside
                or marked in (process / "environ").read_bytes().split(b"\0")
                or str(scratch).encode() in command
            ):
                found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


def test_the_simulation_gives_the_same_model_and_leaves_nothing(
    scratch: Path, tmp_path: Path
) -> None:
    seas(tmp_path)
    chosen = ["--data", "fleet", "--target", "sea", "--test", "test.csv", "--rounds", "2"]
    said = []
    for engine in ("flower", "local"):
        # As people use it: Ray warns, and warnings are errors here.
        command = [sys.executable, "-m", "elmgrove", "federate", *chosen, "--engine", engine]
        command += ["-o", f"{engine}.elm"]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        # All but the seconds.
        said.append([line.split()[:6] + line.split()[7:] for line in ran.stdout.splitlines()])
    assert running(scratch) == []
    assert list(scratch.iterdir()) == []
    assert said[0] == said[1]
    one, other = (
        load(tmp_path / f"{name}.elm", Predictor.from_bytes) for name in ("flower", "local")
    )
    np.testing.assert_allclose(one.models[0].beta, other.models[0].beta, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize(
    ("command", "number", "most"),
    [
        # The command, and a good part of Ray.
        (["-m", "elmgrove", "federate", "--engine", "flower"], signal.SIGINT, 8),
        (["-m", "elmgrove", "federate", "--engine", "flower"], signal.SIGTERM, 8),
        # A SuperLink, two SuperNodes, the app, and those that wait to start apps.
        ([str(LOOPBACK), "deployment"], signal.SIGTERM, 7),
    ],
    ids=["simulation", "simulation ended", "deployment"],
)
def test_what_is_interrupted_leaves_nothing(
    tmp_path: Path, scratch: Path, command: list[str], number: int, most: int
) -> None:
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *command], cwd=tmp_path, stdout=log, stderr=log)
    until = time.monotonic() + PATIENCE
    while len(running(scratch)) < most and process.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
    assert process.poll() is None, (tmp_path / "log").read_text()
    process.send_signal(number)
    assert process.wait(PATIENCE) not in (0, -number)
    until = time.monotonic() + PATIENCE
    while running(scratch) and time.monotonic() < until:
        time.sleep(0.2)
    assert running(scratch) == []
    assert list(scratch.iterdir()) == []


def test_each_public_name_has_a_docstring_and_a_row() -> None:
    from elmgrove.rounds import flower

    reference = (ROOT / "docs" / "reference.md").read_text()
    for name in flower.__all__:
        assert getattr(flower, name).__doc__
        assert f"| `elmgrove.rounds.flower.{name}` |" in reference
