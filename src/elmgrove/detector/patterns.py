"""The normal patterns of a device: how they come and go (MLMG)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.kmeans import cluster, k_means
from elmgrove.algebra.moments import Moments, Packed, pack_part, unpack_part
from elmgrove.algebra.rows import Array
from elmgrove.algebra.similarity import fit, groups, usual_tolerance
from elmgrove.algebra.unsent import Fresh
from elmgrove.detector.gaussian import SingleModel, single_model, typical_score
from elmgrove.detector.model import MOST_PARTS, Part
from elmgrove.errors import BadInput, require_whole

AUTO = "auto"
#: What decides which pattern a row belongs to.
ASSIGNMENTS = ("centroid", "loss")


@dataclass(frozen=True)
class PatternRule:
    """How many patterns there are, and which row belongs to which.

    ``patterns``: ``"auto"`` lets the first ``start_rows`` rows decide (one if no silhouette reaches
    ``silhouette``) and later ones add to it, never above ``most``; a number fixes it. ``assign``:
    a row belongs to the nearest ``centroid``, or to the model with the lowest ``loss``. ``join``:
    two patterns become one when one model explains both as well, up to this share of the error (or
    of the distance); None is what suits the score, 0.02 or 0.1; 0 never joins.
    ``retire_after``: the rows without one of its own after which a pattern is put aside; 0: never.
    """

    patterns: int | str = AUTO
    most: int = 5
    start_rows: int = 256
    silhouette: float = 0.1
    assign: str = "centroid"
    join: float | None = None
    retire_after: int = 0

    def tolerance(self, basis: Basis) -> float:
        """What joining two patterns may lose."""
        return usual_tolerance(basis) if self.join is None else self.join

    def __post_init__(self) -> None:
        if self.patterns != AUTO:
            require_whole("patterns", self.patterns, 1)
        if max(self.most, 1 if self.patterns == AUTO else int(self.patterns)) > MOST_PARTS:
            raise BadInput(f"there can't be more than {MOST_PARTS} patterns")
        for name, least in (("most", 1), ("start_rows", 2), ("retire_after", 0)):
            require_whole(name, getattr(self, name), least)
        if self.assign not in ASSIGNMENTS:
            raise BadInput(f"assign must be one of {', '.join(ASSIGNMENTS)}, not {self.assign!r}")
        if not -1.0 <= self.silhouette <= 1.0:
            raise BadInput(f"silhouette must lie between -1 and 1, not {self.silhouette}")
        if not (self.join is None or self.join >= 0.0):
            raise BadInput(f"join must be at least 0, not {self.join}")


@dataclass(frozen=True)
class Joined:
    """A pattern that became part of another one, as it was by itself.

    ``weight`` says how much of it is not forgotten yet, ``when`` how many rows the other one had
    learned when that was so.
    """

    number: int
    evidence: Evidence
    total: Array
    count: float
    learned: int
    weight: float
    when: int
    fresh: Fresh

    @property
    def part(self) -> Part:
        """What was learned in it, to be given away: forgotten elsewhere or not."""
        return Part(self.number, self.learned, self.evidence, self.total, self.fresh)

    @property
    def faded(self) -> Evidence:
        """What is not forgotten of its evidence."""
        return self.evidence if self.weight == 1.0 else self.evidence.weighted(self.weight)

    def aged(self, learned: int, forgetting: float) -> "Joined":
        """This pattern as it is once the other one has learned this number of rows."""
        weight = self.weight * forgetting ** (learned - self.when)
        return replace(self, weight=weight, when=learned)

    def pack(self, prefix: str) -> Packed:
        """Packs its fields, and its arrays under names that begin with ``prefix``."""
        numbers, arrays = pack_part(prefix, self.evidence)
        known = {name: getattr(self, name) for name in ("number", "learned", "weight", "when")}
        return {**known, "rows": self.count, **numbers}, {**arrays, f"{prefix}.total": self.total}


class Pattern:
    """A model of rows that are alike, and where they lie: sums, so that both can be merged.

    The model's own evidence is that of the rows learned here. Patterns that were joined to this
    one, and what others know of it, are what it rests on: they can be taken away again exactly.
    """

    def __init__(self, number: int, model: SingleModel) -> None:
        self.number = number
        self.model = model
        #: Σ x and how many, of the rows learned here.
        self.total: Array = np.zeros(model.basis.inputs)
        self.count = 0.0
        #: Rows learned here since the start, forgotten or not.
        self.learned = 0
        #: Rows that went to other patterns since the last that came here.
        self.idle = 0
        #: The score of a typical row, as it was when last measured; infinite if not known.
        self.typical = np.inf
        #: Patterns that became part of this one.
        self.joined: list[Joined] = []
        self._received: tuple[Evidence, ...] = ()

    @property
    def numbers(self) -> list[int]:
        """Its number, and those of what was joined to it."""
        return [self.number, *(joined.number for joined in self.joined)]

    @property
    def parts(self) -> list[Part]:
        """What was learned here and in what was joined, each by itself."""
        model = self.model
        own = Part(self.number, self.learned, model.evidence, self.total, model.fresh)
        return [own, *(joined.part for joined in self.joined)]

    @property
    def evidence(self) -> Evidence:
        """All of its rows: those learned here, and those of what was joined."""
        return Evidence.sum([self.model.evidence, *(joined.faded for joined in self.joined)])

    @property
    def centroid(self) -> Array:
        """Where its rows lie in the middle."""
        total, count = self.total, self.count
        for joined in self.joined:
            total, count = (
                total + joined.weight * joined.total,
                count + joined.weight * joined.count,
            )
        return total / (count or 1.0)

    def move(self, x: Array) -> None:
        """Move the centroid towards a row, as fast as the model forgets."""
        keep = self.model.forgetting
        self.total = keep * self.total + x
        self.count = keep * self.count + 1.0
        self.learned += 1

    @property
    def measured(self) -> float:
        """The score to be expected of one more row of this pattern: of its own rows alone.

        What others know of it does not count, so that it does not matter when that came.
        """
        return typical_score(self.evidence, self.model.ridge)

    def set_prior(self, parts: Sequence[Evidence]) -> None:
        """Replace what others know of this pattern."""
        self._received = tuple(parts)
        self._update()

    def take_in(self, other: "Pattern") -> None:
        """Join another pattern to this one."""
        other.age()
        self.joined.append(
            Joined(
                number=other.number,
                evidence=other.model.evidence,
                total=other.total,
                count=other.count,
                learned=other.learned,
                weight=1.0,
                when=self.learned,
                fresh=other.model.fresh,
            )
        )
        self.joined += [replace(joined, when=self.learned) for joined in other.joined]
        self.idle = min(self.idle, other.idle)
        self._update()

    def release(self, number: int, into: "Pattern") -> None:
        """Undo a join: put what was joined into a pattern of its own, as it was."""
        (joined,) = (joined for joined in self.joined if joined.number == number)
        into.model.merge(joined.evidence)
        into.total, into.count = joined.total, joined.count
        into.learned = into.model.learned = joined.learned
        self.joined.remove(joined)
        self._update()

    def reduce_to(self, rest: Part) -> None:
        """Goes on with what is left of its own rows, or of those of a pattern joined to it."""
        assert rest.total is not None, "what was learned in a pattern has a place"
        if rest.number == self.number:
            self.total, self.count = rest.total, rest.evidence.count
            self.model.reduce_to(rest)
            return
        changed = [
            replace(one, evidence=rest.evidence, total=rest.total, count=rest.evidence.count)
            if one.number == rest.number
            else one
            for one in self.joined
        ]
        self.joined = [one for one in changed if one.count > 0.0]
        self._update()

    def age(self) -> None:
        """Forgets of what was joined what the rows learned since then make it forget."""
        forgetting = self.model.forgetting
        self.joined = [joined.aged(self.learned, forgetting) for joined in self.joined]
        if forgetting < 1.0 and self.joined:
            self._update()

    def _update(self) -> None:
        known = [*(joined.faded for joined in self.joined), *self._received]
        self.model.use_prior(Evidence.sum(known) if known else None)

    # On disk

    def pack(self, prefix: str) -> Packed:
        """Packs its fields, and its arrays under names that begin with ``prefix``."""
        numbers, arrays = pack_part(prefix, self.model.evidence)
        arrays[f"{prefix}.total"] = self.total
        joined = list[dict[str, Any]]()
        for index, one in enumerate(self.joined):
            known, parts = one.pack(f"{prefix}.joined.{index}")
            joined.append(known)
            arrays |= parts
        fields = {
            "number": self.number,
            "rows": self.count,
            "learned": self.learned,
            "idle": self.idle,
            # JSON has no infinity.
            "typical": self.typical if self.typical < np.inf else None,
            "joined": joined,
            **numbers,
        }
        return fields, arrays

    def restore(self, prefix: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Restore a pattern that was packed under this prefix."""
        basis = self.model.basis
        self.model.merge(unpack_part(basis, prefix, fields, arrays))
        self.total, self.count = arrays[f"{prefix}.total"], fields["rows"]
        self.learned = self.model.learned = require_whole("learned", fields["learned"], 0)
        self.idle = require_whole("idle", fields["idle"], 0)
        if fields["typical"] is not None:
            self.typical = float(fields["typical"])
        for index, one in enumerate(fields["joined"]):
            name = f"{prefix}.joined.{index}"
            self.joined.append(
                Joined(
                    number=one["number"],
                    evidence=unpack_part(basis, name, one, arrays),
                    total=arrays[f"{name}.total"],
                    count=one["rows"],
                    learned=one["learned"],
                    weight=one["weight"],
                    when=one["when"],
                    fresh=Fresh(basis),
                )
            )
        if any(one.total.shape != self.total.shape for one in self.joined) or (
            self.total.shape != (basis.inputs,)
        ):
            raise BadInput("a centroid that does not fit the inputs")


