"""The engine ``server``: a plan of rounds on a server of our own, all of it on this machine."""

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from threadpoolctl import threadpool_limits

from elmgrove.cli.demo import DemoProcesses, DemoServer
from elmgrove.device import Ending, Participant
from elmgrove.errors import ElmgroveError, require_extra
from elmgrove.exchange import HttpRounds, client, request
from elmgrove.federation import Merged
from elmgrove.rounds import (
    Agenda,
    Delivery,
    Opening,
    Plan,
    RoundReport,
    reason,
)

#: What the federation is called, as in the other engines.
_NAME = "federation"
# Seconds that a round lasts at most where no time is stated, as on Flower.
_PATIENCE = 3600.0
# Seconds between two looks at the reports.
_LOOK = 0.1


def serve_plan(plan: Plan, on_round: Callable[[RoundReport], None]) -> tuple[Merged, Delivery]:
    """Runs a plan on ``elmgrove serve`` in a process of its own, with a thread for each client.

    Messages, rules and draw are those of the other engines, and so is the model.
    """
    require_extra("uvicorn", "server")
    plan.require_possible()
    with (
        tempfile.TemporaryDirectory() as folder,
        DemoProcesses(Path(folder)) as processes,
        threadpool_limits(1, "blas"),
    ):
        server = DemoServer(processes).wait()
        with client(server.url, server.admin_token, root="/v1/rounds") as opened:
            opening = Opening.of(_agenda(plan), plan.round_rule(), plan.exam)
            made = request(opened, "POST", "", content=opening.to_bytes())
        fleet = _Fleet(plan, f"{server.url}/{_NAME}", made.json().text("token"))
        try:
            fleet.start()
            _follow(server, plan, on_round)
            return fleet.outcome()
        finally:
            fleet.stop()


def _agenda(plan: Plan) -> Agenda:
    return Agenda(
        _NAME,
        plan.rule,
        len(plan.rows),
        rounds=plan.rounds,
        fraction=plan.fraction,
        seed=plan.seed,
        deadline=_PATIENCE if plan.timeout is None else plan.timeout,
        groups=plan.groups,
        distance=plan.distance,
    )


def _follow(server: DemoServer, plan: Plan, on_round: Callable[[RoundReport], None]) -> None:
    """Tells of each round when it is over, until all are."""
    told = 0
    with client(f"{server.url}/{_NAME}", server.admin_token) as opened:
        while told < plan.rounds:
            reports = list(request(opened, "GET", "/rounds").json().each("reports"))
            for one in reports[told:]:
                on_round(RoundReport.from_fields(dict(one)))
            told = len(reports)
            time.sleep(_LOOK)


class _Fleet:
    """The clients of a plan, each in a thread, and what became of them."""

    def __init__(self, plan: Plan, url: str, token: str) -> None:
        self._plan, self._url, self._token = plan, url, token
        self._stop = threading.Event()
        self._outcomes = dict[str, Ending]()
        self._left_out = dict[str, str]()
        self._threads = [threading.Thread(target=self._run, args=(name,)) for name in plan.rows]

    def start(self) -> None:
        """Lets all clients join."""
        for thread in self._threads:
            thread.start()

    def _run(self, name: str) -> None:
        try:
            with HttpRounds(self._url, name, token=self._token) as server:
                made = Participant(
                    server,
                    lambda _agenda, _request, memory: self._plan.client(name, memory),
                    stop=self._stop,
                ).run()
        except Exception as error:  # whatever a client raises, the others get their gifts
            self._left_out[name] = reason(error)
            return
        if made is not None:
            self._outcomes[name] = made

    def outcome(self) -> tuple[Merged, Delivery]:
        """Waits until all have their gifts; gives what they know together, and what each got."""
        began = time.perf_counter()
        for thread in self._threads:
            thread.join()
        if not self._outcomes:
            raise ElmgroveError(f"no client took part to the end: {self._left_out!r:.300}")
        losses = {name: self._outcomes[name].loss for name in sorted(self._outcomes)}
        down = sum(one.down for one in self._outcomes.values())
        merged = next(iter(self._outcomes.values())).merged
        seconds = time.perf_counter() - began
        return merged, Delivery(losses, dict(sorted(self._left_out.items())), down, seconds)

    def stop(self) -> None:
        """Ends those that still wait."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
