"""A detector's model: what is asked of it, and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments, Packed
from elmgrove.algebra.rows import Array
from elmgrove.algebra.unsent import Fresh

if TYPE_CHECKING:
    from elmgrove.detector.gaussian import SingleModel

#: More parts than this are not taken from any device, so no device has more.
MOST_PARTS = 16


@dataclass(frozen=True)
class Part:
    """The evidence of a pattern, and how many rows were learned in it since the start.

    Parts of one device never share a row, and under one number only ever grow, unless rows are
    taken out again. ``total`` is Σ x of its rows, where patterns are told apart by it; ``fresh``
    follows those that were not given away yet. ``held_back`` is how many rows, as they count now,
    are left out of the evidence.
    """

    number: int
    learned: int
    evidence: Evidence
    total: Array | None = field(default=None, repr=False, compare=False)
    fresh: Fresh | None = field(default=None, repr=False, compare=False)
    held_back: float = field(default=0.0, compare=False)


class Answer(NamedTuple):
    """What a model makes of one row: its score, what explains it, and the pattern that gave it.

    ``view`` is a ``Distance``, or the model of a loss. ``work`` is what the model needs
    to learn the row without doing everything twice.
    """

    score: float
    view: Any
    work: Any = None
    pattern: int = 0


class Model(Protocol):
    """What a detector needs of its model: a ``Gaussian``, an ``Autoencoder``, or a ``Mixture``.

    Rows come scaled, checked and side by side in windows. ``models`` are those that answer, own
    ones first. ``version`` is another number whenever the model changed otherwise than by learning.
    ``evidence`` is what was learned here, ``parts`` the same by pattern, and ``rows_undecided``
    says after how many more rows these are settled.
    """

    basis: Basis
    ridge: float
    forgetting: float
    version: int
    learned: int

    @property
    def models(self) -> Sequence["SingleModel"]: ...

    # One row of a stream is answered, and then kept with the work that was done for that. Of
    # several, the first are answered, as many as can be without learning them.
    def answer(self, x: Array) -> Answer: ...
    def keep(self, answer: Answer, x: Array) -> None: ...
    def answers_ahead(self, X: Array) -> list[Answer]: ...

    # Rows about to be learned are scored by a model that may be older; so many of them until it is
    # another one. ``adopt`` learns rows that were anomalous and are a new normal.
    def rows_alike(self) -> int: ...
    def answers(self, X: Array) -> Array: ...
    def learn_all(self, X: Array) -> None: ...
    def adopt(self, X: Array) -> None: ...

    # ``left_out`` scores the last rows learned, each by the model without it and its neighbours.
    def score_one(self, x: Array) -> float: ...
    def scores(self, X: Array) -> Array: ...
    def left_out(self, X: Array) -> Array: ...

    # What explains a row best: a ``Distance``, or the model of a loss.
    def explainer(self, x: Array) -> Any: ...

    # Go on with what is left of a part, as if no more had been learned in it.
    def reduce_to(self, rest: Part) -> None: ...
    @property
    def evidence(self) -> Evidence: ...
    @property
    def parts(self) -> tuple[Part, ...]: ...
    @property
    def rows_undecided(self) -> int: ...

    # What others know, and how readings move together there while few rows were learned here.
    @property
    def received(self) -> tuple[Evidence, ...]: ...
    def set_prior(self, parts: Sequence[Evidence]) -> None: ...
    def set_loan(self, loan: Moments | None) -> None: ...

    def pack(self) -> Packed: ...
    def restore(
        self, fields: Mapping[str, Any], arrays: Mapping[str, Array], received: Sequence[Evidence]
    ) -> None: ...


def left_out(model: "SingleModel", X: Array) -> Array:
    """Score the last rows learned in five blocks, each block by the model without it.

    Neighbouring windows share rows, and neighbouring rows their cause, so leaving out one row
    alone would leave most of it in. The windows that share rows with a block are left out as well.
    Rows that the model can't have learned, since another pattern did, have nothing to be left out.
    """
    window, total = model.basis.window, model.total
    rounding = float(np.sqrt(total.resolution))
    scores = np.empty(len(X))
    edges = np.linspace(0, len(X), min(5, len(X)) + 1).astype(int)
    ages = np.arange(len(X) - 1, -1, -1.0)
    for start, end in pairwise(edges):
        taken = slice(max(start - window + 1, 0), end + window - 1)
        rest = model.without(X[taken], ages[taken])
        known = rest.total.admissible(rounding, total)
        scores[start:end] = (rest if known else model).scores(X[start:end])
    return scores
