"""Federations in rounds on Flower (https://flower.ai): a server app and a client app.

Needs ``pip install 'elmgrove[flower]'``, in an environment of its own: Flower pins versions with
which ``elmgrove[server]`` does not work.
"""

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from types import FrameType
from typing import Any

import numpy as np

from elmgrove.errors import BadInput, ElmgroveError, require_extra
from elmgrove.federation.contribution import require_origin
from elmgrove.federation.merged import Merged
from elmgrove.rounds.clients import Client
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.loop import LeftOut, NotConnected, RoundReport, reason, run_rounds
from elmgrove.rounds.plan import Plan
from elmgrove.rounds.rules import RoundRule

# Before what imports it: without Flower, this says how to install it.
require_extra("flwr", "flower")

from flwr.app import (  # noqa: E402  # Flower first
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    RecordDict,
)
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402

__all__ = ["client_app", "server_app"]

log = logging.getLogger("elmgrove.rounds")


def content(notes: dict[str, Any], **blobs: bytes) -> RecordDict:
    # Flower cuts large blobs into pieces.
    made = RecordDict({"notes": ConfigRecord(notes)})
    for name, blob in blobs.items():
        made[name] = ArrayRecord({"blob": Array(np.frombuffer(blob, np.uint8))})
    return made


def blob_in(held: RecordDict, name: str) -> bytes:
    """A blob by its name; empty if there is none."""
    record = held.array_records.get(name)
    return b"" if record is None else record["blob"].numpy().tobytes()


def client_app(make: Callable[[Context, bytes], Client]) -> ClientApp:
    """Make a ``ClientApp`` of a client, whose memory Flower's context keeps from round to round.

    ``make`` makes the client of a node, with what it remembers of earlier rounds. If a client
    raises, the server is told why, and the round goes on without it.
    """
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        asked = message.content
        try:
            client = make(context, blob_in(context.state, "memory"))
            if message.metadata.message_type == "query":
                made = content({"name": client.name})
            else:
                number = int(asked.config_records["notes"]["round"])
                made = content({}, reply=client.train(blob_in(asked, "request"), number))
            context.state["memory"] = content({}, memory=client.memory)["memory"]
        except Exception as error:  # Flower would tell that it failed, but not why
            made = content({"refused": reason(error)})
        return Message(made, reply_to=message)

    app.query()(answer)
    app.train()(answer)
    return app


class FlowerClients:
    """The engine that sends messages to the clients on Flower's nodes.

    Flower's numbers of nodes are random, so clients are known by the names that they give
    themselves: the draw is that of any other engine. The first look-up waits for so many
    ``clients``, and then for their names, at most ``start`` seconds each; to each request they
    have ``timeout`` seconds to answer. A node without a name, or with one that is taken, takes no
    part, which is logged; it is asked again before the next round, but not waited for as long as a
    node that just came. A node that is gone keeps its name, since it may come back.
    """

    def __init__(
        self, grid: Grid, *, clients: int, start: float = 600.0, timeout: float = 3600.0
    ) -> None:
        self._grid, self._clients = grid, clients
        self._start, self._timeout = start, timeout
        self._asked = set[int]()
        self._nodes = dict[str, int]()
        self._here = set[int]()

    def names(self) -> list[str]:
        self._here = self._present()
        new = sorted(self._here - set(self._nodes.values()))
        # A node that gave no name before is not waited for as long.
        first, known = not self._asked, self._asked.issuperset(new)
        patience = self._start if first else 10.0 if known else self._timeout
        self._asked |= set(new)
        asked = [Message(content({}), node, "query") for node in new]
        for message in self._replies(asked, patience):
            self._enter(message)
        return sorted(self._nodes)

    def _present(self) -> set[int]:
        until = time.monotonic() + self._start
        while len(here := set(self._grid.get_node_ids())) < self._clients:
            if time.monotonic() > until:
                raise BadInput(
                    f"{len(here)} of {self._clients} clients came within {self._start:g} s"
                )
            time.sleep(0.5)
        # A client that goes later is left out and not waited for.
        self._clients = 0
        return here

    def _enter(self, message: Message) -> None:
        node = message.metadata.src_node_id
        try:
            name = str(_opened(message).config_records["notes"].get("name", ""))
            require_origin(name)
            if self._nodes.get(name) in self._here:
                raise BadInput(f"the name {name!r} is taken")
        except (LeftOut, BadInput) as error:
            log.warning("node %d takes no part: %s", node, error)
            return
        self._nodes[name] = node

    def train(
        self, names: Sequence[str], request: bytes, number: int
    ) -> Iterator[tuple[str, bytes | Exception]]:
        asked, messages = content({"round": number}, request=request), list[Message]()
        silent = dict[int, str]()
        for name in names:
            node = self._nodes[name]
            if node in self._here:
                silent[node] = name
                messages.append(Message(asked, node, "train"))
            else:
                yield name, NotConnected("not connected")
        for message in self._replies(messages, self._timeout):
            name = silent.pop(message.metadata.src_node_id, "")
            if name:
                try:
                    yield name, blob_in(_opened(message), "reply")
                except LeftOut as why:
                    yield name, why
        for name in silent.values():
            yield name, LeftOut("late: no answer within the time given")

    def _replies(self, messages: Sequence[Message], timeout: float) -> Iterable[Message]:
        """Send messages, and yield the replies as they come."""
        waiting = set(self._grid.push_messages(messages)) if messages else set[str]()
        until = time.monotonic() + timeout
        while waiting:
            for reply in self._grid.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
                yield reply
            if time.monotonic() > until:
                break
            time.sleep(0.05 if waiting else 0.0)


