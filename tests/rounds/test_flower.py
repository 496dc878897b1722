"""Federations in rounds on Flower: messages, strategy, simulation and processes."""

import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, HiddenLayer
from elmgrove.rounds.clients import Client, Loss
from elmgrove.rounds.local import run_here
from elmgrove.rounds.plan import Plan, RuleName
from elmgrove.rounds.predictor import Predictor
from elmgrove.rounds.report import RoundReport
from elmgrove.rounds.rules import RoundRule
from elmgrove.storage.disk import load
from support.commands import Elmgrove
from support.factories import member_in
from support.labelled_fleet import seas
from support.patterns import INPUTS, rows_of
from support.places import ROOT
from support.rounds import plan_with_targets

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

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        raise ConnectionError("the fan is on fire")


class FakeGrid:
    """Flower's grid with real client apps behind it, without processes between them."""

    def __init__(self, plan: Plan, clients: Iterable[Client]) -> None:
        from flwr.app import Context, RecordDict
        from flwr.supercore.task_identity import TaskIdentity

        from elmgrove.rounds.flower.apps import client_app

        # The sender of messages, which Flower's processes set when they start.
        TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
        # Numbers of nodes as arbitrary as Flower's.
        self.clients = {97 * (i * 31 % 101) + 5: client for i, client in enumerate(clients)}
        self.silent: set[int] = set()
        self.gone: set[int] = set()
        self.waits: list[float] = []
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

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float) -> list[Any]:
        from flwr.app import Error, Message

        messages, replies = list(messages), []
        if messages and messages[0].metadata.message_type == "query":
            self.waits.append(timeout)
        for message in messages:
            node = message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = secrets.token_hex(8)
            if node in self.silent and message.metadata.message_type != "query":
                continue
            crashes = getattr(self.clients[node], "way", "") == "crashes"
            if crashes and message.metadata.message_type != "query":
                replies.append(Message(Error(1, "the process is gone"), reply_to=message))
            else:
                replies.append(self.app(message, self.contexts[node]))
        # Replies come in any order.
        return replies[::-1]


def plan_of(rule: str, rounds: int = 3, fraction: float = 0.6, **more: Any) -> Plan:
    rows = {f"c{index}": rows_of(0, index, 15 * index) for index in range(7)}
    batch = rows_of(0, 99, 12)
    return Plan(rule, BASIS, rows, rounds=rounds, fraction=fraction, seed=5, batch=batch, **more)


def strategy_run(
    rule: RoundRule[Any], nodes: FakeGrid, **chosen: Any
) -> tuple[list[RoundReport], Any]:
    from elmgrove.rounds.flower.strategy import RoundsStrategy

    reports: list[RoundReport] = []
    settings = {"clients": len(nodes.clients), "timeout": 1.0} | chosen
    strategy = RoundsStrategy(rule, on_round=reports.append, **settings)
    return reports, strategy.run(nodes)


DETECTORS = [rule for rule in RuleName if rule != RuleName.balanced]


@pytest.mark.parametrize(
    ("rule", "bits", "made"),
    [
        *((rule, 64, plan_of) for rule in DETECTORS),
        *((rule, 64, plan_with_targets) for rule in RuleName),
        ("fedavg", 8, plan_of),
        ("fedavg", 8, plan_with_targets),
    ],
)
def test_a_strategy_ends_where_the_local_engine_does(
    rule: str, bits: int, made: Callable[..., Plan]
) -> None:
    plan, there, here = made(rule, bits=bits), [], []
    chosen = {
        "rounds": plan.rounds,
        "fraction": plan.fraction,
        "seed": plan.seed,
        "exam": plan.exam,
    }
    server = plan.round_rule()
    nodes = FakeGrid(plan, (plan.client(name) for name in plan.rows))
    there, given = strategy_run(server, nodes, **chosen)
    central = plan.round_rule()
    clients = {name: plan.client(name) for name in plan.rows}
    got = run_here(central, clients, on_round=here.append, **chosen)
    assert server.merged().evidence.close_to(central.merged().evidence, EXACT)
    assert server.merged().to_bytes() == central.merged().to_bytes()
    costs = [[(r.asked, r.answered, r.left_out, r.down, r.up) for r in rs] for rs in (there, here)]
    assert costs[0] == costs[1]
    assert [report.evaluation for report in there] == [report.evaluation for report in here]
    assert all((report.evaluation is None) == (plan.exam is None) for report in there)
    assert (given.losses, given.down) == (got.losses, got.down)


