"""Fed-NN: a network with one hidden layer, trained by FederatedAveraging, in PyTorch."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from elmgrove.algebra import Array, weighted_mean
from elmgrove.errors import require_extra
from elmgrove.federation import seal, unseal
from elmgrove.rounds import Ask, Quantized
from elmgrove_papers.fed_elms.digits import Digits
from elmgrove_papers.fed_elms.settings import SEED
from elmgrove_papers.fed_elms.trial import Tried, Wire, federated, on_one_thread

BATCH, EPOCHS, RATE, MOMENTUM = 10, 5, 0.01, 0.5
KIND = "fed-nn"


def fed_nn(digits: Digits, units: int, rounds: int) -> Tried:
    """Accuracy, time and bytes of the paper's baseline; weights travel in 8 bits.

    It begins with a network trained on the initial batch, so that it has what Fed-ELMS has.
    Needs PyTorch.
    """
    torch = require_extra("torch", "papers")
    wire = Wire()

    def client(name: str) -> Ask[bytes, bytes]:
        def reply(blob: bytes, number: int) -> bytes:
            X, T = digits.turn(name, number, rounds)
            _, weights = _unpacked(blob)
            return _packed(len(X), _fitted(torch, weights, X, T, number))

        return wire.between(reply)

    def rule(blobs: Sequence[bytes]) -> bytes:
        return _packed(0, weighted_mean(map(_unpacked, blobs)))

    clients = {name: client(name) for name in digits.clients}
    X0, T0 = digits.X[digits.initial], digits.T[digits.initial]
    with on_one_thread(), _one_thread_of(torch):
        first = _fitted(torch, _random(torch, digits, units), X0, T0, 0)
        started = time.process_time()
        blob = federated(_packed(0, first), clients, rule, rounds)
        seconds = time.process_time() - started
    W1, b1, W2, b2 = _unpacked(blob)[1]
    outputs = np.maximum(digits.test @ W1.T + b1, 0.0) @ W2.T + b2
    many = len(clients)
    return Tried(digits.accuracy(outputs), seconds, wire.up / many, wire.down / many)


@contextmanager
def _one_thread_of(torch: Any) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _random(torch: Any, digits: Digits, units: int) -> list[Array]:
    """PyTorch's own beginning, the same for everybody, as FederatedAveraging demands."""
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        return _weights(_network(torch, digits.X.shape[1], units, digits.outputs))


def _fitted(torch: Any, weights: list[Array], X: Array, T: Array, seed: int) -> list[Array]:
    """Equation (1), E times over minibatches of B rows."""
    net = _network(torch, X.shape[1], len(weights[0]), T.shape[1])
    with torch.no_grad():
        for parameter, weight in zip(net.parameters(), weights, strict=True):
            parameter.copy_(torch.from_numpy(weight))
    rows, labels = torch.from_numpy(X.astype(np.float32)), torch.from_numpy(T.argmax(axis=1))
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
    loss = torch.nn.CrossEntropyLoss()
    random = torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(X), generator=random).split(BATCH):
            optimizer.zero_grad()
            loss(net(rows[batch]), labels[batch]).backward()
            optimizer.step()
    return _weights(net)


def _network(torch: Any, inputs: int, units: int, outputs: int) -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Linear(inputs, units), nn.ReLU(), nn.Linear(units, outputs))


def _weights(net: Any) -> list[Array]:
    return [parameter.detach().numpy().astype(np.float64) for parameter in net.parameters()]


def _packed(rows: int, weights: Sequence[Array]) -> bytes:
    """8 bits a weight or bias, and a scale for each array."""
    arrays = dict[str, Array]()
    for place, weight in enumerate(weights):
        small = Quantized.of(np.atleast_2d(weight))
        arrays |= {f"{place}": small.values, f"{place}.scale": small.scale}
    return seal(KIND, {"rows": rows}, arrays)


def _unpacked(blob: bytes) -> tuple[float, list[Array]]:
    fields, arrays = unseal(KIND, blob)
    small = [Quantized(arrays[f"{k}"], arrays[f"{k}.scale"]) for k in range(len(arrays) // 2)]
    # Biases are vectors: the second and the fourth.
    return fields["rows"], [
        one.matrix[0] if place % 2 else one.matrix for place, one in enumerate(small)
    ]
