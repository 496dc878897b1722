"""Waits between tries of what failed: each is longer than the one before."""

import random as randomness


class Backoff:
    """Waits that grow with each failure, up to a longest one.

    Each lies at random between half and the whole of its step: a fleet that lost its server at
    one moment does not come back at one moment.

    >>> backoff = Backoff(first=1.0, longest=3.0)
    >>> [step / 2 <= backoff.failed() <= step for step in (1.0, 2.0, 3.0, 3.0)]
    [True, True, True, True]
    """

    def __init__(
        self,
        first: float = 1.0,
        factor: float = 2.0,
        longest: float = 300.0,
        random: randomness.Random | None = None,
    ) -> None:
        self._first = min(first, longest)
        self._factor = factor
        self._longest = longest
        self._random = random or randomness.Random()
        self._step = self._first

    def failed(self, at_least: float = 0.0) -> float:
        """Gives the seconds to wait now, and makes the next wait longer.

        Who is asked to wait ``at_least`` so long waits up to half as long again.
        """
        step = max(self._step, at_least * 1.5)
        self._step = min(self._step * self._factor, self._longest)
        return self._random.uniform(max(step / 2, at_least), step)

    def succeeded(self) -> None:
        """Makes the next wait as short as the first one."""
        self._step = self._first
