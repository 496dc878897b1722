"""Several models side by side, one for each normal pattern, that answer like one."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmgrove.basis import Basis
from elmgrove.blas import one_thread
from elmgrove.clustering import cluster, k_means
from elmgrove.errors import BadInput
from elmgrove.evidence import Evidence
from elmgrove.joining import Kind, groups
from elmgrove.oselm import OSELM, Guess
from elmgrove.part import MOST_PARTS, Part
from elmgrove.pattern import AUTO, Pattern, PatternRule

Array = NDArray[Any]

#: Rows between two looks at which patterns are one, and which are not used.
TUNE_EVERY = 256


class Place(NamedTuple):
    """Where some of what was received belongs: an own pattern's number, or none of them."""

    received: tuple[int, ...]
    number: int | None


class Mixture:
    """Models of one basis: own patterns, and foreign ones that others know.

    A row is answered by the model that reconstructs it best, and learned by the pattern it
    belongs to. Foreign patterns never learn, and their errors count ``handicap`` times: what
    happens elsewhere excuses a row here less than what happens here.

    Until ``start_rows`` rows came there is one pattern. Then they are clustered (MLMG,
    Algorithm 1), and each later row goes to the pattern whose centroid is nearest, which moves
    (Algorithm 2). Every so many rows, patterns that the evidence shows to be one are joined, and
    those that got no rows are put aside; ``part`` and ``revive`` undo it, exactly. The rows of a
    pattern stay in an evidence of their own through all of that.
    """

    def __init__(
        self, basis: Basis, rule: PatternRule, *, ridge: float, forgetting: float, dtype: Any
    ) -> None:
        self.basis = basis
        self.rule = rule
        self._settings = {"ridge": ridge, "forgetting": forgetting, "dtype": dtype}
        first = self.pattern(0)
        model = first.model
        self.ridge, self.forgetting, self.dtype = model.ridge, model.forgetting, model.dtype
        self.own = [first]
        self.retired: list[Pattern] = []
        #: What others know, as it came, and the models of what is unlike all patterns here.
        self.received: tuple[Evidence, ...] = ()
        self._kinds: list[tuple[tuple[int, ...], Kind]] = []
        self.places: list[Place] = []
        self.foreign: list[OSELM] = []
        #: The rows that decide how many patterns there are; None once that is decided.
        self.first_rows: list[Array] | None = [] if rule.patterns != 1 else None
        self.next_number = 1
        self.rows_seen = 0
        #: Whether models came, went or changed otherwise than by the row that was last learned.
        self.rearranged = False
        self.place([])

    def pattern(self, number: int) -> Pattern:
        """A pattern of this mixture's kind that has no rows yet."""
        layer, outputs = self.basis.layer, self.basis.outputs
        return Pattern(number, OSELM(layer, outputs, basis=self.basis, **self._settings))

    # Answering

    def guess(self, x: Array) -> Guess:
        """What the best model makes of a row that is known to be good."""
        models = self._models
        h = models[0].hidden_one(x)
        ws = [model.solve_one(h) for model in models]
        ys = [model.output_one(w) for model, w in zip(models, ws, strict=True)]
        if len(models) == 1:
            return Guess(h, (ws, None), ys[0], self.own[0].number)
        losses = np.array([float(r @ r) for r in (x - y for y in ys)])
        best = int((losses * self._weights).argmin())
        return Guess(h, (ws, losses), ys[best], self._number(best), float(self._weights[best]))

    def loss_one(self, x: Array) -> float:
        """Σ (x − y)² of the best model, which counts more if that is a foreign one."""
        with one_thread:
            guess = self.guess(x)
        r = x - guess.y
        return guess.weight * float(r @ r)

    def losses(self, X: Array) -> Array:
        """The same for each row."""
        lowest: Array = self._weighted(X).min(axis=0)
        return lowest

    def winners(self, X: Array) -> list[int]:
        """The number of the pattern that explains each row best; −1, −2, … for foreign ones."""
        return [self._number(int(index)) for index in self._weighted(X).argmin(axis=0)]

    def model_of(self, number: int) -> OSELM:
        """The model behind a winner's number."""
        return self.foreign[-1 - number] if number < 0 else self._find(self.own, number).model

    def leave_one_out(self, X: Array, T: Array) -> Array:
        """The lowest loss of each row, where its own pattern's is that without the row."""
        losses = self._weighted(X)
        labels = self._labels(X)
        for index, pattern in enumerate(self.own):
            mine = labels == index
            if mine.any():
                losses[index, mine] = pattern.model.leave_one_out(X[mine], X[mine])
        lowest: Array = losses.min(axis=0)
        return lowest

    # Learning

    def learn_one(self, x: Array, t: Array) -> None:
        """Learns a row that is known to be good."""
        with one_thread:
            if self.rule.assign == "loss" and len(self.own) > 1:
                self.take(self.guess(x), x, float(x @ x))
                return
            index = self._nearest(x)
            model = self.own[index].model
            h = model.hidden_one(x)
            model.absorb(h, model.solve_one(h), x, float(x @ x))
            self._learned(index, x)

    def take(self, guess: Guess, t: Array, energy: float) -> None:
        """Learns the row that was guessed, with the work that was done for that."""
        ws, losses = guess.w
        by_loss = self.rule.assign == "loss" and losses is not None
        index = int(losses[: len(self.own)].argmin()) if by_loss else self._nearest(t)
        self.own[index].model.absorb(guess.h, ws[index], t, energy)
        self._learned(index, t)

    def absorb_many(self, X: Array, T: Array) -> None:
        """Learns rows that are known to be good, in their order."""
        start = 0
        while start < len(X):
            block = X[start : start + self._until_change]
            if self.rule.assign == "loss" and self.first_rows is None:
                for x in block:
                    self.learn_one(x, x)
            else:
                self._absorb_block(block)
            start += len(block)

    def found(self, X: Array) -> None:
        """Makes these rows a pattern of their own, if there can be one more.

        Where the number is fixed, or not decided yet, they are learned like any others.
        """
        if self._has_room:
            self._found(X)
            self._match()
        else:
            self.absorb_many(X, X)

    def trial(self, rows: Array) -> OSELM:
        """A learner of these rows alone: a new pattern need not have anything of the others."""
        made = self.pattern(0).model
        made.absorb_many(rows, rows)
        return made

    # Evidence

    @property
    def evidence(self) -> Evidence:
        """What was learned here, over all patterns; those put aside as well."""
        return Evidence.sum(part.evidence for part in self.parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What was learned here, by pattern, in the order of their numbers.

        Joining, parting and putting aside change nothing here.
        """
        parts = [part for pattern in [*self.own, *self.retired] for part in pattern.parts]
        return tuple(sorted(parts, key=lambda part: part.number))

    @property
    def prior(self) -> Evidence | None:
        """All that was received from others, as one sum."""
        return Evidence.sum(self.received) if self.received else None

    def stand_on(self, parts: Sequence[Evidence]) -> None:
        """Lets these take the place of all that was received.

        What is of the same kind becomes one model; what is of the same kind as an own pattern
        makes that one better; the rest are foreign patterns.
        """
        for part in parts:
            self.basis.require(part.basis)
            part.require_admissible("this evidence can't be merged")
        if parts:
            # Refuses what can't be added up, before anything is changed.
            self.pattern(0).model.prior = Evidence.sum(parts)
        kinds = self._kinds_of(parts)
        places = self._places(kinds)
        self.received, self._kinds = tuple(parts), kinds
        self.place(places)

    def place(self, places: Sequence[Place]) -> None:
        """Lets what was received be where ``places`` says."""
        sums = [
            (place.number, Evidence.sum(self.received[i] for i in place.received))
            for place in places
        ]
        self.places = list(places)
        self.foreign = [self._foreign(evidence) for number, evidence in sums if number is None]
        for pattern in self.own:
            mine = [evidence for number, evidence in sums if number == pattern.number]
            pattern.rest_on(Evidence.sum(mine) if mine else None)
        self._models = [*(pattern.model for pattern in self.own), *self.foreign]
        self._weights = np.repeat([1.0, self.rule.handicap], [len(self.own), len(self.foreign)])
        self._centroids = np.stack([pattern.centroid for pattern in self.own])
        self.rearranged = True

    # Patterns that come and go

    def part(self, number: int) -> None:
        """Makes a pattern that was joined to another one by itself again."""
        for pattern in [*self.own, *self.retired]:
            if any(joined.number == number for joined in pattern.joined):
                pattern.release(number, again := self.pattern(number))
                self.own.append(again)
                self._match()
                return
        raise BadInput(f"no pattern {number} was joined to another one")

    def revive(self, number: int) -> None:
        """Brings a pattern back that was put aside."""
        pattern = self._find(self.retired, number)
        self.retired.remove(pattern)
        pattern.idle = 0
        self.own.append(pattern)
        self._match()

    def tune(self) -> None:
        """Joins patterns that are one, and puts aside those that got no rows."""
        before = [pattern.number for pattern in self.own], self.places
        if self.rule.patterns == AUTO and self.rule.join > 0.0 and len(self.own) > 1:
            self._join()
        limit = self.rule.retire_after
        unused = [p for p in self.own if limit and p.idle >= limit][: len(self.own) - 1]
        self.own = [pattern for pattern in self.own if pattern not in unused]
        self.retired += unused
        places = self._places(self._kinds)
        fading = self.forgetting < 1.0 and any(pattern.joined for pattern in self.own)
        for pattern in self.own:
            pattern.age()
        if fading or before != ([pattern.number for pattern in self.own], places):
            self.place(places)

    # Steps

    def _weighted(self, X: Array) -> Array:
        losses = np.stack([model.losses(X) for model in self._models])
        losses *= self._weights[:, np.newaxis]
        return losses

    def _number(self, index: int) -> int:
        return self.own[index].number if index < len(self.own) else len(self.own) - index - 1

    def _find(self, patterns: Sequence[Pattern], number: int) -> Pattern:
        for pattern in patterns:
            if pattern.number == number:
                return pattern
        raise BadInput(f"there is no pattern {number} among {[p.number for p in patterns]}")

    @property
    def _has_room(self) -> bool:
        few = len(self.own) < self.rule.most and len(self.parts) < MOST_PARTS
        return few and self.rule.patterns == AUTO and self.first_rows is None

    def _found(self, X: Array) -> None:
        pattern = self.pattern(self.next_number)
        self.next_number += 1
        pattern.model.absorb_many(X, X)
        for x in X:
            pattern.move(x)
        self.own.append(pattern)

    def _nearest(self, x: Array) -> int:
        """The own pattern whose rows lie nearest."""
        if len(self.own) == 1:
            return 0
        away = self._centroids - x
        return int(np.einsum("ij,ij->i", away, away).argmin())

    def _labels(self, X: Array) -> Array:
        """Which own pattern would learn each row, with nothing moving meanwhile."""
        if self.rule.assign == "loss":
            losses = np.stack([pattern.model.losses(X) for pattern in self.own])
            labels: Array = losses.argmin(axis=0)
            return labels
        distances = ((X[:, np.newaxis] - self._centroids) ** 2).sum(axis=2)
        return np.asarray(distances.argmin(axis=1))

    @property
    def _until_change(self) -> int:
        """Rows until the patterns may become others."""
        if self.first_rows is not None:
            return self.rule.start_rows - len(self.first_rows)
        return TUNE_EVERY - self.rows_seen % TUNE_EVERY

    def _absorb_block(self, X: Array) -> None:
        labels = np.empty(len(X), np.intp)
        for row, x in enumerate(X):
            labels[row] = self._nearest(x)
            self._move(labels[row], x)
        for index, pattern in enumerate(self.own):
            mine = X[labels == index]
            pattern.model.absorb_many(mine, mine)
        self._seen(X)

    def _learned(self, index: int, x: Array) -> None:
        self._move(index, x)
        self._seen([x])

    def _move(self, index: int, x: Array) -> None:
        moved = self.own[index]
        moved.move(x)
        if len(self.own) > 1:
            self._centroids[index] = moved.centroid
            for pattern in self.own:
                pattern.idle += 1
            moved.idle = 0

    def _seen(self, X: Array | Sequence[Array]) -> None:
        """Rows were learned: maybe it is time to decide, or to tune."""
        self.rows_seen += len(X)
        if self.first_rows is not None:
            self.first_rows += [x.copy() for x in X]
            if len(self.first_rows) == self.rule.start_rows:
                self._split(np.array(self.first_rows))
        elif self.rows_seen % TUNE_EVERY == 0:
            self.tune()

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
            self._match()

    def _join(self) -> None:
        kinds = [Kind(pattern.evidence, self.ridge) for pattern in self.own]
        own = self.own
        self.own = []
        for group in groups(kinds, self.rule.join):
            first, *others = sorted((own[index] for index in group), key=lambda p: p.number)
            for other in others:
                first.take_in(other)
            self.own.append(first)

    def _match(self) -> None:
        """What was received finds its place among the patterns here."""
        self.place(self._places(self._kinds))

    def _kinds_of(self, parts: Sequence[Evidence]) -> list[tuple[tuple[int, ...], Kind]]:
        """Which of these are one kind. A model of no rows at all would explain any row of zeros."""
        filled = [index for index, part in enumerate(parts) if part.count > 0.0]
        found = groups([Kind(parts[index], self.ridge) for index in filled], self.rule.join)
        made = [tuple(filled[index] for index in group) for group in found]
        return [
            (group, Kind(Evidence.sum(parts[index] for index in group), self.ridge))
            for group in made
        ]

    def _places(self, kinds: Sequence[tuple[tuple[int, ...], Kind]]) -> list[Place]:
        """The pattern of the same kind for each of these, or none."""
        own = [(p.number, Kind(p.evidence, self.ridge)) for p in self.own if p.learned and kinds]
        places = []
        for received, kind in kinds:
            losses = {number: kind.loss_with(mine) for number, mine in own}
            nearest = min(losses, key=lambda number: losses[number], default=None)
            same = nearest is not None and losses[nearest] <= self.rule.join
            places.append(Place(received, nearest if same else None))
        return places

    def _foreign(self, evidence: Evidence) -> OSELM:
        model = self.pattern(0).model
        model.rest_on(evidence)
        return model
