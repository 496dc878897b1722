"""The plain model: one autoencoder for all that is normal."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg.blas import ddot

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments, Packed, pack_evidence, unpack_evidence
from elmgrove.algebra.oselm import OSELM
from elmgrove.algebra.rows import Array
from elmgrove.algebra.unsent import Fresh
from elmgrove.detector.model import Answer, Part, left_out
from elmgrove.detector.verdict import Blame, Cause
from elmgrove.errors import SingularSystem, require_whole


class Autoencoder(OSELM):
    """One OS-ELM for all normal rows, each of which is its own target (Ito 2021, §3.4).

    What others know is one sum on which the model rests. It works where one model can explain all
    that is normal; where normal has several patterns far apart, ``Mixture`` is better.

    With a ridge of 0 the first rows have no solution. Until there are enough of them it answers
    as it does before the first one: it reconstructs nothing, and learns.
    """

    #: There are no patterns to tell apart.
    rows_undecided = 0

    def __init__(self, basis: Basis, *, ridge: float = 1e-3, forgetting: float = 1.0) -> None:
        super().__init__(
            basis.layer, basis.outputs, ridge=ridge, forgetting=forgetting, basis=basis
        )
        self.version = 0
        self._blame: Blame | None = None
        #: Rows learned here since the start, forgotten or not.
        self.learned = 0
        self.fresh = Fresh(basis)
        self.received: tuple[Evidence, ...] = ()

    @property
    def models(self) -> tuple["Autoencoder", ...]:
        return (self,)

    # Answering

    @property
    def beta(self) -> Array:
        """The output weights; 0 as long as a ridge of 0 leaves them undetermined."""
        try:
            return super().beta
        except SingularSystem:
            if self.ridge > 0.0:
                raise
            return np.zeros((self.basis.layer.units, self.basis.outputs))

    def solve_one(self, h: Array) -> Array:
        """Computes w = Ph; 0 as long as a ridge of 0 leaves P undetermined."""
        try:
            return super().solve_one(h)
        except SingularSystem:
            if self.ridge > 0.0:
                raise
            return np.zeros_like(h)

    def answer(self, x: Array) -> Answer:
        guess = self.guess(x)
        r = x - guess.y
        return Answer(float(ddot(r, r)) / len(x), self, guess)

    def answers_ahead(self, X: Array) -> list[Answer]:
        return [self.answer(X[0])]

    def rows_alike(self) -> int:
        return max(self.learned // 2, 8)

    def answers(self, X: Array) -> Array:
        return self.scores(X)

    def score_one(self, x: Array) -> float:
        r = x - self.predict_one(x)
        return float(ddot(r, r)) / len(x)

    def scores(self, X: Array) -> Array:
        R = X - self.predict_many(X)
        means: Array = np.einsum("ij,ij->i", R, R) / X.shape[1]
        return means

    def left_out(self, X: Array) -> Array:
        """Score the last rows learned, each by the model without it.

        With windows also without its neighbours, with which it shares rows.
        """
        if self.basis.window > 1:
            return left_out(self, X)
        means: Array = self.leave_one_out(X, X) / X.shape[1]
        return means

    def without(self, X: Array, ages: Array) -> "Autoencoder":
        """The model that never learned these rows, each followed by ``ages`` others."""
        taken = Autoencoder(self.basis, ridge=self.ridge)
        root = np.sqrt(self.forgetting**ages)[:, np.newaxis]
        H = taken.hidden_many(X)
        taken._sums.add_rows(H * root, X * root)
        made = Autoencoder(self.basis, ridge=self.ridge)
        made._sums.load(self.total - taken.evidence)
        return made

    def explainer(self, x: Array) -> "Autoencoder":
        return self

    def causes(self, basis: Basis, x: Array, k: int) -> list[Cause]:
        if self._blame is None or self._blame.beta is not self.beta:
            self._blame = Blame(self)
        return self._blame.causes(basis, x, k)

    def set_loan(self, loan: Moments | None) -> None:
        """Do nothing: only a distance can borrow how readings move together."""

    # Learning

    def keep(self, answer: Answer, x: Array) -> None:
        guess = answer.work
        self.absorb(guess.h, guess.w, x, ddot(x, x))
        self._learned(x[np.newaxis])

    def learn_all(self, X: Array) -> None:
        self.absorb_many(X, X)
        self._learned(X)

    def _learned(self, X: Array) -> None:
        self.learned += len(X)
        self.fresh.add(X, self.forgetting)

    def adopt(self, X: Array) -> None:
        self.learn_all(X)
        self.version += 1

    def reduce_to(self, rest: Part) -> None:
        self._sums.load(rest.evidence)
        self.fresh.doubt()
        self._expire()
        self.version += 1

    # Cooperation

    def _put(self, evidence: Evidence) -> None:
        super()._put(evidence)
        self.fresh.doubt()

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(0, self.learned, self.evidence, fresh=self.fresh),)

    def set_prior(self, parts: Sequence[Evidence]) -> None:
        self.prior = Evidence.sum(parts) if parts else None
        self.received = tuple(parts)
        self.version += 1

    # On disk

    def pack(self) -> Packed:
        numbers, arrays = pack_evidence(self.evidence)
        return {"evidence": numbers}, arrays

    def restore(
        self, fields: Mapping[str, Any], arrays: Mapping[str, Array], received: Sequence[Evidence]
    ) -> None:
        self.merge(unpack_evidence(self.basis, fields["evidence"], dict(arrays)))
        self.learned = require_whole("learned", fields["learned"], 0)
        self.set_prior(received)
