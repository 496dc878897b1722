"""The model behind the distance: moments of the rows learned, and a Gaussian made of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.linalg import require_ridge
from elmgrove.algebra.moment_sums import WAITING, MomentSums
from elmgrove.algebra.moments import Moments, Packed, pack_evidence, unpack_evidence
from elmgrove.algebra.oselm import require_forgetting
from elmgrove.algebra.rows import Array
from elmgrove.detector.autoencoder import Autoencoder
from elmgrove.detector.model import Answer, Model, Part, left_out
from elmgrove.errors import BadInput, require_whole


class Gaussian:
    """One Gaussian for all normal rows, whose moments are sums that can be merged.

    What others know is one sum on which it rests. Rows that are learned wait and are added many at
    a time, and the distance is computed again from time to time; the evidence, and the score of a
    single row, are always those of all rows.
    """

    #: There are no patterns to tell apart.
    rows_undecided = 0

    def __init__(self, basis: Basis, *, ridge: float = 1e-3, forgetting: float = 1.0) -> None:
        require_forgetting(forgetting)
        require_ridge(ridge)  # a distance has no use for it, but it is kept with the settings
        self.basis = basis
        self.ridge, self.forgetting = float(ridge), float(forgetting)
        self.version = 0
        #: Rows learned here since the start, forgotten or not.
        self.learned = 0
        self._sums = MomentSums(basis, self.forgetting)
        self.fresh = self._sums.fresh
        self.received: tuple[Evidence, ...] = ()
        self._prior: Moments | None = None
        self._loan: Moments | None = None
        self._distance: Distance | None = None
        self._made_at = self._good_until = self._alike_until = 0

    @property
    def models(self) -> tuple["Gaussian", ...]:
        return (self,)

    # Answering

    @property
    def distance(self) -> Distance:
        """The distance from all that was learned and received up to now."""
        if self._distance is None or self._made_at != self.learned:
            return self._refresh()
        return self._distance

    def answer(self, x: Array) -> Answer:
        distance = self._recent()
        return Answer(distance.score_one(x), distance)

    def answers_ahead(self, X: Array) -> list[Answer]:
        distance = self._recent()
        scores = distance.score_many(X[: self._good_until - self.learned])
        return [Answer(score, distance) for score in scores.tolist()]

    def rows_alike(self) -> int:
        if self._distance is None or self.learned >= self._alike_until:
            self._refresh()
        return self._alike_until - self.learned

    def answers(self, X: Array) -> Array:
        return (self._distance or self._refresh()).score_many(X)

    def score_one(self, x: Array) -> float:
        return self.distance.score_one(x)

    def scores(self, X: Array) -> Array:
        return self.distance.score_many(X)

    def left_out(self, X: Array) -> Array:
        return left_out(self, X)

    def explainer(self, x: Array) -> Distance:
        return self.distance

    def without(self, X: Array, ages: Array) -> "Gaussian":
        """The model that never learned these rows, each followed by ``ages`` others."""
        # They follow each other, so all but the last are as old as it makes them.
        taken = MomentSums(self.basis, self.forgetting)
        taken.add_many(X)
        rows = taken.evidence.weighted(self.forgetting ** float(ages[-1]))
        made = Gaussian(self.basis, ridge=self.ridge)
        made._sums.load(self.total - rows)
        made._loan = self._loan
        return made

    # Learning

    def keep(self, answer: Answer, x: Array) -> None:
        self._sums.add(x)
        self.learned += 1

    def learn_all(self, X: Array) -> None:
        self._sums.add_many(X)
        self.learned += len(X)
        # A state that is saved now knows no older distance, so no observed row is scored by one.
        self._good_until = self.learned

    def adopt(self, X: Array) -> None:
        self.learn_all(X)
        self._changed()

    def reduce_to(self, rest: Part) -> None:
        self._sums.load(rest.evidence)
        self.fresh.doubt(rest.evidence)
        self._changed()

    # Cooperation

    @property
    def evidence(self) -> Moments:
        if self._sums.waiting:
            # Now part of the sums, and so of the distance: saving must not change a score.
            self._refresh()
        return self._sums.evidence

    @property
    def total(self) -> Moments:
        """Own evidence and what was received, together: what the distance is made of."""
        own = self._sums.evidence
        if self._prior is None:
            return own
        # Without rows of its own it has no centre near them either.
        return own + self._prior if own.count > 0.0 else self._prior + own

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(0, self.learned, self.evidence, fresh=self.fresh),)

    def merge(self, other: Evidence) -> None:
        """Add evidence as own, as if its rows had been learned here."""
        self.basis.require(other.basis)
        other.require_admissible("the evidence to put in is not admissible")
        own = self._sums.evidence
        # About its own centre: about another one far away, the digits that count may be lost.
        self._sums.load(own + other if own.count > 0.0 else other)
        self._changed()

    def set_prior(self, parts: Sequence[Evidence]) -> None:
        received = Evidence.sum(parts) if parts else None
        if received is not None:
            self.basis.require(received.basis)
            received.require_admissible("this evidence can't be merged")
        self.use_prior(received)
        self.received = tuple(parts)

    def use_prior(self, prior: Evidence | None) -> None:
        """Set what was received, unchecked: for sums and differences of what was admissible."""
        if prior is not None:
            self._sums.evidence.aligned(prior := prior.in_units_of(self.basis))
            prior.require_in_range()
            assert isinstance(prior, Moments), "what was aligned to moments"
        self._prior = prior
        self._changed()

    def set_loan(self, loan: Moments | None) -> None:
        if loan is not None:
            self.basis.require(loan.basis)
            loan.require_admissible("what others lend is not admissible")
        self._loan = loan
        self._changed()

    def _changed(self) -> None:
        self._distance = None
        self.version += 1

    def _recent(self) -> Distance:
        """The distance for rows that are observed, which may be a little older than the sums."""
        if self._distance is None or self.learned >= self._good_until:
            return self._refresh()
        return self._distance

    def _refresh(self) -> Distance:
        self._distance = distance = Distance(self.total, loan=self._loan)
        self._made_at = self.learned
        # While rows are observed, it may be older than the sums by a sixteenth of the rows learned,
        # at most by 512: that changes a score by far less than other rows would. While rows are
        # learned, it only serves to see how scores are spread.
        self._good_until = self.learned + min(max(self.learned // 16, 1), 512)
        self._alike_until = self.learned + max(self.learned // 8, 8)
        return distance

    # On disk

    def pack(self) -> Packed:
        """Pack its own evidence as it was when the distance was computed, and the rows since then.

        So a detector that goes on from it gives the scores it would have given.
        """
        numbers, arrays = pack_evidence(self._sums.settled)
        return {"evidence": numbers}, {**arrays, "waiting": np.array(self._sums.rows_waiting)}

    def restore(
        self, fields: Mapping[str, Any], arrays: Mapping[str, Array], received: Sequence[Evidence]
    ) -> None:
        waiting = arrays["waiting"]
        if waiting.ndim != 2 or waiting.shape[1] != self.basis.inputs or len(waiting) > WAITING:
            raise BadInput("the rows that wait do not fit the model")
        learned = require_whole("learned", fields["learned"], len(waiting))
        self.merge(unpack_evidence(self.basis, fields["evidence"], dict(arrays)))
        self.set_prior(received)
        self.learned = learned - len(waiting)
        if len(waiting):
            self._refresh()
        for row in waiting:
            self._sums.add(row)
        self.learned = learned


#: A model of one normal pattern.
SingleModel = Autoencoder | Gaussian


def single_model(basis: Basis, **settings: Any) -> SingleModel:
    """Make a Gaussian for a distance, else an autoencoder."""
    if basis.score == "distance":
        return Gaussian(basis, **settings)
    return Autoencoder(basis, **settings)


def typical_score(evidence: Evidence, ridge: float) -> float:
    """The score of a typical row like these: 1 for a distance, else the expected loss."""
    if evidence.basis.score == "distance":
        return 1.0
    return evidence.typical_loss(ridge) / evidence.basis.inputs


def summed(model: Model, inputs: Sequence[tuple[Array, float]]) -> Evidence:
    """Sum inputs up as a model does that learns them, each with its weight."""
    by_weight = dict[float, list[Array]]()
    for x, weight in inputs:
        by_weight.setdefault(weight, []).append(x)
    parts = list[Evidence]()
    for weight, rows in by_weight.items():
        made = single_model(model.basis)
        made.learn_all(np.array(rows))
        parts.append(made.evidence.weighted(weight))
    return Evidence.sum(parts)
