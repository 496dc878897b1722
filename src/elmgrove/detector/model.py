"""A detector's model: what is asked of it, and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from elmgrove.algebra import Array, Basis, Evidence, Guess, Packed

if TYPE_CHECKING:
    from elmgrove.detector.autoencoder import Autoencoder

#: More parts than this are not taken from any device, so no device has more.
MOST_PARTS = 16


@dataclass(frozen=True)
class Part:
    """The evidence of a pattern, and how many rows were learned in it since the start.

    Parts of one device never share a row, and under one number only ever grow.
    """

    number: int
    learned: int
    evidence: Evidence


class Answer(NamedTuple):
    """What a model makes of one row: y, the pattern that gave it, and how much its error counts.

    ``guesses`` are those of every autoencoder that was asked, whose work is used again when the
    row is learned; ``nearest`` is the place of the own one that explains the row best.
    """

    y: Array
    guesses: tuple[Guess, ...]
    nearest: int = 0
    pattern: int = 0
    weight: float = 1.0


class Model(Protocol):
    """What a detector needs of its model: an ``Autoencoder``, or a ``Mixture`` of several.

    Rows come scaled, checked and in the model's dtype. ``version`` is another number whenever the
    model changed otherwise than by ``keep``: scores computed before that are out of date.
    """

    basis: Basis
    ridge: float
    forgetting: float
    dtype: np.dtype[Any]
    version: int
    learned: int

    @property
    def models(self) -> Sequence["Autoencoder"]:
        """The autoencoders that answer, own ones first."""
        ...

    def answer(self, x: Array) -> Answer:
        """Reconstructs one row."""
        ...

    def keep(self, answer: Answer, x: Array, energy: float) -> None:
        """Learns the row that was answered, with the work that was done for that."""
        ...

    def learn(self, x: Array, energy: float) -> None:
        """Learns one row, whose energy is Σ x²."""
        ...

    def learn_all(self, X: Array) -> None:
        """Learns rows in their order."""
        ...

    def adopt(self, X: Array) -> None:
        """Learns rows that were strange and are a new normal."""
        ...

    def loss_one(self, x: Array) -> float:
        """Computes Σ (x − y)² of one row, as it counts for its score."""
        ...

    def losses(self, X: Array) -> Array:
        """Computes Σ (x − y)² of each row, as it counts for its score."""
        ...

    def plain_losses(self, X: Array) -> Array:
        """Computes Σ (x − y)² of each row, to be compared with other models'."""
        ...

    def left_out(self, X: Array) -> Array:
        """Computes Σ (x − y)² of each of the last rows learned, by the model without that row."""
        ...

    def explainer(self, x: Array) -> tuple[int, "Autoencoder"]:
        """Finds the pattern that explains a row best, and its model."""
        ...

    def trial(self, rows: Array) -> "Autoencoder":
        """Makes a model that would explain these rows if they were learned; this one stays."""
        ...

    @property
    def unsettled(self) -> bool:
        """Whether rows that are normal here should say how much foreign patterns count."""
        ...

    def settle(self, X: Array) -> None:
        """Lets foreign patterns count as rows that are normal here have it."""
        ...

    @property
    def evidence(self) -> Evidence:
        """What was learned here."""
        ...

    @property
    def parts(self) -> tuple[Part, ...]:
        """What was learned here, by pattern."""
        ...

    @property
    def rows_undecided(self) -> int:
        """Rows to come until ``parts`` are settled; 0 if they are."""
        ...

    @property
    def received(self) -> Evidence | None:
        """All that was received from others, as one sum."""
        ...

    def rest_on(self, parts: Sequence[Evidence]) -> None:
        """Lets these take the place of all that was received from others."""
        ...

    def add_received(self, evidence: Evidence) -> None:
        """Adds evidence of others to what was received."""
        ...

    def remove_received(self, evidence: Evidence) -> None:
        """Takes evidence of others out again."""
        ...

    def pack(self) -> Packed:
        """Packs all that was learned here."""
        ...

    def restore(
        self, fields: Mapping[str, Any], arrays: Mapping[str, Array], received: Sequence[Evidence]
    ) -> None:
        """Takes the place of a model that was packed."""
        ...
