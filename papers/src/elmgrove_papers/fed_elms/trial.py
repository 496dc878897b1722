"""Fed-ELMS, exact merging and one model of all rows, in the same setting."""

import time
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from elmgrove.algebra import (
    OSELM,
    Array,
    Basis,
    Evidence,
    HiddenLayer,
    RoundModel,
    fedavg,
    first_model,
    trained,
)
from elmgrove.federation import Contribution, Merged
from elmgrove.rounds import CompactClassifier, CompactModel, RoundMessage
from elmgrove_papers.fed_elms.digits import Digits
from elmgrove_papers.fed_elms.whole_numbers import deviation, tolerance
from elmgrove_papers.federated import Ask, federated


class Tried(NamedTuple):
    """Accuracy in %, updating time in s, and bytes sent for each client in each direction.

    The time is the processor's, of all clients and the server together, on one thread: it does
    not depend on what else the machine does.
    """

    accuracy: float
    seconds: float
    bytes_up: float | None = None
    bytes_down: float | None = None


class Wire:
    """Counts the bytes of messages while they pass."""

    def __init__(self) -> None:
        self.up = self.down = 0

    def between(self, client: Ask[bytes, bytes]) -> Ask[bytes, bytes]:
        """Puts a client at the other end of this wire."""

        def counted(state: bytes, number: int) -> bytes:
            self.down += len(state)
            reply = client(state, number)
            self.up += len(reply)
            return reply

        return counted


def on_one_thread() -> threadpool_limits:
    """Keeps every BLAS, NumPy's as well, to one thread while something is timed."""
    return threadpool_limits(1, "blas")


def fed_elms(digits: Digits, layer: HiddenLayer, rounds: int) -> Tried:
    """Tries Fed-ELMS as the equations have it, in float64 and without messages."""
    with on_one_thread():
        state = first_model(layer, *digits.rows(digits.initial))
        started = time.process_time()
        state = averaged(digits, layer, state, rounds)
        seconds = time.process_time() - started
        return Tried(digits.accuracy(layer(digits.test) @ state.beta), seconds)


def averaged(digits: Digits, layer: HiddenLayer, state: RoundModel, rounds: int) -> RoundModel:
    """Gives the model after all rounds of Fed-ELMS that begin with this one."""

    def client(name: str) -> Ask[RoundModel, tuple[int, RoundModel]]:
        def reply(state: RoundModel, number: int) -> tuple[int, RoundModel]:
            X, T = digits.rows(digits.turn(name, number, rounds))
            return len(X), trained(state, layer, X, T)

        return reply

    clients = {name: client(name) for name in digits.clients}
    ended: RoundModel = federated(state, clients, fedavg, rounds)
    return ended


def compact(digits: Digits, layer: HiddenLayer, rounds: int) -> Tried:
    """Tries Fed-ELMS with 8-bit messages both ways, tested with the classifier in whole numbers."""
    basis, wire = Basis(layer, digits.outputs, score="loss"), Wire()
    X0, T0 = digits.rows(digits.initial)

    def message(sender: str, model: RoundModel, rows: float = 0.0) -> bytes:
        return RoundMessage(sender, basis, CompactModel.of(model), int(rows)).to_bytes()

    def client(name: str) -> Ask[bytes, bytes]:
        def reply(blob: bytes, number: int) -> bytes:
            state = RoundMessage.from_bytes(blob).state
            X, T = digits.rows(digits.turn(name, number, rounds))
            return message(name, trained(state, layer, X, T), len(X))

        return wire.between(reply)

    def rule(blobs: list[bytes]) -> bytes:
        replies = map(RoundMessage.from_bytes, blobs)
        return message("server", fedavg((one.rows, one.state) for one in replies))

    clients = {name: client(name) for name in digits.clients}
    with on_one_thread():
        blob = message("server", first_model(layer, X0, T0))
        started = time.process_time()
        blob = federated(blob, clients, rule, rounds)
        seconds = time.process_time() - started
    small = CompactClassifier.of(basis, RoundMessage.from_bytes(blob).state.beta, np.abs(X0).max())
    many = len(clients)
    return Tried(
        digits.accuracy(small.sums(digits.test)), seconds, wire.up / many, wire.down / many
    )


def exact(digits: Digits, layer: HiddenLayer) -> Tried:
    """Tries E²LM: one message a client, one sum; neither initial batch nor rounds."""
    with on_one_thread():
        started = time.process_time()
        blobs = [
            Contribution(name, len(rows), (_evidence(digits, layer, rows),)).to_bytes()
            for name, rows in digits.clients.items()
        ]
        total = Evidence.sum([Contribution.from_bytes(blob).evidence for blob in blobs])
        down = Merged("paper", 1, len(blobs), (total,)).to_bytes()
        beta = total.solve(OSELM(layer, digits.outputs).ridge)
        seconds = time.process_time() - started
        accuracy = digits.accuracy(layer(digits.test) @ beta)
    return Tried(accuracy, seconds, float(np.mean([len(blob) for blob in blobs])), len(down))


def centralized(digits: Digits, layer: HiddenLayer, rows: Array) -> float:
    """Gives the accuracy of one model that learned these rows in one place."""
    with on_one_thread():
        model = OSELM(layer, digits.outputs)
        model.learn_many(*digits.rows(rows))
        return digits.accuracy(model.predict_many(digits.test))


def _evidence(digits: Digits, layer: HiddenLayer, rows: Array) -> Evidence:
    model = OSELM(layer, digits.outputs)
    model.learn_many(*digits.rows(rows))
    return model.evidence


def whole_numbers(digits: Digits, layer: HiddenLayer) -> dict[str, float]:
    """Says how far the classifier in whole numbers is from the float model of all clients' rows.

    Errors are those of outputs, on the test rows within the range that the initial batch has.
    """
    with on_one_thread():
        # By merging it would be the same.
        model = OSELM(layer, digits.outputs)
        model.learn_many(*digits.rows(digits.learned))
        largest = float(np.abs(digits.X[digits.initial]).max())
        small = CompactClassifier.of(model.basis, model.beta, largest)
        exact, found = layer(digits.test) @ model.beta, small.outputs(digits.test)
        inside = np.abs(digits.test).max(axis=1) <= largest
        off = np.abs(found - exact)[inside]
        expected = deviation(small, digits.test[inside])
        return {
            "accuracy, %": digits.accuracy(found),
            "float, %": digits.accuracy(exact),
            "agreement, %": 100.0 * float((found.argmax(axis=1) == exact.argmax(axis=1)).mean()),
            "rows within the range, %": 100.0 * float(inside.mean()),
            "largest error": float(off.max()),
            "error, root mean square": float(np.sqrt(np.mean(off**2))),
            "deviation, root mean square": float(np.sqrt(np.mean(expected**2))),
            "largest error, in deviations": float((off / expected).max()),
            "tolerance, mean": float(tolerance(small, digits.test[inside]).mean()),
        }