#: Rows between two looks at which patterns are one, which are not used, and what is typical.
TUNE_EVERY = 256
#: What is typical of a pattern is held as long as it changes by less than this share.
_STEADY = 0.05


class OwnPatterns:
    """The patterns of a device, and which row belongs to which.

    Until ``start_rows`` rows came there is one. Then they are clustered (MLMG, Algorithm 1), and
    each later row goes to the pattern whose centroid is nearest, which moves (Algorithm 2). Every
    256 rows, patterns that the evidence shows to be one are joined, and those that got no
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
        """A pattern with the settings of this device that has no rows yet."""
        model = single_model(self.basis, **self._settings)
        model.set_loan(self._loan)
        return Pattern(number, model)

    def set_loan(self, loan: Moments | None) -> None:
        """Set what each pattern, now and later, borrows from others."""
        self._loan = loan
        for pattern in [*self.used, *self.retired]:
            pattern.model.set_loan(loan)

    def foreign(self, evidence: Evidence) -> SingleModel:
        """A model of what others know, which never learns."""
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
        """Move a pattern towards a row that belongs to it."""
        moved = self.used[index]
        moved.move(x)
        if len(self.used) > 1:
            self._lying()[index] = moved.centroid
            for pattern in self.used:
                pattern.idle += 1
            moved.idle = 0

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
        """Make a pattern of these rows."""
        self._add(X)
        self._leave_out_empty()
        self._measure()

    def separate(self, number: int) -> None:
        """Undo a join."""
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
            "rule": asdict(self.rule),
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
        """Restore patterns that were packed."""
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
