"""The detector: scores rows, decides, and learns those that are not strange."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import Array, Basis, Blas, Evidence, HiddenLayer, Rows, Scaling, one_thread
from elmgrove.detector.alarm import Alarm, AlarmRule
from elmgrove.detector.autoencoder import Autoencoder
from elmgrove.detector.mixture import Mixture, PatternRule
from elmgrove.detector.model import Model, Part
from elmgrove.detector.quarantine import Quarantine
from elmgrove.detector.recent import Recent
from elmgrove.detector.thresholds import FalseAlarmRate, Threshold
from elmgrove.detector.verdict import Blame, Cause, Verdict
from elmgrove.errors import require_whole

#: The state of a detector that raises no alarms yet: it does not know its own scores well enough.
LEARNING = "learning"
#: The state of a detector that raises alarms.
WATCHING = "watching"


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

    ``patterns`` gives a model to each of several normal patterns (MLMG, Qin and Kondo 2021): one
    model for all of them would explain everything between them as well, and miss what lies there.
    A row's score is then the lowest of their errors, each in proportion to what is typical of its
    pattern, and ``verdict.pattern`` says whose. That works where patterns are far apart compared
    with their width, and not where one drifts into the other: then one model is better.

    >>> rng = np.random.default_rng(0)
    >>> normal = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 6))
    >>> detector = Detector(HiddenLayer(inputs=6, units=3, seed=7))
    >>> detector.learn_many(normal)
    >>> strange = normal[0] + [9, 0, 0, 0, 0, 0]
    >>> verdict = detector.observe(strange)
    >>> verdict.anomalous, verdict.learned, detector.blame(strange)[0].feature
    (True, False, 'column 0')
    >>> idle, busy = (rng.normal(size=(300, 2)) @ rng.normal(size=(2, 8)) + 9 * k for k in (0, 1))
    >>> detector = Detector(HiddenLayer(inputs=8, units=3, seed=7), patterns=PatternRule())
    >>> detector.learn_many(rng.permutation(np.vstack([idle, busy])))
    >>> [part.number for part in detector.parts]
    [1, 2]
    >>> detector.observe(idle[0]).pattern != detector.observe(busy[0]).pattern
    True
    """

    def __init__(
        self,
        layer: HiddenLayer,
        *,
        patterns: PatternRule | None = None,
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
        self.basis = basis = Basis(layer, layer.inputs, names, scaling or Scaling())
        #: How patterns come and go; None where there is one model.
        self.patterns = patterns
        self.model: Model = (
            Autoencoder(basis, ridge=ridge, forgetting=forgetting, dtype=dtype)
            if patterns is None
            else Mixture(basis, patterns, ridge=ridge, forgetting=forgetting, dtype=dtype)
        )
        self.policy: Threshold = threshold or FalseAlarmRate()
        self.warmup = 2 * layer.units if warmup is None else require_whole("warmup", warmup, 0)
        self.alarm = Alarm(alarm or AlarmRule())
        self.quarantine = Quarantine(layer.inputs, quarantine, promote_after)
        self.recent = Recent(self.policy.capacity, layer.inputs, self.model.dtype)
        self._rows = Rows(layer.inputs, self.model.dtype, names)
        # Rows are scaled before they are rounded: a large mean would swallow what differs.
        self._raw = Rows(layer.inputs, np.float64, names)
        self._blas = Blas(self.model.dtype)
        self._blames: dict[int, Blame] = {}
        self._limit: float | None = None
        # The version of the model by which the recent rows were scored.
        self._scored_by: int | None = None

    # Scoring: never learns

    def score_one(self, row: Any) -> float:
        """Says how strange a row is: the mean squared error of its reconstruction."""
        x, _ = self._prepared(row)
        self._settle()
        return self.model.loss_one(x) / self._rows.width

    def score_many(self, rows: Any) -> Array:
        """Scores each row, as ``score_one`` scores one, up to rounding."""
        X = self._prepared_many(rows)
        self._settle()
        return np.asarray(self.model.losses(X) / X.shape[1])

    def blame(self, row: Any, k: int = 3) -> list[Cause]:
        """Finds the k features that, each alone with another value, explain most of the error.

        Where there are patterns, to the one that explains the row best.
        """
        x, _ = self._prepared(row)
        pattern, model = self.model.explainer(x)
        known = self._blames.get(pattern)
        if known is None or known.beta is not model.beta:
            known = self._blames[pattern] = Blame(model)
        return known.causes(x, model.predict_one(x), k)

    # Learning rows that are known to be normal

    def learn_one(self, row: Any) -> None:
        """Learns a normal row; on bad input raises ``BadInput`` and stays as it was."""
        x, energy = self._prepared(row)
        self.model.learn(x, energy)
        self.recent.accept(x, 0.0)

    def learn_many(self, rows: Any) -> None:
        """Learns normal rows, as ``learn_one`` learns one but much faster. All or none."""
        X = self._prepared_many(rows)
        self.model.learn_all(X)
        self.recent.extend(X)

    # Watching a stream

    def observe(self, row: Any) -> Verdict:
        """Scores the row, decides, and learns it unless it is strange."""
        x, energy = self._prepared(row)
        threshold, model = self.threshold, self.model
        with one_thread:
            answer = model.answer(x)
            r = x - answer.y
            score = answer.weight * float(self._blas.dot(r, r)) / self._rows.width
            # Written so that a score that is no number would be strange.
            strange = not score <= threshold
            if not strange:
                model.keep(answer, x, energy)
        self._limit = None
        promoted = 0
        if strange:
            promoted = self._refuse(x, score, threshold)
        else:
            self.recent.accept(x, score)
            self.quarantine.interrupt()
        return Verdict(
            score,
            threshold,
            strange,
            not strange,
            self.alarm.raised(strange),
            LEARNING if threshold == math.inf else WATCHING,
            promoted,
            answer.pattern,
            x,
            answer.y,
            self.basis,
        )

    @property
    def state(self) -> str:
        """``learning`` (no alarms yet) or ``watching``."""
        return WATCHING if self._ready else LEARNING

    @property
    def threshold(self) -> float:
        """Scores above this are strange; infinite while ``learning``."""
        self._settle()
        if self._limit is None or self.scores_outdated:
            self._limit = self._calibrated() if self._ready else math.inf
        return self._limit

    def promote(self) -> int:
        """Learns all quarantined rows as a new normal; says how many there were."""
        rows = self.quarantine.release()
        self._adopt(rows)
        return len(rows)

    # Cooperation

    @property
    def learned(self) -> int:
        """Rows learned here since the start, forgotten or not."""
        return self.model.learned

    @property
    def evidence(self) -> Evidence:
        """What this device learned itself, and nothing it received: what it may give away."""
        return self.model.evidence

    @property
    def parts(self) -> tuple[Part, ...]:
        """What this device learned itself, by pattern; one part where there is one model."""
        return self.model.parts

    @property
    def rows_undecided(self) -> int:
        """Rows to come until ``parts`` are settled, and from then on only grow; 0 if they are."""
        return self.model.rows_undecided

    @property
    def received(self) -> Evidence | None:
        """What others learned and this detector took in, as one sum."""
        return self.model.received

    def rest_on(self, parts: Sequence[Evidence]) -> None:
        """Lets these take the place of all that was received from others.

        One model rests on their sum. With patterns, evidence of rows like those of a pattern here
        makes that one better; the rest are patterns that others know, and explain a row here as
        well, with a handicap.
        """
        self.model.rest_on(parts)

    def merge(self, evidence: Evidence) -> None:
        """Takes in what others learned: the cooperative update (Ito 2021, §4.2), in one shot.

        From now on the model is the one that learning the other's rows as well would have
        given. Merging adds: the same evidence twice counts twice. ``Member`` keeps contributions
        apart by origin, so that a newer one replaces the older.
        """
        self.model.add_received(evidence)

    def subtract(self, evidence: Evidence) -> None:
        """Takes evidence that was merged out again."""
        self.model.remove_received(evidence)

    # Going on from a saved state

    @property
    def scores_outdated(self) -> bool:
        """Whether the scores of the recent rows were computed before the model last changed."""
        return self._scored_by != self.model.version

    def trust_scores(self) -> None:
        """Takes the scores of the recent rows, as they were saved, for those of this model."""
        self._scored_by = self.model.version

    # Steps

    @property
    def _ready(self) -> bool:
        received = self.model.received
        known = self.learned + (0.0 if received is None else received.count)
        return known >= self.warmup and len(self.recent) >= self.policy.minimum

    def _settle(self) -> None:
        """Tells the model what is normal here, by which it limits what foreign patterns excuse."""
        if self.model.unsettled and len(self.recent) >= self.policy.minimum:
            self.model.settle(self.recent.rows)

    def _calibrated(self) -> float:
        if self.scores_outdated and len(self.recent):
            rows = self.recent.rows
            self.recent.rescore(self.model.left_out(rows) / rows.shape[1])
        self.trust_scores()
        return self.policy.limit(self.recent)

    def _refuse(self, x: Array, score: float, threshold: float) -> int:
        self.recent.refuse(score, threshold)
        self.quarantine.add(x)
        rows = self.quarantine.release_new_normal(self.model, threshold)
        if len(rows):
            self._adopt(rows)
        return len(rows)

    def _adopt(self, X: Array) -> None:
        self.model.adopt(X)
        self.recent.extend(X)

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
