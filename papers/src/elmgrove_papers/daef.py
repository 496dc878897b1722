"""DAEF: a deep autoencoder that several devices train without iterating, one merge for each layer.

Novoa-Paradela, Fontenla-Romero and Guijarro-Berdiñas, *Fast Deep Autoencoder for Federated
Learning* (arXiv 2206.05136), which builds on the ideas of extreme learning machines as our papers
do. Of its text only the beginning was at hand. Taken as its method: the encoder is one layer, the
left singular vectors of all rows (DSVD); each hidden layer of the decoder is the transposed output
layer of an extreme learning machine that reconstructs the layer before it (ELM-AE); the last layer
is a ridge regression on the rows. Both regressions are ROLANN's with linear outputs.

Not stated in what was at hand, and chosen here: sigmoids, rows that are not centred, the ridge, how
random weights are drawn, and which of the two signs a singular vector has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from elmgrove.algebra import Array

#: Of both regressions, as of our own.
RIDGE = 1e-3
#: Layers for a paper's Ñ: the encoder, and the decoder's hidden one.
WIDE, NARROW = "DAEF (Ñ, 2Ñ)", "DAEF (Ñ/2, Ñ)"


@dataclass(frozen=True)
class Daef:
    """A trained autoencoder: weights and bias of each layer, all but the last with a sigmoid.

    ``sent`` counts the numbers that the device with most rows has sent. Each layer is a merge for
    which all devices must be there: what they send for it follows from the layers below, so with a
    device more, or one less, all of them begin again with their rows.
    """

    layers: tuple[tuple[Array, Array], ...]
    sent: int

    def losses(self, X: Array) -> Array:
        """Gives the mean squared error of each row's reconstruction."""
        y = X
        for W, b in self.layers[:-1]:
            y = expit(y @ W + b)
        W, b = self.layers[-1]
        errors: Array = ((X - (y @ W + b)) ** 2).mean(axis=1)
        return errors


class DaefDevice:
    """A device with its rows, and what it sends for the first layer, computed once."""

    def __init__(self, X: Array) -> None:
        self.X = X

    @cached_property
    def factor(self) -> Array:
        """The triangle R of its rows: RᵀR = XᵀX."""
        return _factor(self.X)


class DaefFleet:
    """Devices that train together; none gives away a row.

    Whatever the split, the model is that of all rows in one place, to rounding: what devices send
    is added up, or decomposed together. That holds where singular values differ, as they do in
    measurements. Random numbers follow from the seed, and so are everybody's.
    """

    def __init__(self, devices: Sequence[DaefDevice]) -> None:
        self._devices = devices

    def both(self, units: int, seed: int) -> dict[str, Daef]:
        """Trains an autoencoder of either shape, for a paper's Ñ."""
        shapes = {WIDE: (units, 2 * units), NARROW: (units // 2, units)}
        return {name: self.trained(hidden, seed) for name, hidden in shapes.items()}

    def trained(self, hidden: Sequence[int], seed: int, ridge: float = RIDGE) -> Daef:
        """Trains an autoencoder, given the units of the encoder and of the decoder's layers."""
        rng, parts = np.random.default_rng(seed), [device.X for device in self._devices]
        sent = _numbers([device.factor for device in self._devices])
        W = self._directions(hidden[0])
        layers = [(W, np.zeros(hidden[0]))]
        values = [expit(X @ W) for X in parts]
        for units in hidden[1:]:
            C, b = _drawn(rng, values[0].shape[1], units)
            solved = Regression.of([expit(H @ C + b) for H in values], values)
            sent += solved.sent
            W = solved.weights(ridge).T
            layers.append((W, b))
            values = [expit(H @ W + b) for H in values]
        solved = Regression.of([_with_one(H) for H in values], parts)
        last = solved.weights(ridge)
        return Daef((*layers, (last[:-1], last[-1])), sent + solved.sent)

    def _directions(self, units: int) -> Array:
        """The first so many; nothing lies in those beyond the rank of the rows."""
        known = self._singular_vectors[:, :units]
        return np.pad(known, ((0, 0), (0, units - known.shape[1])))

    @cached_property
    def _singular_vectors(self) -> Array:
        """DSVD: of all rows together, from what each device sent; with the largest entry above 0.

        Either sign would do, but all have to take the same, whatever the split.
        """
        U, S = _decomposed([device.factor for device in self._devices])
        rank = int((S / S[0] > len(U) * np.finfo(float).eps).sum())
        U = U[:, :rank]
        largest = U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])]
        signed: Array = U * np.sign(largest)
        return signed


@dataclass(frozen=True)
class Regression:
    """ROLANN with linear outputs: U and S of all inputs, and M = Σ HᵀT; what a device has sent."""

    U: Array
    S: Array
    M: Array
    sent: int

    @classmethod
    def of(cls, H: Sequence[Array], T: Sequence[Array]) -> "Regression":
        """Merges what devices send of their inputs and targets."""
        factors = [_factor(part) for part in H]
        M = np.sum([h.T @ t for h, t in zip(H, T, strict=True)], axis=0)
        return cls(*_decomposed(factors), M, _numbers(factors) + M.size)

    def weights(self, ridge: float) -> Array:
        """Solves (HᵀH + λI)W = M: W = U(S² + λI)⁻¹UᵀM."""
        W: Array = self.U @ ((self.U.T @ self.M) / (self.S**2 + ridge)[:, np.newaxis])
        return W


def _factor(X: Array) -> Array:
    """The triangle R of a device's rows. U·S of an SVD does as well in what follows, but slower."""
    return np.asarray(np.linalg.qr(X, "r"))


def _decomposed(factors: Sequence[Array]) -> tuple[Array, Array]:
    """Singular vectors and values of all devices' rows: RᵀR of all is the sum of theirs."""
    U, S, _ = np.linalg.svd(_factor(np.vstack(factors)).T)
    return U[:, : len(S)], S


def _numbers(factors: Sequence[Array]) -> int:
    """Counts what is not below the diagonal, in the largest."""
    rows, width = max(map(len, factors)), len(factors[0].T)
    return rows * width - rows * (rows - 1) // 2


def _drawn(rng: np.random.Generator, inputs: int, units: int) -> tuple[Array, Array]:
    """Draws an ELM-AE's input weights and biases as Glorot and Bengio do."""
    limit = np.sqrt(6.0 / (inputs + units))
    return rng.uniform(-limit, limit, (inputs, units)), rng.uniform(-limit, limit, units)


def _with_one(H: Array) -> Array:
    return np.hstack([H, np.ones((len(H), 1))])
