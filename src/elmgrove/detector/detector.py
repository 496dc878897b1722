"""The detector: scores rows, decides, and learns those that are not strange."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from elmgrove.algebra import (
    Array,
    Basis,
    Evidence,
    Frames,
    HiddenLayer,
    Rows,
    Scaling,
    Spectrum,
    default_score,
    one_thread,
)
from elmgrove.detector.alarm import Alarm, AlarmRule
from elmgrove.detector.mixture import Mixture, PatternRule
from elmgrove.detector.model import Answer, Model, Part
from elmgrove.detector.progress import CHANGING, LEARNING, Progress
from elmgrove.detector.quarantine import Quarantine
from elmgrove.detector.recent import ROWS, Recent
from elmgrove.detector.single import single_model
from elmgrove.detector.thresholds import FalseAlarmRate, Threshold
from elmgrove.detector.verdict import Cause, Verdict, explained
from elmgrove.detector.windows import Window, choose_window, stacked
from elmgrove.errors import BadInput, require_whole

# Products of fewer numbers are never spread over threads.
_SMALL = 4096
# Rows that are prepared at once.
_BLOCK = 4096
# The threshold may be older than the scores it is computed from by this part of them.
_SHARE = 128
# The share of recent scores that is compared when others change the model.
_LEVEL = 0.95


class Detector:
    """Learns what normal rows look like, and says how strange a row is.

    With a linear layer a row's ``score`` is its distance from what was learned (Mahalanobis'
    distance, squared, divided by the number of values): a typical row scores 1, whatever the
    units. With another layer, or ``score="loss"``, it is the mean squared error of reconstructing
    the row from a few hidden units (Ito 2021, §3.4). The distance finds what breaks the usual
    relations between columns, and what leaves the usual range. It does not find a normal row at
    the wrong time, unless a ``window`` shows it: then the last so many rows, side by side, are one
    input. With a ``spectrum`` rows are samples of fast signals, and ``observe`` takes a frame of
    them at a time.

    ``learn_one`` and ``learn_many`` are for rows known to be normal. ``observe`` is for a
    stream: it scores, decides, and learns the row unless it is strange (strange rows wait in
    ``quarantine``). Nothing is flagged while it is ``learning``: until ``warmup`` rows were learned
    (twice the hidden units unless stated), the threshold has the scores it needs, and counting has
    shown the stated rate; ``progress`` tells what is missing. ``merge`` takes in what others
    learned; ``evidence`` is what this device learned itself, for others.

    ``patterns`` gives a model to each of several normal patterns (MLMG, Qin and Kondo 2021): one
    model for all of them would explain everything between them as well, and miss what lies there.
    A row's score is then the lowest of theirs, and ``verdict.pattern`` says whose. That works where
    patterns are far apart compared with their width, and not where one drifts into the other: then
    one model is better.

    >>> rng = np.random.default_rng(0)
    >>> normal = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(500, 6)) / 9
    >>> detector = Detector.for_data(normal)
    >>> detector.learn_many(normal)
    >>> strange = normal[0] + [3, 0, 0, 0, 0, 0]
    >>> verdict = detector.observe(strange)
    >>> verdict.anomalous, verdict.learned, detector.blame(strange)[0].feature
    (True, False, 'column 0')
    >>> idle, busy = (rng.normal(size=(300, 2)) @ rng.normal(size=(2, 8)) + 9 * k for k in (0, 1))
    >>> detector = Detector(HiddenLayer(inputs=8, units=8), patterns=PatternRule())
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
        score: str | None = None,
        window: int = 1,
        spectrum: Spectrum | None = None,
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
        window = require_whole("window", window, 1)
        self.basis = basis = Basis(
            layer,
            layer.inputs * window,
            names,
            scaling or Scaling(),
            window,
            score or default_score(layer.activation),
            spectrum,
        )
        #: How patterns come and go; None where there is one model.
        self.patterns = patterns
        settings = {"ridge": ridge, "forgetting": forgetting, "dtype": dtype}
        self.model: Model = (
            single_model(basis, **settings)
            if patterns is None
            else Mixture(basis, patterns, **settings)
        )
        self.policy: Threshold = threshold or FalseAlarmRate()
        self.warmup = 2 * layer.units if warmup is None else require_whole("warmup", warmup, 0)
        self.alarm = Alarm(alarm or AlarmRule())
        self.quarantine = Quarantine(basis.inputs, quarantine, promote_after)
        self.recent = Recent(
            self.policy.capacity, basis.inputs, self.model.dtype, _apart(self.policy, window)
        )
        #: What counting has shown up to now.
        self.progress = Progress(self.policy.rate, self.policy.confidence, window)
        self._rows = Rows(layer.inputs, self.model.dtype, names if spectrum is None else None)
        # Rows are scaled before they are rounded: a large mean would swallow what differs.
        self._raw = Rows(basis.columns, np.float64, names)
        #: The samples of a frame that is not complete yet; None where rows are no samples.
        self.frames = None if spectrum is None else Frames(spectrum, self._raw)
        self._scale = basis.scaling if basis.scaling.kind != "none" else None
        #: The rows that the next input begins with.
        self.last_rows = Window(window, layer.inputs, self.model.dtype)
        self._limit: float | None = None
        # The threshold is computed again at this number of rows.
        self._limit_until = 0
        self._warm = False
        # For a small matrix even asking for one thread takes longer than the product.
        large = layer.units * basis.inputs > _SMALL
        self._threads: AbstractContextManager[None] = one_thread if large else nullcontext()

    @classmethod
    def for_data(
        cls,
        rows: Any,
        *,
        window: int | str = "auto",
        score: str | None = None,
        spectrum: Spectrum | None = None,
        scaling: str = "standard",
        units: int | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> "Detector":
        """Makes a detector for rows like these: columns, scaling, units and window fit them.

        It has learned nothing yet. Rows may be a table with names (pandas). ``settings`` are the
        constructor's. ``window="auto"`` takes ten rows for one input where the rows are a time
        series (``choose_window`` says why).
        """
        labels = [name for name in getattr(rows, "columns", ()) if isinstance(name, str)]
        X = np.asarray(rows)
        if X.ndim != 2 or not len(X):
            raise BadInput(f"expected rows of columns, got an array of shape {X.shape}")
        X, _ = Rows(X.shape[1], np.float64).many(rows)
        names = tuple(labels) if len(labels) == X.shape[1] else None
        seen = X if spectrum is None else Frames(spectrum, Rows(X.shape[1], np.float64)).add(X)
        size = choose_window(seen).window if window == "auto" else window
        basis = Basis.fitted(
            X,
            names,
            scaling=scaling,
            units=units,
            window=require_whole("window", size, 1),
            score=score,
            spectrum=spectrum,
            seed=seed,
        )
        return cls.for_basis(basis, **settings)

    @classmethod
    def for_basis(cls, basis: Basis, **settings: Any) -> "Detector":
        """Makes a detector that prepares rows as this basis says; ``settings`` are the others."""
        return cls(
            basis.layer,
            score=basis.score,
            window=basis.window,
            spectrum=basis.spectrum,
            features=basis.features,
            scaling=basis.scaling,
            **settings,
        )

    def __repr__(self) -> str:
        layer = self.basis.layer
        window = f", window {self.basis.window}" if self.basis.window > 1 else ""
        return (
            f"<Detector by {self.basis.score}: {layer.inputs} columns, {layer.units} units"
            f"{window}, {self.learned} rows learned, {self.state}>"
        )

    # Scoring: never learns

    def score_one(self, row: Any) -> float:
        """Says how strange a row is that follows the last one: about 1 where it is typical."""
        x = self._prepared(row)
        self._settle()
        if self.basis.window == 1:
            return self.model.score_one(x)
        return self._score(self.last_rows.with_next(x))

    def score_many(self, rows: Any) -> Array:
        """Scores each row of a stretch by itself, as ``score_one`` scores one, up to rounding.

        With a window, the first rows of the stretch are scored by as many rows as there are.
        """
        X = self._prepared_many(rows)
        self._settle()
        size, scores = self.basis.window, np.empty(len(X))
        for start in range(0, len(X), _BLOCK):
            first = max(start - size + 1, 0)
            inputs = stacked(X[first : start + _BLOCK], size)
            # As many as there are inputs, up to the end of the block.
            end = min(start + _BLOCK, len(X))
            scores[end - len(inputs) : end] = self.model.scores(inputs)
        for index in range(min(size - 1, len(X))):
            scores[index] = self._score(X[: index + 1].reshape(-1))
        return scores

    def blame(self, row: Any, k: int = 3) -> list[Cause]:
        """Finds the k features that, each alone with other values, explain most of the score.

        Where there are patterns, to the one that explains the row best. With a window, the row is
        taken to follow the last one.
        """
        return self._blamed(self.last_rows.with_next(self._prepared(row)), k)

    def blame_at(self, rows: Any, index: int, k: int = 3) -> list[Cause]:
        """Finds what ``blame`` finds, for one row of a stretch that ``score_many`` was given."""
        first = max(index - self.basis.window + 1, 0)
        return self._blamed(self._prepared_many(rows[first : index + 1]).reshape(-1), k)

    def causes(self, verdict: Verdict, k: int = 3) -> list[Cause]:
        """Finds what ``blame`` would have found for the row of a verdict given here."""
        view = verdict.view
        if self.basis.score == "loss":
            _, view = self.model.explainer(verdict.row)
        return explained(self.basis, view, verdict.row, k)

    # Learning rows that are known to be normal

    def learn_one(self, row: Any) -> None:
        """Learns a normal row; on bad input raises ``BadInput`` and stays as it was."""
        x = self._next_input(row)
        if x is None:
            return
        with self._threads:
            answer = self.model.answer(x)
            self._count(answer.score)
            self.model.keep(answer, x)
        self.recent.accept(x, answer.score)

    def learn_many(self, rows: Any) -> None:
        """Learns normal rows, as ``learn_one`` learns one but much faster. All or none."""
        X = self._prepared_next(rows)
        for start in range(0, len(X), _BLOCK):
            inputs = self.last_rows.add_many(X[start : start + _BLOCK])
            while len(inputs):
                block = inputs[: self.model.rows_alike()]
                scores = self.model.answers(block)
                self._count_many(scores)
                self.model.learn_all(block)
                self.recent.accept_many(block, scores)
                inputs = inputs[len(block) :]
        self._limit = None

    # Watching a stream

    def interrupt(self) -> None:
        """Takes note that the next row does not follow the last one: the window begins again."""
        self.last_rows.restart()
        if self.frames is not None:
            self.frames.restart()

    def observe(self, row: Any) -> Verdict:
        """Scores the row, decides, and learns it unless it is strange.

        With a window, the first rows after the start or a gap are scored, but neither judged nor
        learned, until the window is full.
        """
        x = self._next_input(row)
        if x is None:
            return self._unjudged(self.last_rows.tail.reshape(-1))
        with self._threads:
            return self._observed(x, self.model.answer(x))

    def observe_many(self, rows: Any) -> list[Verdict]:
        """Observes rows that came together, with the verdicts that ``observe`` would give.

        With a spectrum, rows are samples, and there is a verdict for each frame they complete.
        """
        X = self._prepared_next(rows)
        missing = min(self.basis.window - 1 - len(self.last_rows), len(X))
        verdicts = list[Verdict]()
        for x in X[:missing]:
            self.last_rows.add(x)
            verdicts.append(self._unjudged(self.last_rows.tail.reshape(-1)))
        for start in range(missing, len(X), _BLOCK):
            inputs = self.last_rows.add_many(X[start : start + _BLOCK])
            with self._threads:
                verdicts += self._observed_many(inputs)
        return verdicts

    def _observed_many(self, inputs: Array) -> list[Verdict]:
        verdicts = list[Verdict]()
        while len(verdicts) < len(inputs):
            version, begun = self.model.version, len(verdicts)
            for answer in self.model.answers_ahead(inputs[begun:]):
                # A copy: a verdict that somebody keeps is not to keep all the others' rows.
                verdicts.append(self._observed(inputs[len(verdicts)].copy(), answer))
                if self.model.version != version:
                    # Rows were promoted: what was answered ahead is out of date.
                    break
        return verdicts

    def _observed(self, x: Array, answer: Answer) -> Verdict:
        score, progress = answer.score, self.progress
        limit = self._provisional()
        # Written so that a score that is no number would be strange.
        above = not score <= limit
        state = LEARNING
        if self._ready:
            state = progress.state
            progress.count(above)
        strange = above and state != LEARNING
        promoted = 0
        if strange:
            promoted = self._refuse(x, score, limit)
        else:
            self.model.keep(answer, x)
            self.recent.accept(x, score)
            self.quarantine.run = 0
        return Verdict(
            score,
            math.inf if state == LEARNING else limit,
            strange,
            not strange,
            self._alarm(strange, state),
            state,
            promoted,
            answer.pattern,
            progress.seen,
            x,
            answer.view,
            self.basis,
        )

    def _alarm(self, strange: bool, state: str) -> bool:
        """Whether to alarm; while changing not again and again, but once when it is found out."""
        raised = self.alarm.raised(strange)
        if self.progress.state == CHANGING:
            return state != CHANGING
        return raised

    def _unjudged(self, x: Array) -> Verdict:
        """The verdict on a row that completes no window yet."""
        state = self.state
        limit = math.inf if state == LEARNING else self._provisional()
        score, (x, view) = self._score(x), self._viewed(x.copy())
        seen = self.progress.seen
        return Verdict(score, limit, False, False, False, state, 0, 0, seen, x, view, self.basis)

    @property
    def window(self) -> int:
        """The rows, side by side, that are one input."""
        return self.basis.window

    @property
    def state(self) -> str:
        """``learning`` (no alarms yet), ``watching``, or ``changing`` (far more is strange)."""
        return self.progress.state if self._ready else LEARNING

    @property
    def threshold(self) -> float:
        """Scores above this are strange; infinite while ``learning``."""
        return math.inf if self.state == LEARNING else self._provisional()

    @property
    def rows_missing(self) -> int:
        """Rows that must still come, none of them above the threshold, before there are alarms."""
        if self.state != LEARNING:
            return 0
        short = max(self.warmup - self._known, self.recent.missing(self.policy.minimum), 0)
        return math.ceil(short) + self.progress.missing

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
        level = self._level()
        self.model.rest_on(parts)
        self._follow(level)

    def merge(self, evidence: Evidence) -> None:
        """Takes in what others learned: the cooperative update (Ito 2021, §4.2), in one shot.

        From now on the model is the one that learning the other's rows as well would have
        given. Merging adds: the same evidence twice counts twice. ``Member`` keeps contributions
        apart by origin, so that a newer one replaces the older.
        """
        level = self._level()
        self.model.add_received(evidence)
        self._follow(level)

    def subtract(self, evidence: Evidence) -> None:
        """Takes evidence that was merged out again."""
        level = self._level()
        self.model.remove_received(evidence)
        self._follow(level)

    # Steps

    @property
    def _known(self) -> float:
        received = self.model.received
        return self.learned + (0.0 if received is None else received.count)

    @property
    def _ready(self) -> bool:
        if not self._warm:
            enough = not self.recent.missing(self.policy.minimum)
            self._warm = enough and self._known >= self.warmup
        return self._warm

    def _provisional(self) -> float:
        """The threshold by the scores up to now, whether it is relied on or not yet."""
        recent = self.recent
        if self._limit is None or recent.clock >= self._limit_until:
            self._settle()
            enough = not recent.missing(self.policy.minimum)
            self._limit = self.policy.limit(recent) if enough else math.inf
            self._limit_until = recent.clock + 1 + len(recent) // _SHARE
        return self._limit

    @property
    def limit(self) -> list[float] | None:
        """The threshold as it was last computed, and until which row it is good; to be saved."""
        known = self._limit is not None and self._limit < math.inf
        return [self._limit or 0.0, float(self._limit_until)] if known else None

    @limit.setter
    def limit(self, limit: list[float] | None) -> None:
        if limit is not None:
            self._limit, self._limit_until = float(limit[0]), int(limit[1])

    def _settle(self) -> None:
        """Tells the model what is normal here, by which it limits what foreign patterns excuse."""
        needed = min(max(self.policy.minimum, 1), ROWS)
        if self.model.unsettled and len(self.recent.rows) >= needed:
            self.model.settle(self.recent.rows)

    def _level(self) -> float | None:
        """How high the scores of the last rows are, had the model not learned them."""
        rows = self.recent.rows
        if len(rows) < 2 * self.basis.window or not len(self.recent):
            return None
        self._settle()
        return float(np.quantile(self.model.left_out(rows), _LEVEL))

    def _follow(self, before: float | None) -> None:
        """Lets the scores up to now follow a model that others have changed."""
        after = self._level()
        if before and after:
            self.recent.follow(before, after)
        self._limit, self._warm = None, False

    def _count(self, score: float) -> None:
        if self._ready:
            self.progress.count(not score <= self._provisional(), known_normal=True)

    def _count_many(self, scores: Array) -> None:
        if self._ready:
            limit = self._provisional()
            for above in (~(scores <= limit)).tolist():
                self.progress.count(above, known_normal=True)

    def _refuse(self, x: Array, score: float, threshold: float) -> int:
        self.recent.refuse(score, threshold)
        self.quarantine.add(x)
        rows = self.quarantine.release_new_normal(self.model, threshold)
        if len(rows):
            self._adopt(rows)
        return len(rows)

    def _adopt(self, X: Array) -> None:
        if not len(X):
            return
        self.model.adopt(X)
        self.recent.accept_many(X, self.model.left_out(X))
        if self.progress.state == CHANGING:
            self.progress.accept()
        self._limit = None

    def _score(self, x: Array) -> float:
        """Scores an input, also one of fewer rows than a window has."""
        if len(x) == self.basis.inputs:
            return self.model.score_one(x)
        if self.basis.score == "loss":
            return self.model.score_one(self._padded(x))
        views = (model.explainer(x)[1] for model in self.model.models)
        return min(float(view.last(len(x)).score_one(x)) for view in views)

    def _viewed(self, x: Array) -> tuple[Array, Any]:
        """An input, as long as what explains it needs it, and what explains it."""
        missing = len(x) < self.basis.inputs
        whole = self._padded(x) if missing else x
        _, view = self.model.explainer(whole)
        if missing and self.basis.score == "distance":
            return x, view.last(len(x))
        return whole, view

    def _blamed(self, x: Array, k: int) -> list[Cause]:
        x, view = self._viewed(x)
        return explained(self.basis, view, x, k)

    def _padded(self, x: Array) -> Array:
        """An input whose missing rows are 0: where rows are scaled, nothing out of the ordinary."""
        return np.concatenate([np.zeros(self.basis.inputs - len(x), x.dtype), x])

    def _next_input(self, row: Any) -> Array | None:
        """The input that a row completes, as an array of its own; None where rows are missing."""
        x = self._prepared(row)
        if self.basis.window == 1:
            # The caller may use its buffer again.
            return x.copy() if self._scale is None else x
        window = self.last_rows.add(x)
        return None if window is None else window.copy()

    def _prepared(self, row: Any) -> Array:
        if self.basis.spectrum is not None:
            return self._featured(self.basis.spectrum(self._raw.many(row)[0])[np.newaxis])[0]
        if self._scale is not None:
            row = self._scale(self._raw.one(row)[0])
        return self._rows.one(row)[0]

    def _featured(self, features: Array) -> Array:
        """Spectra, scaled and checked."""
        scaled = features if self._scale is None else self._scale(features)
        return self._rows.many(scaled)[0]

    def _prepared_next(self, rows: Any) -> Array:
        """Rows that follow the last ones: of samples, the spectra of the frames they complete."""
        if self.frames is None:
            return self._prepared_many(rows)
        return self._featured(self.frames.add(rows))

    def _prepared_many(self, rows: Any) -> Array:
        if self.basis.spectrum is not None:
            return self._featured(Frames(self.basis.spectrum, self._raw).add(rows))
        if self._scale is not None:
            rows = self._scale(self._raw.many(rows)[0])
        return self._rows.many(rows)[0]


def _apart(policy: Threshold, window: int) -> int:
    """How many rows after a refused one another says something of its own about normal rows.

    Of rows that are strange by chance alone, a tenth at most comes sooner.
    """
    rate = policy.rate or 1.0
    return max(window, min(10, int(0.1 / rate)), 1)
