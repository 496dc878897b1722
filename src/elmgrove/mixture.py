"""Several models side by side, one for each normal pattern, that answer like one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.basis import Basis
from elmgrove.blas import one_thread
from elmgrove.clustering import cluster, k_means
from elmgrove.errors import BadInput
from elmgrove.evidence import Evidence
from elmgrove.joining import Kind, groups
from elmgrove.oselm import OSELM, Guess
from elmgrove.part import Part
from elmgrove.pattern import AUTO, Pattern, PatternRule

Array = NDArray[Any]

#: Rows between two looks at which patterns are one, and which are not used.
TUNE_EVERY = 256


class Mixture:
    """Models of one basis: own patterns, and foreign ones that others know.

    A row is answered by the model that reconstructs it best, and learned by the pattern it
    belongs to. Foreign patterns never learn, and their errors count ``handicap`` times: what
    happens elsewhere excuses a row here less than what happens here.

    Until ``start_rows`` rows came there is one pattern. Then they are clustered (MLMG,
    Algorithm 1), and each later row goes to the pattern whose centroid is nearest, which moves
    (Algorithm 2). Every so many rows, patterns that the evidence shows to be one are joined, and
    those that got no rows are put aside; ``part`` and ``revive`` undo it.
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
        self.foreign: list[OSELM] = []
        #: The rows that decide how many patterns there are; None once that is decided.
        self.first_rows: list[Array] | None = [] if rule.patterns != 1 else None
        self.next_number = 1
        self.rows_seen = 0

    def pattern(self, number: int) -> Pattern:
        """A pattern of this mixture's kind that has no rows yet."""
        layer, outputs = self.basis.layer, self.basis.outputs
        return Pattern(number, OSELM(layer, outputs, basis=self.basis, **self._settings))

    # Answering

    def guess(self, x: Array) -> Guess:
        """What the best model makes of a row that is known to be good."""
        models, weights = self._models, self._weights
        h = models[0].hidden_one(x)
        ws = [model.solve_one(h) for model in models]
        ys = [model.output_one(w) for model, w in zip(models, ws, strict=True)]
        losses = np.array([float(r @ r) for r in (x - y for y in ys)])
        best = int((losses * weights).argmin())
        return Guess(h, (ws, losses), ys[best], self._number(best), float(weights[best]))

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
            self.take(self.guess(x), x, float(x @ x))

    def take(self, guess: Guess, t: Array, energy: float) -> None:
        """Learns the row that was guessed, with the work that was done for that."""
        ws, losses = guess.w
        index = self._index(t, losses)
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
        """Makes these rows a pattern of their own."""
        pattern = self._next_pattern()
        pattern.model.absorb_many(X, X)
        for x in X:
            pattern.move(x)
        self.own.append(pattern)
        self._match()

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
        """What was learned here, by pattern, in the order of their numbers."""
        known = sorted([*self.own, *self.retired], key=lambda pattern: pattern.number)
        return tuple(pattern.part for pattern in known)

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
        self.received = tuple(parts)
        self._match()

    # Patterns that come and go

    def part(self, number: int) -> None:
        """Makes a pattern that was joined to another one by itself again."""
        for pattern in self.own:
            for joined in pattern.joined:
                if joined.number == number:
                    pattern.release(joined, again := self.pattern(number))
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
        if self.rule.patterns == AUTO and self.rule.join > 0.0:
            self._join()
        limit = self.rule.retire_after
        unused = [p for p in self.own if limit and p.idle >= limit][: len(self.own) - 1]
        if unused:
            self.own = [pattern for pattern in self.own if pattern not in unused]
            self.retired += unused
            self._match()

    # Steps

    @property
    def _models(self) -> list[OSELM]:
        return [pattern.model for pattern in self.own] + self.foreign

    @property
    def _weights(self) -> Array:
        weights: Array = np.repeat([1.0, self.rule.handicap], [len(self.own), len(self.foreign)])
        return weights

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

    def _next_pattern(self) -> Pattern:
        self.next_number += 1
        return self.pattern(self.next_number - 1)

    def _index(self, x: Array, losses: Array) -> int:
        """Which own pattern learns a row."""
        if len(self.own) == 1:
            return 0
        if self.rule.assign == "loss":
            return int(losses[: len(self.own)].argmin())
        return int(((self._centroids - x) ** 2).sum(axis=1).argmin())

    def _labels(self, X: Array) -> Array:
        """The same for many rows, with nothing moving meanwhile."""
        if self.rule.assign == "loss":
            losses = np.stack([pattern.model.losses(X) for pattern in self.own])
            labels: Array = losses.argmin(axis=0)
            return labels
        distances = ((X[:, np.newaxis] - self._centroids) ** 2).sum(axis=2)
        return np.asarray(distances.argmin(axis=1))

    @property
    def _centroids(self) -> Array:
        return np.stack([pattern.centroid for pattern in self.own])

    @property
    def _until_change(self) -> int:
        """Rows until the patterns may become others."""
        if self.first_rows is not None:
            return self.rule.start_rows - len(self.first_rows)
        return TUNE_EVERY - self.rows_seen % TUNE_EVERY

    def _absorb_block(self, X: Array) -> None:
        nothing = np.zeros(len(self.own))
        labels = np.empty(len(X), np.intp)
        for row, x in enumerate(X):
            labels[row] = self._index(x, nothing)
            self.own[labels[row]].move(x)
        for index, pattern in enumerate(self.own):
            mine = X[labels == index]
            pattern.model.absorb_many(mine, mine)
            pattern.idle = 0 if len(mine) else pattern.idle
        self._count(X, labels)

    def _learned(self, index: int, x: Array) -> None:
        self.own[index].move(x)
        self._count(x[np.newaxis], np.array([index]))

    def _count(self, X: Array, labels: Array) -> None:
        """Rows were learned: maybe it is time to decide, or to tune."""
        for index, pattern in enumerate(self.own):
            mine = np.flatnonzero(labels == index)
            pattern.idle = len(X) - 1 - int(mine[-1]) if len(mine) else pattern.idle + len(X)
        self.rows_seen += len(X)
        if self.first_rows is not None:
            self.first_rows += [x.copy() for x in X]
            if len(self.first_rows) == self.rule.start_rows:
                self._split(np.array(self.first_rows))
        elif self.rows_seen % TUNE_EVERY == 0 and len(self.own) > 1:
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
            self.own, self.next_number = [], 0
            for rows in kinds:
                self.found(rows)

    def _join(self) -> None:
        kinds = [Kind(pattern.model.evidence, self.ridge) for pattern in self.own]
        found = groups(kinds, self.rule.join)
        if len(found) == len(self.own):
            return
        joined = []
        for group in found:
            first, *others = sorted((self.own[index] for index in group), key=lambda p: p.number)
            for other in others:
                first.take_in(other)
            joined.append(first)
        self.own = joined
        self._match()

    def _match(self) -> None:
        """What was received finds its place among the patterns here."""
        known = [Kind(part, self.ridge) for part in self.received]
        sums = [
            Evidence.sum(self.received[i] for i in group) for group in groups(known, self.rule.join)
        ]
        priors: dict[int, list[Evidence]] = {}
        self.foreign = []
        for evidence in sums:
            index = self._like(Kind(evidence, self.ridge))
            if index is None:
                model = self.pattern(0).model
                model.rest_on(evidence)
                self.foreign.append(model)
            else:
                priors.setdefault(index, []).append(evidence)
        for index, pattern in enumerate(self.own):
            parts = priors.get(index)
            pattern.model.rest_on(Evidence.sum(parts) if parts else None)

    def _like(self, kind: Kind) -> int | None:
        """The own pattern that is of this kind."""
        own = [p.model.evidence for p in self.own]
        losses = [kind.loss_with(Kind(e, self.ridge)) if e.count else np.inf for e in own]
        best = int(np.argmin(losses))
        return best if losses[best] <= self.rule.join else None
