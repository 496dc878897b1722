"""Federations in rounds, for Fed-ELMS, Fed-NN and BP-NN3-FL: every device takes part in each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from elmgrove.algebra import Array, weighted_mean
from elmgrove_papers.backpropagation import Weights
from elmgrove_papers.networks import Task, Training, fitted

S = TypeVar("S")
R = TypeVar("R")
#: Asks a client, with the state and the number of the round (from 1).
Ask = Callable[[S, int], R]
#: Of each federation the rows that a device has, and what it learned.
Replies = list[tuple[int, Weights]]


def federated(
    state: Any,
    clients: Mapping[str, Ask[Any, Any]],
    rule: Callable[[Any], Any],
    rounds: int,
    note: Callable[[int, Any], None] = lambda number, state: None,
) -> Any:
    """Runs rounds with every client in each: asks all in the order of their names, and combines.

    ``note`` is called with the state after each round.
    """
    for number in range(1, rounds + 1):
        state = rule([clients[name](state, number) for name in sorted(clients)])
        note(number, state)
    return state


def averaged(
    X: Array,
    tasks: Mapping[str, Sequence[Task]],
    training: Training,
    rounds: int,
    note: Callable[[int, list[Weights]], None] = lambda number, state: None,
) -> list[Weights]:
    """Trains the global networks of several federations, all of which have these devices.

    ``tasks`` are each device's, one for each federation; its beginning is the first device's. In
    a round each device trains all its networks as one computation, from the global weights and
    with a new Adam, since weights are all that is sent; then each federation's are averaged,
    weighted by rows. The epochs of ``training`` are a round's. ``note`` is told of the weights
    after each round.
    """

    def client(mine: Sequence[Task]) -> Ask[list[Weights], Replies]:
        def reply(state: list[Weights], number: int) -> Replies:
            local = [
                Task(weights, task.rows, (*task.seed, number))
                for weights, task in zip(state, mine, strict=True)
            ]
            learned = fitted(X, local, training)
            return [(len(task.rows), found) for task, found in zip(mine, learned, strict=True)]

        return reply

    first = next(iter(tasks.values()))
    clients = {name: client(mine) for name, mine in tasks.items()}
    state: list[Weights] = federated([task.weights for task in first], clients, _mean, rounds, note)
    return state


def _mean(replies: Sequence[Replies]) -> list[Weights]:
    return [weighted_mean(parts) for parts in zip(*replies, strict=True)]
