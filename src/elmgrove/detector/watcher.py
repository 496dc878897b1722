"""What every detector does with a stream of rows, whatever kind of model it has."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from elmgrove.algebra import (
    OSELM,
    Array,
    Basis,
    Blas,
    Evidence,
    Guess,
    HiddenLayer,
    Rows,
    Scaling,
    one_thread,
)
from elmgrove.detector.alarm import Alarm, AlarmRule
from elmgrove.detector.mixture import Part
from elmgrove.detector.quarantine import Quarantine
from elmgrove.detector.recent import Recent
from elmgrove.detector.thresholds import FalseAlarmRate, Threshold
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.errors import require_whole

#: The two states of a detector: no alarms before it knows what its own scores look like.
LEARNING, WATCHING = "learning", "watching"


class Model(Protocol):
    """What a detector needs of its model: an ``OSELM``, or a ``Mixture`` of several."""

    basis: Basis
    ridge: float
    forgetting: float
    dtype: np.dtype[Any]

    @property
    def evidence(self) -> Evidence: ...
    @property
    def prior(self) -> Evidence | None: ...
    def guess(self, x: Array) -> Guess: ...
    def take(self, guess: Guess, t: Array, energy: float) -> None: ...
    def loss_one(self, x: Array) -> float: ...
    def losses(self, X: Array) -> Array: ...
    def learn_one(self, x: Array, t: Array) -> None: ...
    def absorb_many(self, X: Array, T: Array) -> None: ...
    def leave_one_out(self, X: Array, T: Array) -> Array: ...
    def trial(self, rows: Array) -> OSELM: ...


M = TypeVar("M", bound=Model)


class Watcher(ABC, Generic[M]):
    """Scores rows, decides, and learns those that are not strange.

    The base of ``Detector`` and ``PatternDetector``: the threshold, the quarantine, the alarm and
    the order of things are the same for one model and for several.
    """

    def __init__(
        self,
        layer: HiddenLayer,
        *,
        features: Sequence[str] | None = None,
        scaling: Scaling | None = None,
        ridge: float = 1e-3,
        forgetting: float = 1.0,
        dtype: Any = np.float64,
        threshold: Threshold | None = None,
        alarm: AlarmRule | None = None,
        warmup: int | None = None,
        quarantine: int = 256,
        promote_after: int | None = None,
    ) -> None:
        names = None if features is None else tuple(features)
        basis = Basis(layer, layer.inputs, names, scaling or Scaling())
        self.model = self._made(basis, ridge, forgetting, dtype)
        self.basis = basis
        self.policy: Threshold = threshold or FalseAlarmRate()
        self.warmup = 2 * layer.units if warmup is None else require_whole("warmup", warmup, 0)
        self.alarm = Alarm(alarm or AlarmRule())
        self.quarantine = Quarantine(layer.inputs, quarantine, promote_after)
        self.recent = Recent(self.policy.capacity, layer.inputs, self.model.dtype)
        #: Rows learned here since the start, forgotten or not.
        self.learned = 0
        self._rows = Rows(layer.inputs, self.model.dtype, names)
        # Rows are scaled before they are rounded: a large mean would swallow what differs.
        self._raw = Rows(layer.inputs, np.float64, names)
        self._blas = Blas(self.model.dtype)
        self._limit: float | None = None
        self._stale = True

    # Scoring: never learns

    def score_one(self, row: Any) -> float:
        """How strange the row is: the mean squared error of its reconstruction."""
        x, _ = self._prepared(row)
        return self.model.loss_one(x) / self._rows.width

    def score_many(self, rows: Any) -> Array:
        """The score of each row; the same as ``score_one`` for each, up to rounding."""
        X = self._prepared_many(rows)
        scores: Array = self.model.losses(X) / X.shape[1]
        return scores

    @abstractmethod
    def blame(self, row: Any, k: int = 3) -> list[Cause]:
        """The k features that would, each alone with another value, explain most of the error."""

    # Learning rows that are known to be normal

    def learn_one(self, row: Any) -> None:
        """Learns a normal row; on bad input raises ``BadInput`` and stays as it was."""
        x, _ = self._prepared(row)
        self.model.learn_one(x, x)
        self.recent.accept(x, 0.0)
        self._changed(1)

    def learn_many(self, rows: Any) -> None:
        """Learns normal rows: the same as ``learn_one`` for each, much faster. All or none."""
        self._learn_scaled(self._prepared_many(rows))

    # Watching a stream

    def observe(self, row: Any) -> Verdict:
        """Scores the row, decides, and learns it unless it is strange."""
        x, energy = self._prepared(row)
        threshold, model = self.threshold, self.model
        with one_thread:
            guess = model.guess(x)
            score = guess.weight * self._error(x - guess.y)
            # Written so that a score that is no number would be strange.
            strange = not score <= threshold
            if not strange:
                model.take(guess, x, energy)
        self._limit = None
        promoted = self._refused(x, score, threshold) if strange else self._accepted(x, score)
        return Verdict(
            score,
            threshold,
            strange,
            not strange,
            self.alarm.raised(strange),
            LEARNING if threshold == math.inf else WATCHING,
            promoted,
            guess.pattern,
            x,
            guess.y,
            self.basis,
        )

    @property
    def state(self) -> str:
        """``learning`` (no alarms yet) or ``watching``."""
        return WATCHING if self._ready else LEARNING

    @property
    def threshold(self) -> float:
        """Scores above this are strange; infinite while ``learning``."""
        if self._limit is None:
            self._limit = self._calibrated() if self._ready else math.inf
        return self._limit

    def promote(self) -> int:
        """Learns all quarantined rows as a new normal; says how many there were."""
        rows = self.quarantine.release()
        self._learn_new_normal(rows)
        return len(rows)

    @abstractmethod
    def _made(self, basis: Basis, ridge: float, forgetting: float, dtype: Any) -> M:
        """The model of a new detector."""

    # Cooperation

    @property
    def evidence(self) -> Evidence:
        """What this device learned itself, and nothing it received: what it may give away."""
        return self.model.evidence

    @property
    def received(self) -> Evidence | None:
        """What others learned and this detector took in, as one sum."""
        return self.model.prior

    @abstractmethod
    def rest_on(self, parts: Sequence[Evidence]) -> None:
        """Lets these take the place of all that was received from others."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """What this device learned itself, by pattern; one part where there is one model."""
        return (Part(0, self.learned, self.evidence),)

    @property
    def rows_undecided(self) -> int:
        """Rows to come until ``parts`` are settled, and from then on only grow; 0 if they are."""
        return 0

    # Going on from a saved state

    @property
    def scores_outdated(self) -> bool:
        """Whether the scores in the ring were computed before the model last changed."""
        return self._stale

    def resume(self, received: Sequence[Evidence], *, learned: int, scores_known: bool) -> None:
        """Goes on from a saved state, after the model was put in its place."""
        self.rest_on(received)
        self.learned = learned
        self._limit, self._stale = None, not scores_known

    # Steps

    @property
    def _ready(self) -> bool:
        prior = self.model.prior
        known = self.learned + (0.0 if prior is None else prior.count)
        return known >= self.warmup and len(self.recent) >= self.policy.minimum

    def _calibrated(self) -> float:
        if self._stale and len(self.recent):
            rows = self.recent.rows
            self.recent.rescore(self.model.leave_one_out(rows, rows) / rows.shape[1])
        self._stale = False
        return self.policy.limit(self.recent)

    def _accepted(self, x: Array, score: float) -> int:
        self.recent.accept(x, score)
        self.quarantine.interrupt()
        self.learned += 1
        return 0

    def _refused(self, x: Array, score: float, threshold: float) -> int:
        self.recent.refuse(score, threshold)
        self.quarantine.add(x)
        rows = self.quarantine.release_new_normal(self.model, threshold)
        if len(rows):
            self._learn_new_normal(rows)
        return len(rows)

    def _learn_new_normal(self, X: Array) -> None:
        self._learn_scaled(X)

    def _learn_scaled(self, X: Array) -> None:
        self.model.absorb_many(X, X)
        self.recent.extend(X)
        self._changed(len(X))

    def _changed(self, rows: int) -> None:
        """The model changed by other ways than ``observe``: scores in the ring are out of date."""
        self.learned += rows
        self._limit, self._stale = None, True

    def _error(self, r: Array) -> float:
        return float(self._blas.dot(r, r)) / self._rows.width

    def _prepared(self, row: Any) -> tuple[Array, float]:
        if self.basis.scaling.kind != "none":
            return self._rows.one(self.basis.scaling(self._raw.one(row)[0]))
        x, energy = self._rows.one(row)
        # The caller may use its buffer again.
        return x.copy(), energy

    def _prepared_many(self, rows: Any) -> Array:
        if self.basis.scaling.kind != "none":
            rows = self.basis.scaling(self._raw.many(rows)[0])
        return self._rows.many(rows)[0]