def test_a_client_that_can_not_be_used_is_left_out_with_the_reason_and_the_round_goes_on() -> None:
    plan = plan_of("e2lm", rounds=2, fraction=1.0)
    odd = plan_of("e2lm").client("c6")
    odd.train(
        Plan("e2lm", Basis(HiddenLayer(INPUTS, 3, seed=8), INPUTS), {}).round_rule().request(), 3
    )

    class Odd(Client):
        def __init__(self) -> None:
            super().__init__("odd")

        def train(self, request: bytes, number: int) -> bytes:
            again = plan_of("e2lm").client("c6", odd.memory)
            return again.train(request, number)

        def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
            return Loss(0.0, 0)

    others = [Broken(way, way) for way in ("raises", "nonsense", "crashes")]
    nodes = FakeGrid(plan, [*(plan.client(name) for name in ("c0", "c1", "c2")), *others, Odd()])
    rule = plan.round_rule()
    reports, delivery = strategy_run(rule, nodes, rounds=2)
    for report in reports:
        assert report.answered == ("c1", "c2")
        assert report.left_out["raises"] == "ConnectionError: the fan is on fire"
        assert report.left_out["nonsense"].startswith("BadFile")
        assert report.left_out["crashes"] == "failed: the process is gone"
        assert report.left_out["c0"] == "nothing new"
        assert "seed: 7 here, 8 there" in report.left_out["odd"]
    assert rule.merged().evidence.count == 15 + 30
    assert delivery.losses.keys() == {"c0", "c1", "c2", "odd"}


def test_a_silent_client_is_late_and_one_that_is_gone_is_not_asked() -> None:
    plan = plan_of("e2lm", rounds=3, fraction=1.0)
    nodes = FakeGrid(plan, (plan.client(name) for name in ("c1", "c2", "c3")))
    numbers = {client.name: node for node, client in nodes.clients.items()}
    from elmgrove.rounds.flower.strategy import RoundsStrategy

    reports: list[RoundReport] = []

    def told(report: RoundReport) -> None:
        reports.append(report)
        if report.number == 1:
            nodes.silent.add(numbers["c1"])
        else:
            nodes.gone.add(numbers["c2"])

    rule = plan.round_rule()
    strategy = RoundsStrategy(rule, clients=3, rounds=3, timeout=1.0, on_round=told)
    strategy.run(nodes)
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
    reports, _ = strategy_run(rule, nodes)
    assert reports[0].asked == ("c1",)
    assert rule.merged().evidence.count == 15
    assert "takes no part: the name 'c1' is taken" in caplog.text
    assert "takes no part: an origin is a name of 1 to 200" in caplog.text


def test_a_node_without_a_name_is_asked_again_but_not_waited_for_as_long() -> None:
    plan = plan_of("e2lm", rounds=2, fraction=1.0)
    nodes = FakeGrid(plan, [plan.client("c1"), Broken("", "raises"), plan.client("c2")])
    late = list(nodes.clients)[2]
    nodes.gone.add(late)
    from elmgrove.rounds.flower.strategy import RoundsStrategy

    def told(report: RoundReport) -> None:
        nodes.gone.clear()

    strategy = RoundsStrategy(
        plan.round_rule(), clients=2, rounds=2, start=300.0, timeout=60.0, on_round=told
    )
    strategy.run(nodes)
    # First all, then one that just came among them, then the silent one alone.
    assert nodes.waits == [300.0, 60.0, 10.0]


def test_a_path_that_is_too_long_for_sockets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from elmgrove.rounds.flower.simulation import simulate

    (tmp_path / "long").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "long"))
    with pytest.raises(ValueError, match="set TMPDIR to a short one"):
        simulate(plan_of("e2lm"), lambda report: None)


@pytest.mark.parametrize("kept", [True, False])
def test_the_example_says_nothing_of_one_more_row_in_a_second_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """Two runs have two contexts, so that only a file can remember what was said."""
    monkeypatch.syspath_prepend(LOOPBACK.parent)
    from fans.client import client
    from fans.rows import made_up
    from fans.server import sum_rule

    node = {"name": "fan-0", "data": str(tmp_path / "rows.csv")}
    if kept:
        node["state"] = str(tmp_path / "fan-0.elm")
    rows, counts = made_up(0), []
    for count in (len(rows) - 1, len(rows)):
        np.savetxt(node["data"], rows[:count], "%.6f", ",")
        rule, one = sum_rule(), client(node, 2)
        nodes = FakeGrid(plan_of("e2lm"), [one])
        strategy_run(rule, nodes, rounds=2)
        counts.append(rule.merged().evidence.count - (len(rows) - 1))
    assert counts == ([0, 0] if kept else [0, 1])


