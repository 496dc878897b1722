"""Models side by side: each row is answered by the one that explains it best."""

from collections.abc import Sequence

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector.mixture.pattern import Pattern
from elmgrove.detector.model import Answer, SingleModel


class Weighing:
    """Own patterns and foreign models, and how much the score of each counts.

    Models differ in how well they can explain anything at all, so what counts is a score in
    proportion to what is typical of the model (a distance is that already). Foreign ones count as
    much as own ones: ``typical`` has the score of a typical row of each. ``raw`` lets each score
    count as it is: the lowest raw loss (MLMG, Ito 2019).
    """

    def __init__(
        self,
        own: Sequence[Pattern],
        foreign: Sequence[SingleModel],
        typical: Sequence[float],
        *,
        raw: bool = False,
    ) -> None:
        self._own = list(own)
        self.models = [*(pattern.model for pattern in own), *foreign]
        here, elsewhere = _known(np.array([pattern.typical for pattern in own]), np.array(typical))
        self._weights = here.mean() / np.concatenate([here, elsewhere])
        if raw:
            self._weights = np.ones(len(self.models))

    def answer(self, x: Array) -> Answer:
        """Lets the best model answer for a row."""
        answers = [model.answer(x) for model in self.models]
        if len(answers) == 1:
            return answers[0]._replace(work=answers, pattern=self._own[0].number)
        scores = self._weights * np.array([answer.score for answer in answers])
        best, nearest = int(scores.argmin()), int(scores[: len(self._own)].argmin())
        return Answer(float(scores[best]), answers[best].view, answers, nearest, self.number(best))

    def scores(self, X: Array, as_they_are: bool = False) -> Array:
        """Scores each row by each model, as it counts: own ones first.

        By models ``as_they_are``, or after all that they learned.
        """
        scores = np.stack(
            [model.answers(X) if as_they_are else model.scores(X) for model in self.models]
        )
        scores *= self._weights[:, np.newaxis]
        return scores

    def plain_losses(self, X: Array) -> Array:
        """Computes what the best model leaves of each row, to compare with other models'."""
        best = self.scores(X).argmin(axis=0)
        plain = np.empty(len(X))
        for index in np.unique(best):
            plain[best == index] = self.models[index].plain_losses(X[best == index])
        return plain

    def scores_left_out(self, X: Array, scores: Array, labels: Array) -> Array:
        """Replaces the scores of the own pattern that learned a row by those without that row.

        ``labels`` has the place of that pattern for each row.
        """
        replaced = scores.copy()
        for index, pattern in enumerate(self._own):
            mine = labels == index
            if mine.any():
                replaced[index, mine] = self._weights[index] * pattern.model.left_out(X[mine])
        return replaced

    def number(self, index: int) -> int:
        """Gives the number of the pattern at a place; −1, −2, … for foreign ones."""
        own = len(self._own)
        return self._own[index].number if index < own else own - index - 1


def _known(own: Array, foreign: Array) -> tuple[Array, Array]:
    """Takes what is not known to be the largest that is known: few rows have large errors."""
    known = [values[np.isfinite(values)].max(initial=0.0) for values in (own, foreign)]
    largest = (known[0] or known[1] or 1.0), max(*known) or 1.0
    own, foreign = (
        np.where(np.isfinite(values) & (values > 0.0), values, most)
        for values, most in zip((own, foreign), largest, strict=True)
    )
    return own, foreign
