"""The normal patterns of a device: how they come and go (MLMG)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.kmeans import cluster, k_means
from elmgrove.algebra.moments import Moments, Packed, pack_part, unpack_part
from elmgrove.algebra.rows import Array
from elmgrove.algebra.similarity import fit, groups, usual_tolerance
from elmgrove.detector.gaussian import SingleModel, single_model, typical_score
from elmgrove.detector.model import MOST_PARTS, Part
from elmgrove.errors import BadInput, require_whole

AUTO = "auto"


@dataclass(frozen=True)
class PatternRule:
    """How many patterns there are.

    ``patterns``: ``"auto"`` lets the first ``start_rows`` rows decide (one if no silhouette reaches
    ``silhouette``) and later ones add to it, never above ``most``; a number fixes it. ``join``:
    two patterns become one when one model explains both as well, up to this share of the error (or
    of the distance); None is what suits the score, 0.02 or 0.1; 0 never joins.
    """

    patterns: int | str = AUTO
    most: int = 5
    start_rows: int = 256
    silhouette: float = 0.1
    join: float | None = None

    def tolerance(self, basis: Basis) -> float:
        """What joining two patterns may lose."""
        return usual_tolerance(basis) if self.join is None else self.join

    def __post_init__(self) -> None:
        if self.patterns != AUTO:
            require_whole("patterns", self.patterns, 1)
        if max(self.most, 1 if self.patterns == AUTO else int(self.patterns)) > MOST_PARTS:
            raise BadInput(f"there can't be more than {MOST_PARTS} patterns")
        require_whole("most", self.most, 1)
        require_whole("start_rows", self.start_rows, 2)
        if not -1.0 <= self.silhouette <= 1.0:
            raise BadInput(f"silhouette must lie between -1 and 1, not {self.silhouette}")
        if not (self.join is None or self.join >= 0.0):
            raise BadInput(f"join must be at least 0, not {self.join}")


class Pattern:
    """A model of rows that are alike, and where they lie: sums, so that both can be merged.

    The model's own evidence is that of the rows learned here. It rests on the patterns that were
    ``joined`` to this one, and on what others know of it.
    """

    def __init__(self, number: int, model: SingleModel) -> None:
        self.number = number
        self.model = model
        #: Σ x and how many, of the rows learned here.
        self.total: Array = np.zeros(model.basis.inputs)
        self.count = 0.0
        #: Rows learned here since the start, taken out again or not.
        self.learned = 0
        #: The score of a typical row, when it was last measured; infinite if not known.
        self.typical = np.inf
        self.joined: list[Pattern] = []
        self._received: tuple[Evidence, ...] = ()

    @property
    def parts(self) -> list[Part]:
        """What was learned here, and in each pattern that was joined."""
        return [
            Part(one.number, one.learned, one.model.evidence, one.total, one.model.fresh)
            for one in (self, *self.joined)
        ]

    @property
    def evidence(self) -> Evidence:
        return Evidence.sum(one.model.evidence for one in (self, *self.joined))

    @property
    def centroid(self) -> Array:
        every = (self, *self.joined)
        total: Array = sum((one.total for one in self.joined), self.total)
        return total / (sum(one.count for one in every) or 1.0)

    def move(self, x: Array) -> None:
        self.total = self.total + x
        self.count += 1.0
        self.learned += 1

    @property
    def measured(self) -> float:
        """The score to be expected of one more row, by own rows alone.

        It does not matter when others told what they know of it.
        """
        return typical_score(self.evidence, self.model.ridge)

    def set_prior(self, parts: Sequence[Evidence]) -> None:
        self._received = tuple(parts)
        self._update()

    def take_in(self, other: "Pattern") -> None:
        self.joined += [other, *other.joined]
        other.joined = []
        other.set_prior(())
        self._update()

    def reduce_to(self, rest: Part) -> None:
        """Go on with what is left of its own rows, or of those of a pattern joined to it."""
        assert rest.total is not None, "what was learned in a pattern has a place"
        (one,) = (one for one in (self, *self.joined) if one.number == rest.number)
        one.total, one.count = rest.total, rest.evidence.count
        one.model.reduce_to(rest)
        if one is not self:
            self.joined = [one for one in self.joined if one.count > 0.0]
            self._update()

    def _update(self) -> None:
        known = [*(one.model.evidence for one in self.joined), *self._received]
        self.model.use_prior(Evidence.sum(known) if known else None)

    # On disk

    def pack(self, prefix: str) -> Packed:
        """Pack its fields, and its arrays under names that begin with ``prefix``."""
        numbers, arrays = pack_part(prefix, self.model.evidence)
        arrays[f"{prefix}.total"] = self.total
        fields: dict[str, Any] = {
            "number": self.number,
            "rows": self.count,
            "learned": self.learned,
            # JSON has no infinity.
            "typical": self.typical if self.typical < np.inf else None,
            "joined": [],
            **numbers,
        }
        for index, one in enumerate(self.joined):
            known, parts = one.pack(f"{prefix}.joined.{index}")
            fields["joined"].append(known)
            arrays |= parts
        return fields, arrays

    def restore(self, prefix: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Restore a pattern that was packed under this prefix, without those joined to it."""
        basis = self.model.basis
        self.model.merge(unpack_part(basis, prefix, fields, arrays))
        self.total, self.count = arrays[f"{prefix}.total"], fields["rows"]
        self.learned = self.model.learned = require_whole("learned", fields["learned"], 0)
        if fields["typical"] is not None:
            self.typical = float(fields["typical"])
        if self.total.shape != (basis.inputs,):
            raise BadInput("a centroid that does not fit the inputs")


#: Rows after which patterns that are one are joined, and what is typical is measured again.
TUNE_EVERY = 256


