"""BP-NN3-FL: networks averaged in rounds (FedAvg), on the loop that Fed-ELMS runs on."""

from collections.abc import Callable, Mapping, Sequence

from elmgrove.algebra import Array, weighted_mean
from elmgrove.rounds import Ask
from elmgrove_papers.fed_elms.trial import federated
from elmgrove_papers.ito2021.networks import Task, fitted
from elmgrove_papers.ito2021.settings import Training
from elmgrove_papers.ito2021.stack import Weights

#: Of each federation the rows that a device has, and what it learned.
Replies = list[tuple[int, Weights]]


def averaged(
    X: Array,
    tasks: Mapping[str, Sequence[Task]],
    training: Training,
    rounds: int,
    note: Callable[[int, list[Weights]], None] = lambda number, state: None,
) -> list[Weights]:
    """The global weights of several federations, all of which have these devices.

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
    state: list[Weights] = federated([task.weights for task in first], clients, _rule, rounds, note)
    return state


def _rule(replies: Sequence[Replies]) -> list[Weights]:
    return [weighted_mean(parts) for parts in zip(*replies, strict=True)]
