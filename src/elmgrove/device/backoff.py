"""How long to wait before the next attempt."""

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

    def failed(self) -> float:
        """The seconds to wait now; the next wait is longer."""
        step = self._step
        self._step = min(step * self._factor, self._longest)
        return self._random.uniform(step / 2, step)

    def succeeded(self) -> None:
        """The next failure is the first one again."""
        self._step = self._first
