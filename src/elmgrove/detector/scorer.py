"""The scorer: says how strange rows are and what explains that, and never learns."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from elmgrove.algebra import Array, Basis, Bulk
from elmgrove.detector.elsewhere import Elsewhere
from elmgrove.detector.gate import Gate
from elmgrove.detector.mixture import PatternRule
from elmgrove.detector.model import Model
from elmgrove.detector.preparation import Preparation
from elmgrove.detector.verdict import Cause, explained
from elmgrove.detector.views import bulk_of, score_of, view_of
from elmgrove.detector.windows import stacked

#: Rows that are prepared at once.
BLOCK = 4096


class Scorer:
    """Scores rows by a model behind its preparation, and never learns; ``Learner`` also does."""

    basis: Basis
    model: Model
    patterns: PatternRule | None
    preparation: Preparation
    gate: Gate
    elsewhere: Elsewhere

    def score_one(self, row: Any) -> float:
        """Says how strange a row is that follows the last one: about 1 where it is typical."""
        x = self.preparation.one(row)
        return score_of(self.model, self.preparation.last_rows.with_next(x))

    def score_many(self, rows: Any) -> Array:
        """Scores each row of a stretch by itself, as ``score_one`` scores one, up to rounding.

        With a window, the first rows of the stretch are scored by as many rows as there are. With a
        spectrum, rows are samples, and there is a score for each whole frame of the stretch.
        """
        bulk = bulk_of(self.model) if self.patterns is None else None
        if bulk is not None:
            return self._scored_as_they_come(self.preparation.unscaled(rows), bulk)
        X = self.preparation.many(rows)
        size, scores = self.basis.window, np.empty(len(X))
        for start in range(0, len(X), BLOCK):
            first = max(start - size + 1, 0)
            inputs = stacked(X[first : start + BLOCK], size)
            # As many as there are inputs, up to the end of the block.
            end = min(start + BLOCK, len(X))
            scores[end - len(inputs) : end] = self.model.scores(inputs)
        self._score_first(X, scores)
        return scores

    def blame(self, row: Any, k: int = 3) -> list[Cause]:
        """Finds the k features that, each alone with other values, explain most of the score.

        Where there are patterns, to the one that explains the row best. With a window, the row is
        taken to follow the last one.
        """
        return self._blamed(self.preparation.last_rows.with_next(self.preparation.one(row)), k)

    def blame_at(self, rows: Any, index: int, k: int = 3) -> list[Cause]:
        """Finds what ``blame`` finds, for one score that ``score_many`` gave of these rows."""
        span = self.basis.span(max(index - self.basis.window + 1, 0), index + 1)
        return self._blamed(self.preparation.many(rows[span]).reshape(-1), k)

    def known_at(self, rows: Any, index: int) -> tuple[str, ...]:
        """Names those elsewhere for whom an input would have been normal, as ``blame_at`` has it.

        Nobody, where rows are missing in its window.
        """
        if index < self.basis.window - 1:
            return ()
        span = self.basis.span(index - self.basis.window + 1, index + 1)
        return self.elsewhere.known(
            self.preparation.many(rows[span]).reshape(-1), self.gate.limit()
        )

    # Steps

    def _scored_as_they_come(self, raw: Array, bulk: Bulk) -> Array:
        size, scores = self.basis.window, np.empty(len(raw))
        X = None
        for start in range(0, len(raw) - size + 1, BLOCK):
            end = start + BLOCK + size - 1
            found, far = bulk(raw[start:end])
            if len(far):
                # All of them: a row that can't be scaled is refused with its place.
                X = self.preparation.many(raw) if X is None else X
                windows = sliding_window_view(X[start:end], size, axis=0)[far].transpose(0, 2, 1)
                found[far] = self.model.scores(windows.reshape(len(far), -1))
            scores[start + size - 1 : end] = found
        if size > 1:
            self._score_first(self.preparation.many(raw[: size - 1]), scores)
        return scores

    def _score_first(self, X: Array, scores: Array) -> None:
        """Scores the rows that complete no window, by as many rows as there are."""
        for index in range(min(self.basis.window - 1, len(X))):
            scores[index] = score_of(self.model, X[: index + 1].reshape(-1))

    def _blamed(self, x: Array, k: int) -> list[Cause]:
        x, view = view_of(self.model, x)
        return explained(self.basis, view, x, k)
