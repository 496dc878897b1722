"""The pattern detector: several normal patterns, a model for each, and the best one answers."""

from collections.abc import Sequence
from typing import Any

from elmgrove.algebra import Basis, Evidence, HiddenLayer
from elmgrove.detector.mixture import Mixture, Part, PatternRule
from elmgrove.detector.verdict import Blame, Cause
from elmgrove.detector.watcher import Watcher
from elmgrove.errors import NotAdmissible


class PatternDetector(Watcher[Mixture]):
    """A detector for machines with several normal patterns (MLMG, Qin and Kondo 2021).

    One model for several patterns explains everything between them as well, and so misses what
    lies there. Here each pattern has a model; a row's score is the lowest of their errors, and
    ``verdict.pattern`` says whose. Some patterns can be explained better than others, so errors
    are compared in proportion to what is typical of each, and are mean squared errors for a
    pattern that is typical in that. Everything else is as with ``Detector``. ``rule`` says how many
    patterns there are and how they come and go. It works where patterns are far apart compared
    with their width, and not where one drifts into the other: then one model is better.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> idle, busy = (rng.normal(size=(300, 2)) @ rng.normal(size=(2, 8)) + 9 * k for k in (0, 1))
    >>> detector = PatternDetector(HiddenLayer(inputs=8, units=3, seed=7))
    >>> detector.learn_many(rng.permutation(np.vstack([idle, busy])))
    >>> [pattern.number for pattern in detector.model.own]
    [1, 2]
    >>> detector.observe(idle[0]).pattern != detector.observe(busy[0]).pattern
    True
    """

    def __init__(
        self, layer: HiddenLayer, *, rule: PatternRule | None = None, **settings: Any
    ) -> None:
        self.rule = rule or PatternRule()
        self._blames: dict[int, Blame] = {}
        super().__init__(layer, **settings)

    def _made(self, basis: Basis, ridge: float, forgetting: float, dtype: Any) -> Mixture:
        return Mixture(basis, self.rule, ridge=ridge, forgetting=forgetting, dtype=dtype)

    def score_one(self, row: Any) -> float:
        """How strange the row is: the mean squared error of its reconstruction, in proportion."""
        self._settle()
        return super().score_one(row)

    def score_many(self, rows: Any) -> Any:
        """The score of each row; the same as ``score_one`` for each, up to rounding."""
        self._settle()
        return super().score_many(rows)

    @property
    def threshold(self) -> float:
        """Scores above this are strange; infinite while ``learning``."""
        self._settle()
        return super().threshold

    def blame(self, row: Any, k: int = 3) -> list[Cause]:
        """The k features that would, each alone with another value, explain most of the error.

        To the pattern that explains the row best.
        """
        x, _ = self._prepared(row)
        number = self.model.guess(x).pattern
        model = self.model.model_of(number)
        known = self._blames.get(number)
        if known is None or known.beta is not model.beta:
            known = self._blames[number] = Blame(model)
        return known.causes(x, model.predict_one(x), k)

    def _learn_new_normal(self, X: Any) -> None:
        self.model.found(X)
        self.recent.extend(X)
        self._changed(len(X))

    def _accepted(self, x: Any, score: float) -> int:
        promoted = super()._accepted(x, score)
        if self.model.rearranged:
            self._changed(0)
        return promoted

    def _changed(self, rows: int) -> None:
        super()._changed(rows)
        self.model.rearranged = False
        self.model.weigh(None)

    def _settle(self) -> None:
        """Before anything is scored: what is normal here decides what foreign patterns excuse."""
        model = self.model
        if model.foreign and model.edge is None and len(self.recent) >= self.policy.minimum:
            model.settle(self.recent.rows)

    # Cooperation

    @property
    def parts(self) -> tuple[Part, ...]:
        """What this device learned itself, by pattern."""
        return self.model.parts

    @property
    def rows_undecided(self) -> int:
        """Rows until it is decided how many patterns there are: then parts begin anew."""
        first = self.model.patterns.first_rows
        return 0 if first is None else self.rule.start_rows - len(first)

    def rest_on(self, parts: Sequence[Evidence]) -> None:
        """Lets these take the place of all that was received from others.

        Evidence of a kind that is known here makes that pattern better; the rest are patterns
        that others know, and explain a row here as well, with a handicap.
        """
        self.model.rest_on(parts)
        self._changed(0)

    def merge(self, evidence: Evidence) -> None:
        """Takes in what others learned, as one more part."""
        self.rest_on([*self.model.received, evidence])

    def subtract(self, evidence: Evidence) -> None:
        """Takes a part that was merged out again."""
        kept = list(self.model.received)
        if evidence not in kept:
            raise NotAdmissible("this evidence was never merged here")
        kept.remove(evidence)
        self.rest_on(kept)
