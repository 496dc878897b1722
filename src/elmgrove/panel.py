"""Models side by side: each row is answered by the one that explains it best."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.oselm import OSELM, Guess
from elmgrove.pattern import Pattern

Array = NDArray[Any]


class Panel:
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
        foreign: Sequence[OSELM],
        typical: Sequence[float],
        handicap: float,
    ) -> None:
        self._own = list(own)
        self._foreign = list(foreign)
        self._models = [*(pattern.model for pattern in own), *foreign]
        self._typical = _known(np.array([pattern.typical for pattern in own]), np.array(typical))
        self._handicap = handicap
        self.weigh(None)

    def weigh(self, edge: float | None) -> None:
        """``edge``: the largest loss of what is normal here; None if that is not known yet.

        Then foreign models count as much as own ones.
        """
        self.edge = edge
        own, foreign = self._typical
        level = own.mean()
        excused = level if edge is None else max(level, self._handicap * edge)
        self._weights = np.concatenate([level / own, excused / foreign])

    def guess(self, x: Array) -> Guess:
        """What the best model makes of a row that is known to be good."""
        models = self._models
        h = models[0].hidden_one(x)
        ws = [model.solve_one(h) for model in models]
        ys = [model.output_one(w) for model, w in zip(models, ws, strict=True)]
        if len(models) == 1:
            return Guess(h, (ws, None), ys[0], self._own[0].number)
        losses = self._weights * np.array([float(r @ r) for r in (x - y for y in ys)])
        best = int(losses.argmin())
        return Guess(h, (ws, losses), ys[best], self._number(best), float(self._weights[best]))

    def losses(self, X: Array) -> Array:
        """What each model leaves unexplained of each row, as it counts: own ones first."""
        losses = np.stack([model.losses(X) for model in self._models])
        losses *= self._weights[:, np.newaxis]
        return losses

    def losses_left_out(self, X: Array, losses: Array, labels: Array) -> Array:
        """The same where the own pattern that learned a row (``labels``) did not learn it."""
        left_out = losses.copy()
        for index, pattern in enumerate(self._own):
            mine = labels == index
            if mine.any():
                without = pattern.model.leave_one_out(X[mine], X[mine])
                left_out[index, mine] = self._weights[index] * without
        return left_out

    def winners(self, X: Array) -> list[int]:
        """The number of the pattern that explains each row best; −1, −2, … for foreign ones."""
        return [self._number(int(index)) for index in self.losses(X).argmin(axis=0)]

    def _number(self, index: int) -> int:
        own = len(self._own)
        return self._own[index].number if index < own else own - index - 1


def _known(own: Array, foreign: Array) -> tuple[Array, Array]:
    """What nobody knows is taken to be as the largest that is known: few rows, large errors."""
    known = [values[np.isfinite(values)].max(initial=0.0) for values in (own, foreign)]
    largest = (known[0] or known[1] or 1.0), max(*known) or 1.0
    own, foreign = (
        np.where(np.isfinite(values) & (values > 0.0), values, most)
        for values, most in zip((own, foreign), largest, strict=True)
    )
    return own, foreign
