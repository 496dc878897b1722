"""The loop of rounds, the same on every engine: draw clients, ask them, combine, evaluate, report.

Engines reach the clients with the same bytes, and so end with the same model.
"""

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

from threadpoolctl import ThreadpoolController

from elmgrove.errors import BadInput, require_whole
from elmgrove.rounds.clients import Client
from elmgrove.rounds.evaluation import Evaluation, Exam
from elmgrove.rounds.rules import RoundRule


@dataclass(frozen=True)
class RoundReport:
    """A round: which clients were asked, answered, or were left out and why, and what it cost.

    ``down`` counts the bytes of messages to the clients and ``up`` those to the server.
    ``evaluation`` is how the model after the round does on the server's test rows, if any.
    """

    number: int
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    left_out: Mapping[str, str]
    down: int
    up: int
    seconds: float
    evaluation: Evaluation | None = None


class LeftOut(Exception):
    """A client has no reply that counts; the text is the reason."""


class NotConnected(LeftOut):
    """A client could not be asked."""


class Engine(Protocol):
    """Reaches clients; what a client raises stands in place of its reply."""

    def names(self) -> Collection[str]:
        """The clients to draw from, looked up before each round."""
        ...

    def train(
        self, names: Sequence[str], request: bytes, number: int
    ) -> Iterator[tuple[str, bytes | Exception]]:
        """Ask clients to train; yield each reply when it comes."""
        ...


def drawn(names: Collection[str], fraction: float, seed: int, number: int) -> list[str]:
    """Draw the max(⌊C·K⌋, 1) clients of a round by their names, alike on every machine.

    Each name has a lot, the SHA-256 of ``seed/number/name``, and the lowest win.

    >>> drawn(["a", "b", "c", "d"], 0.5, seed=7, number=1)
    ['b', 'c']
    """
    if not 0.0 <= fraction <= 1.0:
        raise BadInput(f"fraction must be from 0 to 1, not {fraction!r}")
    # The fraction as it is written: 0.29 of 100 is 29, where floats make it 28.999….
    count = max(math.floor(Fraction(str(fraction)) * len(names)), 1)
    lots = sorted(
        names, key=lambda name: hashlib.sha256(f"{seed}/{number}/{name}".encode()).digest()
    )
    return sorted(lots[:count])


def run_rounds(
    rule: RoundRule[Any],
    engine: Engine,
    *,
    rounds: int,
    fraction: float = 1.0,
    seed: int = 0,
    exam: Exam | None = None,
    on_round: Callable[[RoundReport], None] | None = None,
) -> None:
    """Run some rounds, after which the rule has the result.

    A client that raises, has nothing new, or sends what the rule refuses is left out, and the round
    goes on without it; if no client answers, the model stays.
    """
    for number in range(1, require_whole("rounds", rounds, 0) + 1):
        names = engine.names()
        asked = drawn(names, fraction, seed, number) if names else []
        report = _round(rule, engine, number, asked)
        if exam is not None:
            report = replace(report, evaluation=exam.evaluate(rule.basis, rule.models()))
        if on_round is not None:
            on_round(report)


def _round(rule: RoundRule[Any], engine: Engine, number: int, asked: list[str]) -> RoundReport:
    request, started = rule.request(), time.perf_counter()
    usable, left_out, down, up = dict[str, Any](), dict[str, str](), 0, 0
    for name, reply in engine.train(asked, request, number):
        down += 0 if isinstance(reply, NotConnected) else len(request)
        try:
            if isinstance(reply, Exception):
                raise reply
            up += len(reply)
            usable[name] = rule.read(name, reply)
            if usable[name] is None:
                del usable[name]
                raise LeftOut("nothing new")
        except Exception as error:  # whatever a client raises or sends, the others go on
            left_out[name] = reason(error)
    answered = tuple(sorted(usable))
    if answered:
        rule.take([usable[name] for name in answered])
    seconds = time.perf_counter() - started
    return RoundReport(number, tuple(asked), answered, left_out, down, up, seconds)


def reason(error: Exception) -> str:
    """Say in words why a client was left out."""
    if isinstance(error, LeftOut):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class InProcess:
    """The engine that calls clients in this process, one after the other."""

    def __init__(self, clients: Mapping[str, Client]) -> None:
        self._clients = clients
        # One core a client, as on Flower: with two threads and another process on the machine, a
        # round of small clients took 25 times as long. one_thread knows SciPy's BLAS alone.
        self._blas = ThreadpoolController().select(user_api="blas")

    def names(self) -> Collection[str]:
        return self._clients

    def train(
        self, names: Sequence[str], request: bytes, number: int
    ) -> Iterator[tuple[str, bytes | Exception]]:
        for name in names:
            try:
                with self._blas.limit(limits=1):
                    reply: bytes | Exception = self._clients[name].train(request, number)
            except Exception as error:  # whatever a client raises, the loop names it
                reply = error
            yield name, reply
