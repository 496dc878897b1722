"""A federation in this process: the same messages, read and written, without a network."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from threadpoolctl import threadpool_limits

from elmgrove.rounds import loop
from elmgrove.rounds.clients import Client, Loss
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.rounds.rules import RoundRule


def run(
    federation: RoundRule[Any],
    clients: Mapping[str, Client],
    *,
    rounds: int,
    fraction: float,
    seed: int,
    deadline: float | None = None,
    on_round: Callable[[RoundReport], None] | None = None,
) -> Delivery:
    """Runs some rounds one client after the other, then gives each client what is known.

    Flower gives the same model, since the messages, the rules and the draw are the same. Like there
    a client has one core: with two threads and another process on the machine, a round of small
    clients took 25 times as long.
    """
    traffic = _Traffic(federation, clients)

    def tell(round_: loop.Round, _: None) -> None:
        report = traffic.report(round_)
        if on_round is not None:
            on_round(report)

    asks = {name: traffic.ask(name) for name in clients}
    limit = None if deadline is None else loop.Deadline(deadline, time.monotonic)
    # NumPy's BLAS as well as SciPy's, which is all that blas.one_thread knows.
    with threadpool_limits(1, "blas"):
        loop.run_rounds(
            None,
            asks,
            federation.take,
            rounds=rounds,
            fraction=fraction,
            seed=seed,
            deadline=limit,
            on_round=tell,
        )
        return _deliver(federation, clients, rounds)


class _Traffic:
    """Counts what is sent, round by round."""

    def __init__(self, federation: RoundRule[Any], clients: Mapping[str, Client]) -> None:
        self._federation = federation
        self._clients = clients
        self._begin()

    def _begin(self) -> None:
        self._down = self._up = 0
        self._request: bytes | None = None
        self._started = time.perf_counter()

    def ask(self, name: str) -> loop.Ask[None, Any]:
        """A client as the loop wants it: what it says is read before it counts."""

        def ask(_: None, number: int) -> Any:
            if self._request is None:
                self._request = self._federation.request()
            self._down += len(self._request)
            reply = self._clients[name].train(self._request, number)
            self._up += len(reply)
            return self._federation.read(name, reply)

        return ask

    def report(self, round_: loop.Round) -> RoundReport:
        """The round with its cost; the next one begins."""
        seconds = time.perf_counter() - self._started
        made = RoundReport.of(round_, self._down, self._up, seconds)
        self._begin()
        return made


def _deliver(federation: RoundRule[Any], clients: Mapping[str, Client], number: int) -> Delivery:
    losses, left_out = dict[str, Loss](), dict[str, str]()
    down, request, started = 0, federation.request(), time.perf_counter()
    for name in sorted(clients):
        gift = federation.gift(name)
        down += len(request) + len(gift)
        try:
            losses[name] = clients[name].receive(request, gift, number)
        except Exception as error:
            # Whatever a client fails of is its own.
            left_out[name] = loop.reason(error)
    return Delivery(losses, left_out, down, time.perf_counter() - started)