def _opened(message: Message) -> RecordDict:
    if message.has_error():
        raise LeftOut(f"failed: {message.error.reason}")
    refused = message.content.config_records["notes"].get("refused")
    if refused is not None:
        raise LeftOut(str(refused))
    return message.content


def server_app(
    make: Callable[[Context], RoundRule[Any]],
    done: Callable[[Context, RoundRule[Any]], None],
    on_round: Callable[[Context, RoundReport], None] | None = None,
    exam: Callable[[Context], Exam | None] | None = None,
) -> ServerApp:
    """Make a ``ServerApp`` that makes a rule, runs its rounds and calls ``done`` with it.

    ``on_round`` is called after each round; ``exam`` makes the rows on which the server tests the
    global model then. ``clients`` (to wait for), ``rounds``, ``fraction``, ``seed``, ``start``
    (seconds that clients have to come) and ``timeout`` (seconds that each has to answer) are taken
    from the app's configuration (``[tool.flwr.app.config]``).
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        rule, chosen = make(context), context.run_config
        clients = FlowerClients(
            grid,
            clients=int(chosen.get("clients", 2)),
            start=float(chosen.get("start", 600.0)),
            timeout=float(chosen.get("timeout", 3600.0)),
        )
        run_rounds(
            rule,
            clients,
            rounds=int(chosen.get("rounds", 1)),
            fraction=float(chosen.get("fraction", 1.0)),
            seed=int(chosen.get("seed", 0)),
            exam=None if exam is None else exam(context),
            on_round=None if on_round is None else partial(on_round, context),
        )
        done(context, rule)

    return app


def simulate(plan: Plan, on_round: Callable[[RoundReport], None]) -> Merged:
    """Run a plan on Flower's simulation; returns what the clients know together.

    It runs in a process of its own: what Ray starts ends with that, whatever happens here.
    """
    plan.round_rule()  # what can't begin is refused before anything is started
    spawning = multiprocessing.get_context("spawn")
    # The paths of Ray's sockets may have 107 bytes, of which Ray takes 68.
    place = None if len(os.fsencode(gettempdir())) < 20 else "/tmp"
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with TemporaryDirectory(prefix="elmgrove-", dir=place, ignore_cleanup_errors=True) as folder:
        stored, results = plan.with_rows_in(Path(folder)), spawning.SimpleQueue()
        process = spawning.Process(target=_simulated, args=(stored, folder, results), daemon=True)
        try:
            for number in before:
                signal.signal(number, _leave)
            process.start()
            while isinstance(found := _next(results, process), RoundReport):
                on_round(found)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            if process.pid is not None:
                with contextlib.suppress(ProcessLookupError):  # all of it has ended
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
                process.join()
                time.sleep(1.0)  # until nothing writes into the folder any more
    if isinstance(found, Exception):
        raise found
    return Merged.from_bytes(found)


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _next(results: Any, process: SpawnProcess) -> Any:
    """Return the next report, or what the simulation ended with: bytes or an exception."""
    while results.empty():
        if not process.is_alive():
            return ElmgroveError("Flower's simulation ended without a result")
        time.sleep(0.1)
    return results.get()


def _simulated(plan: Plan, folder: str, results: Any) -> None:
    # Nothing is to call home, and Ctrl-C is for the process that waits for this one.
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    os.setpgrp()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    from flwr.simulation import run_simulation

    rule, names, server = plan.round_rule(), sorted(plan.rows), ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        plan.run(rule, FlowerClients(grid, clients=len(names)), results.put)

    def client(context: Context, memory: bytes) -> Client:
        return plan.client(names[int(context.node_config["partition-id"])], memory)

    machine = {
        "init_args": {"num_cpus": os.cpu_count() or 1, "_temp_dir": folder},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    try:
        run_simulation(server, client_app(client), len(names), backend_config=machine)
        results.put(rule.merged().to_bytes())
    except BadInput as error:
        results.put(error)
    except Exception as error:  # whatever Flower raises, the process that waits says it
        results.put(ElmgroveError(f"Flower's simulation failed: {error}"))
