"""A worker: the client's side of a federation in rounds."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis

Array = NDArray[Any]
#: All rows that there are by a round (from 1), in the order in which they came.
Rows = Callable[[int], Array]
#: The same with targets.
Pairs = Callable[[int], tuple[Array, Array]]


class Loss(NamedTuple):
    """What a client makes of what it got: the mean squared error on its rows, and their number."""

    mean: float
    rows: int

    @classmethod
    def of(cls, basis: Basis, beta: Array, X: Array, T: Array) -> "Loss":
        """That of a model with these output weights; 0 of no rows."""
        if not len(X):
            return cls(0.0, 0)
        error = basis.layer(basis.scaling(X)) @ beta - T
        return cls(float(np.mean(error * error)), len(X))


class Worker(ABC):
    """Answers requests. Made anew with its ``memory``, it goes on where it was.

    Rows are learned once, in the order in which they come: what is new is what came since it
    was last asked.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def memory(self) -> bytes:
        """What it must know in the next round, for an engine that keeps no workers."""
        return b""

    @abstractmethod
    def train(self, request: bytes, number: int) -> bytes:
        """The answer to the request of a round; empty where there are no rows."""

    @abstractmethod
    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """Takes in what the federation gives, and says how well it explains one's own rows.

        ``number`` is the last round's, and ``request`` what it would be asked in a next one.
        """