def test_a_client_that_comes_back_on_another_node_goes_on_under_its_name() -> None:
    plan = plan_of("e2lm", rounds=2, fraction=1.0)
    nodes = FakeGrid(plan, [plan.client("c1"), plan.client("c2"), plan.client("c1")])
    first, _, again = nodes.clients
    nodes.gone.add(again)
    from elmgrove.rounds.flower.strategy import RoundsStrategy

    reports: list[RoundReport] = []

    def told(report: RoundReport) -> None:
        reports.append(report)
        nodes.gone = {first}

    rule = plan.round_rule()
    strategy = RoundsStrategy(rule, clients=2, rounds=2, timeout=1.0, on_round=told)
    strategy.run(nodes)
    assert [report.answered for report in reports] == [("c1", "c2")] * 2
    assert rule.merged().evidence.count == 15 + 30


def test_too_few_clients_are_not_waited_for_without_end() -> None:
    plan = plan_of("e2lm")
    nodes = FakeGrid(plan, [plan.client("c1")])
    with pytest.raises(ValueError, match="1 of 2 clients came"):
        strategy_run(plan.round_rule(), nodes, clients=2, start=0.2)


def test_bytes_are_the_same_after_the_records() -> None:
    from elmgrove.rounds.flower.strategy import array_of, blob_of

    for blob in (b"", b"\x00", secrets.token_bytes(100_000)):
        assert blob_of(array_of(blob)) == blob


# Processes


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders are made: a short path, as Ray has sockets in there."""
    with TemporaryDirectory(prefix="elm-", dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def running(scratch: Path) -> list[int]:
    from elmgrove.rounds.flower.simulation import working_in

    return working_in(scratch)


def test_the_simulation_gives_the_same_model_and_leaves_nothing(
    elmgrove: Elmgrove, scratch: Path
) -> None:
    # By groups, which E²LM's sums are part of: each start of Ray costs some 20 s.
    chosen = ("federate", "--rule", "groups", "--clients", 12, "--rounds", 2, "--fraction", 0.5)
    ran = elmgrove(*chosen, "--engine", "flower", "--timeout", 60, "-o", "flower.elm")
    assert ran.code == 0, ran.err
    assert running(scratch) == []
    assert list(scratch.iterdir()) == []
    assert elmgrove(*chosen, "--engine", "local", "-o", "local.elm").code == 0
    one, other = (member_in(f"{name}.elm").merged for name in ("flower", "local"))
    assert one is not None
    assert other is not None
    assert one.evidence.close_to(other.evidence, EXACT)
    assert one.devices == other.devices
    assert len(one.parts) == len(other.parts) > 1
    for mine, theirs in zip(one.parts, other.parts, strict=True):
        assert mine.close_to(theirs, EXACT)
    assert f"{one.devices} of 12 clients took part" in ran.out


def test_a_simulation_with_a_target_tests_the_model_after_each_round(
    elmgrove: Elmgrove, scratch: Path, tmp_path: Path
) -> None:
    seas(tmp_path)
    chosen = ("federate", "--data", "fleet", "--target", "sea", "--test", "test.csv", "--rounds", 2)
    said = []
    for engine in ("flower", "local"):
        ran = elmgrove(*chosen, "--engine", engine, "-o", f"{engine}.elm")
        assert ran.code == 0, ran.err
        # All but the seconds.
        said.append([line.split()[:6] + line.split()[7:] for line in ran.out.splitlines()])
    assert said[0] == said[1]
    one, other = (load(Path(f"{name}.elm"), Predictor.from_bytes) for name in ("flower", "local"))
    np.testing.assert_allclose(one.models[0].beta, other.models[0].beta, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize(
    ("command", "number", "most"),
    [
        # A SuperLink, the app, and a good part of Ray.
        (["-m", "elmgrove", "federate", "--engine", "flower"], signal.SIGINT, 10),
        # A SuperLink, two SuperNodes, the app, and those that wait to start apps.
        ([str(LOOPBACK), "deployment"], signal.SIGTERM, 7),
    ],
    ids=["simulation", "deployment"],
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
    assert running(scratch) == []
    assert list(scratch.iterdir()) == []


def test_each_public_name_has_a_docstring_and_a_row() -> None:
    from elmgrove.rounds import flower

    reference = (ROOT / "docs" / "reference.md").read_text()
    for name in flower.__all__:
        assert getattr(flower, name).__doc__
        assert f"| `elmgrove.rounds.flower.{name}` |" in reference
