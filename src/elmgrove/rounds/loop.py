"""The loop of rounds: draws clients, asks them, and hands their replies to a rule.

It knows neither what is sent nor how replies are combined.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeVar

from elmgrove.errors import BadInput, require_whole

S = TypeVar("S")
R = TypeVar("R")

#: Asks a client, with the state and the number of the round (from 1); None if nothing is new.
Ask = Callable[[S, int], R | None]

#: Why a client is left out that has no new rows.
NOTHING_NEW = "nothing new"


class Deadline(NamedTuple):
    """How long a reply may take, and the clock that measures it (``time.monotonic``)."""

    seconds: float
    clock: Callable[[], float]


@dataclass(frozen=True)
class Round:
    """What happened in a round: which clients were asked, answered, or were left out, and why."""

    number: int
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    left_out: Mapping[str, str]


def drawn(names: Collection[str], fraction: float, seed: int, number: int) -> list[str]:
    """Draws the max(⌊C·K⌋, 1) clients of a round by their names, alike on every machine.

    Each name has a lot, the SHA-256 of ``seed/number/name``, and the lowest win: neither the order
    of the names nor a library's random numbers matter.

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
    state: S,
    clients: Mapping[str, Ask[S, R]],
    rule: Callable[[Sequence[R]], S],
    *,
    rounds: int,
    fraction: float,
    seed: int,
    deadline: Deadline | None = None,
    on_round: Callable[[Round, S], None] | None = None,
) -> S:
    """Runs some rounds and gives the state after them: draw clients, ask them, combine replies.

    A client that raises, has nothing new or is late is left out, and the round goes on without it;
    if no client answers, the state stays. ``on_round`` is told of each round with the state after
    it. Clients are asked one after the other, and a late reply is waited for and then thrown away:
    a deadline shows its effect here, it does not save time. What the rule raises is not caught:
    each ``Ask`` has to refuse a reply that does not fit.
    """
    for number in range(1, require_whole("rounds", rounds, 0) + 1):
        asked = drawn(clients, fraction, seed, number) if clients else []
        replies, left_out = dict[str, R](), dict[str, str]()
        for name in asked:
            started = deadline.clock() if deadline else 0.0
            try:
                reply = clients[name](state, number)
            except Exception as error:  # whatever a client raises, the others go on
                left_out[name] = reason(error)
                continue
            took = deadline.clock() - started if deadline else 0.0
            if deadline and took > deadline.seconds:
                left_out[name] = f"late: {took:.3g} s, where {deadline.seconds:g} s were given"
            elif reply is None:
                left_out[name] = NOTHING_NEW
            else:
                replies[name] = reply
        if replies:
            state = rule(list(replies.values()))
        if on_round is not None:
            on_round(Round(number, tuple(asked), tuple(replies), left_out), state)
    return state


def reason(error: Exception) -> str:
    """Says in words why a client was left out."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
