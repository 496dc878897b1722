"""The normal patterns of a device: those in use, those put aside, and how they come and go."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import Array, Basis, Evidence, Moments, Packed, cluster, fit, groups, k_means
from elmgrove.detector.mixture.pattern import Pattern
from elmgrove.detector.mixture.pattern_rule import AUTO, PatternRule
from elmgrove.detector.model import MOST_PARTS, Part, SingleModel
from elmgrove.detector.single import single_model
from elmgrove.errors import BadInput, require_whole

#: Rows between two looks at which patterns are one, which are not used, and what is typical.
TUNE_EVERY = 256
#: What is typical of a pattern is held as long as it changes by less than this share.
_STEADY = 0.05


class OwnPatterns:
    """The patterns of a device, and which row belongs to which.

    Until ``start_rows`` rows came there is one. Then they are clustered (MLMG, Algorithm 1), and
    each later row goes to the pattern whose centroid is nearest, which moves (Algorithm 2). Every
    so many rows, patterns that the evidence shows to be one are joined, and those that got no
    rows are put aside; ``separate`` and ``revive`` undo it, exactly. The rows of a pattern stay in
    an evidence of their own through all of that.
    """

    def __init__(self, basis: Basis, rule: PatternRule, **settings: Any) -> None:
        self.basis = basis
        self.rule = rule
        self._settings = settings
        self._loan: Moments | None = None
        self.used = [self.blank(0)]
        self.retired: list[Pattern] = []
        #: The rows that decide how many patterns there are; None once that is decided.
        self.first_rows: list[Array] | None = [] if rule.patterns != 1 else None
        self.next_number = 1
        self.rows_seen = 0
        # Where the patterns in use lie; None until it is asked for.
        self._centroids: Array | None = None

    def blank(self, number: int) -> Pattern:
        """Makes a pattern with the settings of this device that has no rows yet."""
        model = single_model(self.basis, **self._settings)
        model.borrow(self._loan)
        return Pattern(number, model)

    def borrow(self, loan: Moments | None) -> None:
        """Lets each pattern, and each that comes, borrow how readings move together elsewhere."""
        self._loan = loan
        for pattern in [*self.used, *self.retired]:
            pattern.model.borrow(loan)

    def forget_by(self, forgetting: float) -> None:
        """Lets each row make those before it in its pattern count so much less, from now on."""
        self._settings["forgetting"] = forgetting
        for pattern in [*self.used, *self.retired]:
            pattern.forget_by(forgetting)

    def foreign(self, evidence: Evidence) -> SingleModel:
        """Makes a model of what others know, which never learns."""
        model = single_model(self.basis, **self._settings)
        model.use_prior(evidence)
        return model

    @property
    def numbers(self) -> list[int]:
        """The numbers of the patterns in use."""
        return [pattern.number for pattern in self.used]

    @property
    def arrangement(self) -> list[tuple[int, float]]:
        """The numbers of the patterns in use, and what is typical of each."""
        return [(pattern.number, pattern.typical) for pattern in self.used]

    @property
    def parts(self) -> tuple[Part, ...]:
        """What was learned here, by pattern, in the order of their numbers.

        Joining, parting and putting aside change nothing here.
        """
        parts = [part for pattern in [*self.used, *self.retired] for part in pattern.parts]
        return tuple(sorted(parts, key=lambda part: part.number))

    def find(self, number: int) -> Pattern:
        """Finds the pattern in use with this number."""
        return _find(self.used, number)

    # Which row belongs to which

    def nearest(self, x: Array) -> int:
        """Finds the place of the pattern whose centroid is nearest to a row."""
        if len(self.used) == 1:
            return 0
        away = self._lying() - x
        return int(np.einsum("ij,ij->i", away, away).argmin())

    def nearest_to_each(self, X: Array) -> Array:
        """Finds the place of the nearest pattern for each row, with nothing moving meanwhile."""
        distances = ((X[:, np.newaxis] - self._lying()) ** 2).sum(axis=2)
        return np.asarray(distances.argmin(axis=1))

    def move(self, index: int, x: Array) -> None:
        """Lets a pattern follow a row that came to it."""
        moved = self.used[index]
        moved.move(x)
        if len(self.used) > 1:
            self._lying()[index] = moved.centroid
            for pattern in self.used:
                pattern.idle += 1
            moved.idle = 0

    def followed(self, X: Array) -> Array:
        """Lets the nearest pattern follow each row, one after the other; gives their places."""
        labels = np.empty(len(X), np.intp)
        for row, x in enumerate(X):
            labels[row] = self.nearest(x)
            self.move(int(labels[row]), x)
        return labels

    def _lying(self) -> Array:
        if self._centroids is None or len(self._centroids) != len(self.used):
            self._centroids = np.stack([pattern.centroid for pattern in self.used])
        return self._centroids

    # How many there are

    @property
    def rows_until_change(self) -> int:
        """How many rows there are until the patterns may become others."""
        return self.rows_undecided or TUNE_EVERY - self.rows_seen % TUNE_EVERY

    @property
    def rows_undecided(self) -> int:
        """Rows until it is decided how many patterns there are; 0 once it is."""
        return 0 if self.first_rows is None else self.rule.start_rows - len(self.first_rows)

    def seen(self, X: Array | Sequence[Array]) -> bool:
        """Counts rows that were learned, and decides or tunes when it is time; says whether."""
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
        if self.rule.patterns == AUTO and self.rule.join != 0.0 and len(self.used) > 1:
            self._join()
        limit = self.rule.retire_after
        unused = [p for p in self.used if limit and p.idle >= limit][: len(self.used) - 1]
        self.used = [pattern for pattern in self.used if pattern not in unused]
        self.retired += unused
        for pattern in self.used:
            pattern.age()
        self._measure(_STEADY if self.numbers == before else 0.0)

    @property
    def has_room(self) -> bool:
        """Whether the device can have one more pattern."""
        few = len(self.used) < self.rule.most and len(self.parts) < MOST_PARTS
        return few and self.rule.patterns == AUTO and self.first_rows is None

    def found(self, X: Array) -> None:
        """Makes these rows a pattern of their own."""
        self._add(X)
        self._leave_out_empty()
        self._measure()

    def separate(self, number: int) -> None:
        """Makes a pattern that was joined to another one by itself again."""
        for pattern in [*self.used, *self.retired]:
            if any(joined.number == number for joined in pattern.joined):
                pattern.release(number, again := self.blank(number))
                self.used.append(again)
                self._measure()
                return
        raise BadInput(f"no pattern {number} was joined to another one")

    def revive(self, number: int) -> None:
        """Brings a pattern back that was put aside."""
        pattern = _find(self.retired, number)
        self.retired.remove(pattern)
        pattern.idle = 0
        self.used.append(pattern)
        self._measure()

    def reduce_to(self, rest: Part) -> None:
        """Goes on with what is left of a part; a pattern of which nothing is left is none.

        One that was none, and of which something is put back, is there again.
        """
        if rest.number not in {part.number for part in self.parts}:
            again = self.blank(rest.number)
            again.learned = again.model.learned = rest.learned
            self.used.append(again)
        for pattern in [*self.used, *self.retired]:
            if any(part.number == rest.number for part in pattern.parts):
                pattern.reduce_to(rest)
        self._leave_out_empty()
        self._measure()

    def _leave_out_empty(self) -> None:
        """Leaves out patterns that have no rows any more, as long as there is another one."""
        self.used = [p for p in self.used if p.evidence.count > 0.0] or self.used[:1]
        self.retired = [p for p in self.retired if p.evidence.count > 0.0]

    def _add(self, X: Array) -> None:
        pattern = self.blank(self.next_number)
        self.next_number += 1
        pattern.model.learn_all(X)
        for x in X:
            pattern.move(x)
        self.used.append(pattern)

    def _split(self, X: Array) -> None:
        """Algorithm 1: the first rows decide how many patterns there are."""
        self.first_rows = None
        if (rule := self.rule).patterns == AUTO:
            labels = cluster(X, rule.most, rule.silhouette).labels
        else:
            labels = k_means(X, int(rule.patterns))
        names = np.unique(labels)
        if len(names) > 1:
            self.used = []
            for name in names:
                self._add(X[labels == name])
        self._measure()

    def _join(self) -> None:
        fitted = [fit(pattern.evidence, pattern.model.ridge) for pattern in self.used]
        used = self.used
        self.used = []
        for group in groups(fitted, self.rule.tolerance(self.basis)):
            first, *others = sorted((used[index] for index in group), key=lambda p: p.number)
            for other in others:
                first.take_in(other)
            self.used.append(first)

    def _measure(self, steady: float = 0.0) -> None:
        """Measures what is typical of each: of all or of none, since only ratios matter.

        Nothing is changed where little would change. The patterns may lie elsewhere now.
        """
        self._centroids = None
        found = [pattern.measured for pattern in self.used]
        held = [pattern.typical for pattern in self.used]
        if not np.allclose(found, held, rtol=steady, atol=0.0):
            for pattern, typical in zip(self.used, found, strict=True):
                pattern.typical = typical

    # On disk

    def pack(self) -> Packed:
        """Packs all patterns."""
        fields: dict[str, Any] = {
            "rule": self.rule.fields,
            "next": self.next_number,
            "seen": self.rows_seen,
            "begun": self.first_rows is None,
        }
        first = np.array(self.first_rows or [])
        arrays = {"first": first.reshape(-1, self.basis.inputs)}
        for name, patterns in (("own", self.used), ("retired", self.retired)):
            fields[name] = []
            for index, pattern in enumerate(patterns):
                known, parts = pattern.pack(f"{name}.{index}")
                fields[name].append(known)
                arrays |= parts
        return fields, arrays

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Takes the place of patterns that were packed."""
        self.next_number = require_whole("next", fields["next"], 1)
        self.rows_seen = require_whole("seen", fields["seen"], 0)
        self.first_rows = None if fields["begun"] else list(arrays["first"])
        self.used = self._restored("own", fields, arrays)
        self.retired = self._restored("retired", fields, arrays)
        self._centroids = None
        numbers = [part.number for part in self.parts]
        if not self.used or len(set(numbers)) < len(numbers) or max(numbers) >= self.next_number:
            raise BadInput("patterns have a number each, below the next one")

    def _restored(
        self, name: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> list[Pattern]:
        patterns = [self.blank(one["number"]) for one in fields[name]]
        for index, pattern in enumerate(patterns):
            pattern.restore(f"{name}.{index}", fields[name][index], arrays)
        return patterns


def _find(patterns: Sequence[Pattern], number: int) -> Pattern:
    for pattern in patterns:
        if pattern.number == number:
            return pattern
    raise BadInput(f"there is no pattern {number} among {[p.number for p in patterns]}")