class OwnPatterns:
    """The patterns of a device, and which row belongs to which.

    Until ``start_rows`` rows came there is one. Then they are clustered (MLMG, Algorithm 1), and
    each later row goes to the pattern whose centroid is nearest, which moves (Algorithm 2). Every
    256 rows, patterns that the evidence shows to be one are joined. The rows of each keep an
    evidence of their own, so that what is given away, or taken out again, only ever grows.
    """

    def __init__(self, basis: Basis, rule: PatternRule, **settings: Any) -> None:
        self.basis = basis
        self.rule = rule
        self._settings = settings
        self._loan: Moments | None = None
        self.used = [self.blank(0)]
        #: The rows that decide how many patterns there are; None once that is decided.
        self.first_rows: list[Array] | None = [] if rule.patterns != 1 else None
        self.next_number = 1
        self.rows_seen = 0
        # Where the patterns in use lie; None until it is asked for.
        self._centroids: Array | None = None

    def blank(self, number: int) -> Pattern:
        model = single_model(self.basis, **self._settings)
        model.set_loan(self._loan)
        return Pattern(number, model)

    def set_loan(self, loan: Moments | None) -> None:
        self._loan = loan
        for pattern in self.used:
            pattern.model.set_loan(loan)

    @property
    def numbers(self) -> list[int]:
        return [pattern.number for pattern in self.used]

    @property
    def parts(self) -> tuple[Part, ...]:
        """What was learned here, by pattern, in the order of their numbers, joined or not."""
        parts = [part for pattern in self.used for part in pattern.parts]
        return tuple(sorted(parts, key=lambda part: part.number))

    # Which row belongs to which

    def nearest(self, x: Array) -> int:
        if len(self.used) == 1:
            return 0
        away = self._lying() - x
        return int(np.einsum("ij,ij->i", away, away).argmin())

    def nearest_to_each(self, X: Array) -> Array:
        """Find the place of the nearest pattern for each row, with nothing moving meanwhile."""
        distances = ((X[:, np.newaxis] - self._lying()) ** 2).sum(axis=2)
        return np.asarray(distances.argmin(axis=1))

    def move(self, index: int, x: Array) -> None:
        moved = self.used[index]
        moved.move(x)
        if len(self.used) > 1:
            self._lying()[index] = moved.centroid

    def followed(self, X: Array) -> Array:
        """Move the nearest pattern for each row, one after the other; return their places."""
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
        return self.rows_undecided or TUNE_EVERY - self.rows_seen % TUNE_EVERY

    @property
    def rows_undecided(self) -> int:
        """Rows until it is decided how many patterns there are; 0 once it is."""
        return 0 if self.first_rows is None else self.rule.start_rows - len(self.first_rows)

    def seen(self, X: Array | Sequence[Array]) -> bool:
        """Count rows that were learned, and decide or tune when it is time; return whether."""
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
        before = self.numbers
        if self.rule.patterns == AUTO and self.rule.join != 0.0 and len(self.used) > 1:
            self._join()
        # What is typical is held as long as it hardly changes.
        self._measure(steady=0.05 if self.numbers == before else 0.0)

    @property
    def has_room(self) -> bool:
        few = len(self.used) < self.rule.most and len(self.parts) < MOST_PARTS
        return few and self.rule.patterns == AUTO and self.first_rows is None

    def found(self, X: Array) -> None:
        self._add(X)
        self._leave_out_empty()
        self._measure()

    def reduce_to(self, rest: Part) -> None:
        """Go on with what is left of a part.

        A pattern of which nothing is left goes, and comes back when something is put back.
        """
        if rest.number not in {part.number for part in self.parts}:
            again = self.blank(rest.number)
            again.learned = again.model.learned = rest.learned
            self.used.append(again)
        for pattern in self.used:
            if any(part.number == rest.number for part in pattern.parts):
                pattern.reduce_to(rest)
        self._leave_out_empty()
        self._measure()

    def _leave_out_empty(self) -> None:
        self.used = [p for p in self.used if p.evidence.count > 0.0] or self.used[:1]

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
        """Measure what is typical of each: of all or of none, since only ratios matter."""
        # They may lie elsewhere now.
        self._centroids = None
        found = [pattern.measured for pattern in self.used]
        held = [pattern.typical for pattern in self.used]
        if not np.allclose(found, held, rtol=steady, atol=0.0):
            for pattern, typical in zip(self.used, found, strict=True):
                pattern.typical = typical

    # On disk

    def pack(self) -> Packed:
        fields: dict[str, Any] = {
            "rule": asdict(self.rule),
            "next": self.next_number,
            "seen": self.rows_seen,
            "begun": self.first_rows is None,
            "own": [],
        }
        first = np.array(self.first_rows or [])
        arrays = {"first": first.reshape(-1, self.basis.inputs)}
        for index, pattern in enumerate(self.used):
            known, parts = pattern.pack(f"own.{index}")
            fields["own"].append(known)
            arrays |= parts
        return fields, arrays

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        self.next_number = require_whole("next", fields["next"], 1)
        self.rows_seen = require_whole("seen", fields["seen"], 0)
        self.first_rows = None if fields["begun"] else list(arrays["first"])
        self.used = [
            self._restored(f"own.{index}", one, arrays) for index, one in enumerate(fields["own"])
        ]
        self._centroids = None
        numbers = [part.number for part in self.parts]
        if not self.used or len(set(numbers)) < len(numbers) or max(numbers) >= self.next_number:
            raise BadInput("patterns have a number each, below the next one")

    def _restored(
        self, prefix: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> Pattern:
        made = self.blank(fields["number"])
        made.restore(prefix, fields, arrays)
        for index, one in enumerate(fields["joined"]):
            made.joined.append(self._restored(f"{prefix}.joined.{index}", one, arrays))
        return made
