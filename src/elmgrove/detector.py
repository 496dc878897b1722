"""The detector: an OS-ELM autoencoder that decides, learns and cooperates."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.alarm import Alarm, AlarmRule
from elmgrove.basis import Basis
from elmgrove.blame import Blame
from elmgrove.blas import Blas, one_thread
from elmgrove.calibration import Calibration
from elmgrove.evidence import Evidence
from elmgrove.hidden import HiddenLayer, whole_number
from elmgrove.oselm import OSELM
from elmgrove.quarantine import Quarantine
from elmgrove.rows import Rows
from elmgrove.scaling import Scaling
from elmgrove.threshold import FalseAlarmRate, Threshold
from elmgrove.verdict import Cause, Verdict

Array = NDArray[Any]

#: The two states of a detector: no alarms before it knows what its own scores look like.
LEARNING, WATCHING = "learning", "watching"


class Detector:
    """Learns what normal rows look like, and says how strange a row is.

    It reconstructs each row from a few hidden units and scores it by the mean squared error
    (Ito 2021, §3.4): the more a row differs from what was learned, the higher. It works where
    normal rows have something in common that fewer numbers than columns can say; it does not
    where columns are independent noise, nor where an anomaly is a normal row at the wrong time.
    Columns of different size need scaling, or the largest decides alone.

    ``learn_one`` and ``learn_many`` are for rows known to be normal. ``observe`` is for a
    stream: it scores, decides, and learns the row unless it is strange (strange rows wait in
    ``quarantine``). Nothing is flagged until ``warmup`` rows were learned (twice the hidden
    units unless stated) and the threshold has the rows it needs; ``state`` tells. ``merge``
    takes in what others learned; ``evidence`` is what this device learned itself, for others.

    >>> rng = np.random.default_rng(0)
    >>> normal = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 6))
    >>> detector = Detector(HiddenLayer(inputs=6, units=3, seed=7))
    >>> detector.learn_many(normal)
    >>> strange = normal[0] + [9, 0, 0, 0, 0, 0]
    >>> verdict = detector.observe(strange)
    >>> verdict.anomalous, verdict.learned, detector.blame(strange)[0].feature
    (True, False, 'column 0')
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
        self.model = OSELM(
            layer, layer.inputs, ridge=ridge, forgetting=forgetting, dtype=dtype, basis=basis
        )
        self.basis = basis
        self.policy: Threshold = threshold or FalseAlarmRate()
        self.warmup = 2 * layer.units if warmup is None else whole_number("warmup", warmup, 0)
        self.alarm = Alarm(alarm or AlarmRule())
        self.quarantine = Quarantine(layer.inputs, quarantine, promote_after)
        self.calibration = Calibration(self.policy.capacity, layer.inputs, self.model.dtype)
        #: Rows learned here since the start, forgotten or not.
        self.learned = 0
        self._rows = Rows(layer.inputs, self.model.dtype, names)
        # Rows are scaled before they are rounded: a large mean would swallow what differs.
        self._raw = Rows(layer.inputs, np.float64, names)
        self._blas = Blas(self.model.dtype)
        self._blame: Blame | None = None
        self._limit: float | None = None
        self._stale = True

    # Scoring: never learns

    def score_one(self, row: Any) -> float:
        """How strange the row is: the mean squared error of its reconstruction."""
        x, _ = self._prepared(row)
        return self._error(x - self.model.predict_one(x))

    def score_many(self, rows: Any) -> Array:
        """The score of each row; the same as ``score_one`` for each, up to rounding."""
        X = self._prepared_many(rows)
        R = X - self.model.predict_many(X)
        scores: Array = np.einsum("ij,ij->i", R, R).astype(np.float64) / X.shape[1]
        return scores

    def blame(self, row: Any, k: int = 3) -> list[Cause]:
        """The k features that would, each alone with another value, explain most of the error."""
        x, _ = self._prepared(row)
        if self._blame is None or self._blame.beta is not self.model.beta:
            self._blame = Blame(self.model)
        return self._blame.causes(x, self.model.predict_one(x), k)

    # Learning rows that are known to be normal

    def learn_one(self, row: Any) -> None:
        """Learns a normal row; on bad input raises ``BadInput`` and stays as it was."""
        x, _ = self._prepared(row)
        self.model.learn_one(x, x)
        self.calibration.accept(x, 0.0)
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
            h = model.hidden_one(x)
            w = model.solve_one(h)
            y = model.output_one(w)
            score = self._error(x - y)
            # Written so that a score that is no number would be strange.
            strange = not score <= threshold
            if not strange:
                model.absorb(h, w, x, energy)
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
            x,
            y,
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
        self._learn_scaled(rows)
        return len(rows)

    # Cooperation

    @property
    def evidence(self) -> Evidence:
        """What this device learned itself, and nothing it received: what it may give away."""
        return self.model.evidence

    @property
    def received(self) -> Evidence | None:
        """What others learned and this detector took in, as one sum."""
        return self.model.prior

    @received.setter
    def received(self, evidence: Evidence | None) -> None:
        self.model.prior = evidence
        self._changed(0)

    def merge(self, evidence: Evidence) -> None:
        """The cooperative model update (Ito 2021, §4.2), in one shot.

        From now on the model is the one that learning the other's rows as well would have
        given. Merging adds: the same evidence twice counts twice. ``Member`` keeps contributions
        apart by origin, so that a newer one replaces the older.
        """
        self.basis.require(evidence.basis)
        # The sum could hide what the part is not.
        evidence.require_admissible("this evidence can't be merged")
        self.model.rest_on(evidence if self.received is None else self.received + evidence)
        self._changed(0)

    def subtract(self, evidence: Evidence) -> None:
        """Takes evidence that was merged out again."""
        self.basis.require(evidence.basis)
        held = Evidence.zero(self.basis) if self.received is None else self.received
        self.model.rest_on(held.without(evidence))
        self._changed(0)

    # Going on from a saved state

    @property
    def scores_outdated(self) -> bool:
        """Whether the scores in the ring were computed before the model last changed."""
        return self._stale

    def resume(
        self, evidence: Evidence, received: Evidence | None, *, learned: int, scores_known: bool
    ) -> None:
        """Puts saved evidence, own and others', in the place of all that was known here."""
        self.model.replace(self.evidence, evidence)
        self.model.prior = received
        self.learned = learned
        self._limit, self._stale = None, not scores_known

    # Steps

    @property
    def _ready(self) -> bool:
        prior = self.model.prior
        known = self.learned + (0.0 if prior is None else prior.count)
        return known >= self.warmup and len(self.calibration) >= self.policy.minimum

    def _calibrated(self) -> float:
        if self._stale and len(self.calibration):
            rows = self.calibration.rows
            self.calibration.rescore(self.model.leave_one_out(rows, rows) / rows.shape[1])
        self._stale = False
        return self.policy.limit(self.calibration)

    def _accepted(self, x: Array, score: float) -> int:
        self.calibration.accept(x, score)
        self.quarantine.interrupt()
        self.learned += 1
        return 0

    def _refused(self, x: Array, score: float, threshold: float) -> int:
        self.calibration.refuse(score, threshold)
        self.quarantine.add(x)
        rows = self.quarantine.release_new_normal(self.model, threshold)
        if len(rows):
            self._learn_scaled(rows)
        return len(rows)

    def _learn_scaled(self, X: Array) -> None:
        self.model.absorb_many(X, X)
        self.calibration.extend(X)
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
