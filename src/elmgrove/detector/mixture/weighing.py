"""Models side by side: each row is answered by the one that explains it best."""

from collections.abc import Sequence

import numpy as np

from elmgrove.algebra import Array, Guess
from elmgrove.detector.autoencoder import Autoencoder
from elmgrove.detector.mixture.pattern import Pattern
from elmgrove.detector.model import Answer


class Weighing:
    """Own patterns and foreign models, and how much the errors of each count.

    Models differ in how well they can explain anything at all, so what counts is an error in
    proportion to what is typical of the model. A typical row of a foreign one counts as
    ``handicap`` times the strangest row that was normal here (``weigh``): what happens elsewhere
    excuses a row here less than what happens here, and hardly anything that one's own patterns
    explain about as well.
    """

    def __init__(
        self,
        own: Sequence[Pattern],
        foreign: Sequence[Autoencoder],
        typical: Sequence[float],
        handicap: float,
    ) -> None:
        self._own = list(own)
        self.models = [*(pattern.model for pattern in own), *foreign]
        self._typical = _known(np.array([pattern.typical for pattern in own]), np.array(typical))
        self._handicap = handicap
        self.weigh(None)

    def weigh(self, edge: float | None) -> None:
        """Weighs foreign models by ``edge``: the largest loss of what is normal here.

        None if that is not known yet: then foreign models count as much as own ones.
        """
        self.edge = edge
        own, foreign = self._typical
        level = own.mean()
        excused = level if edge is None else max(level, self._handicap * edge)
        self._weights = np.concatenate([level / own, excused / foreign])

    def answer(self, x: Array) -> Answer:
        """Lets the best model reconstruct a row."""
        h = self.models[0].hidden_one(x)
        ws = [model.solve_one(h) for model in self.models]
        ys = [model.output_one(w) for model, w in zip(self.models, ws, strict=True)]
        guesses = tuple(Guess(h, w, y) for w, y in zip(ws, ys, strict=True))
        if len(guesses) == 1:
            return Answer(ys[0], guesses, pattern=self._own[0].number)
        losses = self._weights * np.array([float(r @ r) for r in (x - y for y in ys)])
        best, nearest = int(losses.argmin()), int(losses[: len(self._own)].argmin())
        return Answer(ys[best], guesses, nearest, self.number(best), float(self._weights[best]))

    def losses(self, X: Array) -> Array:
        """Computes what each model leaves unexplained of each row, as it counts: own ones first."""
        losses = np.stack([model.losses(X) for model in self.models])
        losses *= self._weights[:, np.newaxis]
        return losses

    def losses_left_out(self, X: Array, losses: Array, labels: Array) -> Array:
        """Replaces the losses of the own pattern that learned a row by those without that row.

        ``labels`` has the place of that pattern for each row.
        """
        left_out = losses.copy()
        for index, pattern in enumerate(self._own):
            mine = labels == index
            if mine.any():
                left_out[index, mine] = self._weights[index] * pattern.model.left_out(X[mine])
        return left_out

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
