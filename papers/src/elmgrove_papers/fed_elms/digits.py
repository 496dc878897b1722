"""MNIST as Fed-ELMS divides it: an initial batch, and clients with two digits each."""

from dataclasses import dataclass, replace

import numpy as np

from elmgrove.algebra import Array
from elmgrove.errors import BadInput
from elmgrove_papers.data import Labelled
from elmgrove_papers.fed_elms.settings import BLOCK, INITIAL, VARIANCE


@dataclass(frozen=True)
class Digits:
    """Rows and one-hot targets to learn from; which of them a client has; rows to test with."""

    X: Array
    T: Array
    test: Array
    test_label: Array
    initial: Array
    clients: dict[str, Array]

    @property
    def outputs(self) -> int:
        """The number of classes."""
        return int(self.T.shape[1])

    @property
    def learned(self) -> Array:
        """The numbers of all clients' rows."""
        return np.concatenate(list(self.clients.values()))

    def turn(self, name: str, number: int, rounds: int) -> Array:
        """Gives the numbers of a client's new rows in a round; all are split over the rounds."""
        return np.array_split(self.clients[name], rounds)[number - 1]

    def rows(self, numbers: Array) -> tuple[Array, Array]:
        """Gives rows and their targets, by their numbers."""
        return self.X[numbers], self.T[numbers]

    def accuracy(self, outputs: Array) -> float:
        """Gives the share of test rows whose own class has the largest output, in %."""
        return 100.0 * float((outputs.argmax(axis=1) == self.test_label).mean())

    def recalls(self, outputs: Array) -> Array:
        """Gives, for each class, the share of its test rows with the largest output there, in %."""
        right = outputs.argmax(axis=1) == self.test_label
        each = (right[self.test_label == digit].mean() for digit in range(self.outputs))
        return 100.0 * np.array(list(each))

    def thinned(self, rng: np.random.Generator) -> "Digits":
        """Leaves each client and each class another share of their rows, 10 to 100 %.

        A client's two blocks of a class keep 500 · r · q rows, where r is drawn for the client and
        q for the class, both evenly on a logarithmic scale.
        """
        classes = self.T.argmax(axis=1)
        r, q = (10.0 ** rng.uniform(-1.0, 0.0, size) for size in (len(self.clients), self.outputs))
        kept = {
            name: rows[_first(classes[rows], share * q)]
            for share, (name, rows) in zip(r, self.clients.items(), strict=True)
        }
        return replace(self, clients=kept)


def divided(data: Labelled, clients: int, seed: int) -> Digits:
    """Divides the rows as IV-A does: none is in two places. A client's are in random order."""
    rng = np.random.default_rng(seed)
    initial, blocks, digits = list[Array](), list[Array](), list[int]()
    for digit in range(len(data.names)):
        rows = rng.permutation(np.flatnonzero(data.train_label == digit))
        initial.append(rows[:INITIAL])
        count = (len(rows) - INITIAL) // BLOCK
        blocks += list(rows[INITIAL : INITIAL + count * BLOCK].reshape(count, BLOCK))
        digits += [digit] * count
    train, test = _reduced(data.train, data.test)
    pairs = _pairs(np.array(digits), clients, rng)
    return Digits(
        train,
        np.eye(len(data.names))[data.train_label],
        test,
        data.test_label,
        rng.permutation(np.concatenate(initial)),
        {
            f"client-{k:02d}": rng.permutation(np.concatenate([blocks[a], blocks[b]]))
            for k, (a, b) in enumerate(pairs)
        },
    )


def _first(classes: Array, shares: Array) -> Array:
    """Which rows are among the first of their class, as many as its share says; at least one."""
    kept = np.zeros(len(classes), bool)
    for digit in np.unique(classes):
        places = np.flatnonzero(classes == digit)
        kept[places[: max(round(shares[digit] * len(places)), 1)]] = True
    return kept


def _pairs(digits: Array, clients: int, rng: np.random.Generator) -> Array:
    """Blocks two by two, of different digits; drawn again until all are."""
    if len(digits) < 2 * clients or len(set(digits.tolist())) < 2:
        raise BadInput(f"{len(digits)} blocks of {BLOCK} rows are too few for {clients} clients")
    while True:
        pairs: Array = rng.permutation(len(digits))[: 2 * clients].reshape(clients, 2)
        if (digits[pairs[:, 0]] != digits[pairs[:, 1]]).all():
            return pairs


def _reduced(train: Array, test: Array) -> tuple[Array, Array]:
    """Principal components that keep 90 % of the training rows' variance (87 of MNIST's 784).

    Of all training rows, as in the paper: a real server would have the initial batch alone.
    """
    mean = train.mean(axis=0)
    variance, axes = np.linalg.eigh(np.cov(train - mean, rowvar=False))
    kept = int(np.searchsorted(np.cumsum(variance[::-1]) / variance.sum(), VARIANCE)) + 1
    axes = axes[:, ::-1][:, :kept]
    # An axis may point either way; here its largest entry is positive, on every platform.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(kept)])
    return (train - mean) @ axes, (test - mean) @ axes
