"""Fed-NN: a network with one hidden layer, trained by FederatedAveraging (PyTorch)."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import Array, weighted_mean
from elmgrove.rounds import Quantized
from elmgrove.storage import seal, unseal
from elmgrove_papers import require_package
from elmgrove_papers.backpropagation import Classification, Momentum, Stack, Weights
from elmgrove_papers.fed_elms.digits import Digits
from elmgrove_papers.fed_elms.settings import SEED
from elmgrove_papers.fed_elms.trial import Tried, Wire, on_one_thread
from elmgrove_papers.federated import Ask, federated

BATCH, EPOCHS, RATE, MOMENTUM = 10, 5, 0.01, 0.5
FORMAT = "fed-nn"


def fed_nn(digits: Digits, units: int, rounds: int) -> Tried:
    """Gives accuracy, time and bytes of the paper's baseline; weights travel in 8 bits.

    It begins with a network trained on the initial batch, so that it has what Fed-ELMS has.
    Needs PyTorch.
    """
    trainer, wire = _Trainer(digits), Wire()

    def client(name: str) -> Ask[bytes, bytes]:
        def reply(blob: bytes, number: int) -> bytes:
            rows = digits.turn(name, number, rounds)
            return packed(len(rows), trainer.fitted(unpacked(blob)[1], rows, number))

        return wire.between(reply)

    def rule(blobs: Sequence[bytes]) -> bytes:
        return packed(0, weighted_mean(map(unpacked, blobs)))

    clients = {name: client(name) for name in digits.clients}
    with on_one_thread():
        first = trainer.fitted(trainer.beginning(units), digits.initial, 0)
        started = time.process_time()
        blob = federated(packed(0, first), clients, rule, rounds)
        seconds = time.process_time() - started
    W1, b1, W2, b2 = unpacked(blob)[1]
    outputs = np.maximum(digits.test @ W1 + b1, 0.0) @ W2 + b2
    many = len(clients)
    return Tried(digits.accuracy(outputs), seconds, wire.up / many, wire.down / many)


class _Trainer:
    """Trains networks on some of the digits, by Equation (1)."""

    def __init__(self, digits: Digits) -> None:
        self._torch: Any = require_package("torch")
        self._X = digits.X.astype(np.float32)
        self._T = self._torch.from_numpy(digits.T.astype(np.float32))

    def beginning(self, units: int) -> Weights:
        """Draws PyTorch's own weights, equal for every client, as FederatedAveraging demands."""
        linear, width, outputs = self._torch.nn.Linear, self._X.shape[1], self._T.shape[1]
        with self._torch.random.fork_rng():
            self._torch.manual_seed(SEED)
            layers = [linear(width, units), linear(units, outputs)]
        arrays = [array.detach().numpy() for layer in layers for array in layer.parameters()]
        return [np.atleast_2d(array.T) for array in arrays]

    def fitted(self, weights: Weights, rows: Array, seed: int) -> Weights:
        """Goes E times over the rows, in minibatches of B."""
        stack = Stack(self._X, [weights], Classification(self._T), Momentum(RATE, MOMENTUM))
        random = self._torch.Generator().manual_seed(seed)
        steps = -(-len(rows) // BATCH)
        plan = np.full((EPOCHS, steps * BATCH), -1)
        for epoch in plan:
            epoch[: len(rows)] = rows[self._torch.randperm(len(rows), generator=random).numpy()]
        stack.train([plan.reshape(-1, BATCH)])
        return stack.weights()[0]


def packed(rows: int, weights: Weights) -> bytes:
    """Makes a message of 8 bits a weight or bias, and a scale for each array."""
    arrays = dict[str, Array]()
    for place, weight in enumerate(weights):
        small = Quantized.of(weight.astype(np.float64))
        arrays |= {f"{place}": small.values, f"{place}.scale": small.scale}
    return seal(FORMAT, {"rows": rows}, arrays)


def unpacked(blob: bytes) -> tuple[float, Weights]:
    """Reads the rows and the weights from a message that ``packed`` made."""
    fields, arrays = unseal(FORMAT, blob)
    small = [Quantized(arrays[f"{k}"], arrays[f"{k}.scale"]) for k in range(len(arrays) // 2)]
    return fields["rows"], [one.matrix for one in small]
