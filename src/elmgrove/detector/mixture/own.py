"""The normal patterns of a device: those in use, those put aside, and how they come and go."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import OSELM, Array, Basis, Fitted, cluster, groups, k_means
from elmgrove.detector.mixture.pattern import AUTO, MOST_PARTS, Part, Pattern, PatternRule
from elmgrove.errors import BadInput

#: Rows between two looks at which patterns are one, which are not used, and what is typical.
TUNE_EVERY = 256
#: What is typical of a pattern is held as long as it changes by less than this share.
_STEADY = 0.05


class OwnPatterns:
    """Own patterns, and which row belongs to which.

    Until ``start_rows`` rows came there is one. Then they are clustered (MLMG, Algorithm 1), and
    each later row goes to the pattern whose centroid is nearest, which moves (Algorithm 2). Every
    so many rows, patterns that the evidence shows to be one are joined, and those that got no
    rows are put aside; ``part`` and ``revive`` undo it, exactly. The rows of a pattern stay in an
    evidence of their own through all of that.
    """

    def __init__(self, basis: Basis, rule: PatternRule, **settings: Any) -> None:
        self.basis = basis
        self.rule = rule
        self._settings = settings
        self.own = [self.blank(0)]
        self.retired: list[Pattern] = []
        #: The rows that decide how many patterns there are; None once that is decided.
        self.first_rows: list[Array] | None = [] if rule.patterns != 1 else None
        self.next_number = 1
        self.rows_seen = 0

    def blank(self, number: int) -> Pattern:
        """A pattern of this device's kind that has no rows yet."""
        layer, outputs = self.basis.layer, self.basis.outputs
        return Pattern(number, OSELM(layer, outputs, basis=self.basis, **self._settings))

    @property
    def numbers(self) -> list[int]:
        """Of the patterns in use."""
        return [pattern.number for pattern in self.own]

    @property
    def parts(self) -> tuple[Part, ...]:
        """What was learned here, by pattern, in the order of their numbers.

        Joining, parting and putting aside change nothing here.
        """
        parts = [part for pattern in [*self.own, *self.retired] for part in pattern.parts]
        return tuple(sorted(parts, key=lambda part: part.number))

    def find(self, number: int) -> Pattern:
        """The pattern in use with this number."""
        return _find(self.own, number)

    # Which row belongs to which

    def arrange(self) -> None:
        """To be called when the patterns in use are others, or lie elsewhere."""
        self._centroids = np.stack([pattern.centroid for pattern in self.own])

    def nearest(self, x: Array) -> int:
        """The place of the pattern whose rows lie nearest."""
        if len(self.own) == 1:
            return 0
        away = self._centroids - x
        return int(np.einsum("ij,ij->i", away, away).argmin())

    def nearest_to_each(self, X: Array) -> Array:
        """The same for each row, with nothing moving meanwhile."""
        distances = ((X[:, np.newaxis] - self._centroids) ** 2).sum(axis=2)
        return np.asarray(distances.argmin(axis=1))

    def move(self, index: int, x: Array) -> None:
        """A row came to a pattern."""
        moved = self.own[index]
        moved.move(x)
        if len(self.own) > 1:
            self._centroids[index] = moved.centroid
            for pattern in self.own:
                pattern.idle += 1
            moved.idle = 0

    # How many there are

    @property
    def rows_until_change(self) -> int:
        """Rows until the patterns may become others."""
        if self.first_rows is not None:
            return self.rule.start_rows - len(self.first_rows)
        return TUNE_EVERY - self.rows_seen % TUNE_EVERY

    def seen(self, X: Array | Sequence[Array]) -> bool:
        """Rows were learned: says whether it was time to decide, or to tune."""
        self.rows_seen += len(X)
        if self.first_rows is None:
            if self.rows_seen % TUNE_EVERY:
                return False
            self.tune()
            return True
        self.first_rows += [x.copy() for x in X]
        if len(self.first_rows) < self.rule.start_rows:
            return False
        self._split(np.array(self.first_rows))
        return True

    def tune(self) -> None:
        """Joins patterns that are one, puts aside those that got no rows, measures the rest."""
        before = self.numbers
        if self.rule.patterns == AUTO and self.rule.join > 0.0 and len(self.own) > 1:
            self._join()
        limit = self.rule.retire_after
        unused = [p for p in self.own if limit and p.idle >= limit][: len(self.own) - 1]
        self.own = [pattern for pattern in self.own if pattern not in unused]
        self.retired += unused
        for pattern in self.own:
            pattern.age()
        self._measure(_STEADY if self.numbers == before else 0.0)

    @property
    def has_room(self) -> bool:
        """Whether there can be one more."""
        few = len(self.own) < self.rule.most and len(self.parts) < MOST_PARTS
        return few and self.rule.patterns == AUTO and self.first_rows is None

    def found(self, X: Array) -> None:
        """Makes these rows a pattern of their own."""
        self._found(X)
        self._measure()

    def part(self, number: int) -> None:
        """Makes a pattern that was joined to another one by itself again."""
        for pattern in [*self.own, *self.retired]:
            if any(joined.number == number for joined in pattern.joined):
                pattern.release(number, again := self.blank(number))
                self.own.append(again)
                self._measure()
                return
        raise BadInput(f"no pattern {number} was joined to another one")

    def revive(self, number: int) -> None:
        """Brings a pattern back that was put aside."""
        pattern = _find(self.retired, number)
        self.retired.remove(pattern)
        pattern.idle = 0
        self.own.append(pattern)
        self._measure()

    def _found(self, X: Array) -> None:
        pattern = self.blank(self.next_number)
        self.next_number += 1
        pattern.model.absorb_many(X, X)
        for x in X:
            pattern.move(x)
        self.own.append(pattern)

    def _split(self, X: Array) -> None:
        """Algorithm 1: the first rows decide how many patterns there are."""
        self.first_rows = None
        rule = self.rule
        if rule.patterns == AUTO:
            labels = cluster(X, rule.most, rule.silhouette).labels
        else:
            labels = k_means(X, int(rule.patterns))
        kinds = [X[labels == name] for name in np.unique(labels)]
        if len(kinds) > 1:
            self.own = []
            for rows in kinds:
                self._found(rows)
        self._measure()

    def _join(self) -> None:
        kinds = [Fitted(pattern.evidence, pattern.model.ridge) for pattern in self.own]
        own = self.own
        self.own = []
        for group in groups(kinds, self.rule.join):
            first, *others = sorted((own[index] for index in group), key=lambda p: p.number)
            for other in others:
                first.take_in(other)
            self.own.append(first)

    def _measure(self, steady: float = 0.0) -> None:
        """All or none anew, since only their ratios matter; none if little has changed."""
        found = [pattern.measured for pattern in self.own]
        held = [pattern.typical for pattern in self.own]
        if not np.allclose(found, held, rtol=steady, atol=0.0):
            for pattern, typical in zip(self.own, found, strict=True):
                pattern.typical = typical


def _find(patterns: Sequence[Pattern], number: int) -> Pattern:
    for pattern in patterns:
        if pattern.number == number:
            return pattern
    raise BadInput(f"there is no pattern {number} among {[p.number for p in patterns]}")
