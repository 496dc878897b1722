"""Federations in rounds in this process: messages are written and read, without a network."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from threadpoolctl import threadpool_limits

from elmgrove.federation.merged import Merged
from elmgrove.rounds.clients import Client, Loss
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.loop import Ask, Deadline, Round, reason, run_rounds
from elmgrove.rounds.plan import Plan
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.rounds.rules import RoundRule


def run_plan(plan: Plan, on_round: Callable[[RoundReport], None]) -> tuple[Merged, Delivery]:
    """Runs a plan in this process; gives what the clients know together, and what each got."""
    rule = plan.round_rule()
    delivery = run_here(
        rule,
        {name: plan.client(name) for name in plan.rows},
        rounds=plan.rounds,
        fraction=plan.fraction,
        seed=plan.seed,
        deadline=plan.timeout,
        exam=plan.exam,
        on_round=on_round,
    )
    return rule.merged(), delivery


def run_here(
    rule: RoundRule[Any],
    clients: Mapping[str, Client],
    *,
    rounds: int,
    fraction: float,
    seed: int,
    deadline: float | None = None,
    exam: Exam | None = None,
    on_round: Callable[[RoundReport], None] | None = None,
) -> Delivery:
    """Runs some rounds in this process, one client after the other; then each gets its gift.

    With an ``exam`` the report of each round says how the global model does in it.

    Flower ends with the same model, since messages, rules and draw are the same. As there, a
    client has one core: with two threads and another process on the machine, a round of small
    clients took 25 times as long.
    """
    traffic = _Traffic(rule, clients, exam)

    def tell(happened: Round, _: None) -> None:
        report = traffic.report(happened)
        if on_round is not None:
            on_round(report)

    # NumPy's BLAS as well as SciPy's, which is all that blas.one_thread knows.
    with threadpool_limits(1, "blas"):
        run_rounds(
            None,
            {name: traffic.ask(name) for name in clients},
            rule.take,
            rounds=rounds,
            fraction=fraction,
            seed=seed,
            deadline=None if deadline is None else Deadline(deadline, time.monotonic),
            on_round=tell,
        )
        return _deliver(rule, clients, rounds)


class _Traffic:
    """Counts the bytes of messages round by round, and tests what comes of them."""

    def __init__(
        self, rule: RoundRule[Any], clients: Mapping[str, Client], exam: Exam | None
    ) -> None:
        self._rule = rule
        self._clients = clients
        self._exam = exam
        self._begin()

    def _begin(self) -> None:
        self._down = self._up = 0
        self._request: bytes | None = None
        self._started = time.perf_counter()

    def ask(self, name: str) -> Ask[None, Any]:
        """Gives a client as the loop wants it; the rule reads a reply before it counts."""

        def ask(_: None, number: int) -> Any:
            if self._request is None:
                self._request = self._rule.request()
            self._down += len(self._request)
            reply = self._clients[name].train(self._request, number)
            self._up += len(reply)
            return self._rule.read(name, reply)

        return ask

    def report(self, happened: Round) -> RoundReport:
        """Gives the round with its cost, and begins to count the next one."""
        seconds = time.perf_counter() - self._started
        evaluation = None if self._exam is None else self._rule.evaluate(self._exam)
        made = RoundReport.of(happened, self._down, self._up, seconds, evaluation)
        self._begin()
        return made


def _deliver(rule: RoundRule[Any], clients: Mapping[str, Client], number: int) -> Delivery:
    losses, left_out = dict[str, Loss](), dict[str, str]()
    down, request, started = 0, rule.request(), time.perf_counter()
    for name in sorted(clients):
        gift = rule.gift(name)
        down += len(request) + len(gift)
        try:
            losses[name] = clients[name].receive(request, gift, number)
        except Exception as error:  # whatever a client raises, the others get their gifts
            left_out[name] = reason(error)
    return Delivery(losses, left_out, down, time.perf_counter() - started)
