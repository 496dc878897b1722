"""One model for each normal pattern of a device, and for those that others know."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments, Packed
from elmgrove.algebra.rows import Array
from elmgrove.algebra.similarity import fit, groups
from elmgrove.detector.gaussian import SingleModel, single_model, typical_score
from elmgrove.detector.model import Answer, Part
from elmgrove.detector.patterns import OwnPatterns, Pattern, PatternRule
from elmgrove.errors import BadInput, require_whole


class Received:
    """Parts of others in groups: what one model explains as well as several is one group."""

    def __init__(self, parts: Sequence[Evidence], basis: Basis, rule: PatternRule, ridge: float):
        for part in parts:
            basis.require(part.basis)
            part.require_admissible("this evidence can't be merged")
        if parts:
            Evidence.sum(parts).require_in_range()
        self.parts = tuple(parts)
        self._ridge, self._tolerance = ridge, rule.tolerance(basis)
        # A model of no rows at all would explain any row of zeros.
        filled = [part for part in parts if part.count > 0.0]
        found = groups([fit(part, ridge) for part in filled], self._tolerance)
        # Of one part that part itself, so that what is known of it is not found again.
        self.sums = [
            filled[group[0]] if len(group) == 1 else Evidence.sum(filled[index] for index in group)
            for group in found
        ]
        self._fitted = [fit(one, ridge) for one in self.sums]

    def places(self, own: Sequence[Pattern]) -> list[int | None]:
        """Find for each group the own pattern that one model could serve as well, or None."""
        if not self.sums:
            return []
        known = [(one.number, fit(one.evidence, self._ridge)) for one in own if one.learned]
        found = list[int | None]()
        for group in self._fitted:
            losses = {number: group.loss_with(mine) for number, mine in known}
            nearest = min(losses, key=lambda number: losses[number], default=None)
            same = nearest is not None and losses[nearest] <= self._tolerance
            found.append(nearest if same else None)
        return found


def _known(own: Array, foreign: Array) -> tuple[Array, Array]:
    """Take what is not known to be the largest that is known: few rows have large errors."""
    known = [values[np.isfinite(values)].max(initial=0.0) for values in (own, foreign)]
    largest = (known[0] or known[1] or 1.0), max(*known) or 1.0
    own, foreign = (
        np.where(np.isfinite(values) & (values > 0.0), values, most)
        for values, most in zip((own, foreign), largest, strict=True)
    )
    return own, foreign


class Mixture:
    """Models of one basis: own patterns, and foreign ones that others know.

    The model that explains a row best answers it, and the own pattern that it belongs to learns it
    (``OwnPatterns``). Foreign patterns never learn. Models differ in how well they can explain
    anything at all, so what counts is a score in proportion to what is typical of the model (a
    distance is that already).
    """

    #: A pattern that is not at work would be forgotten with the others.
    forgetting = 1.0

    def __init__(self, basis: Basis, rule: PatternRule, *, ridge: float) -> None:
        self.basis = basis
        self.rule = rule
        self.patterns = OwnPatterns(basis, rule, ridge=ridge)
        self.ridge = self.own[0].model.ridge
        self.version = 0
        #: Rows learned here since the start.
        self.learned = 0
        self._received = Received((), basis, rule, self.ridge)
        #: The number of the own pattern where each group of received parts belongs, or None.
        self.places: list[int | None] = []
        #: The models of what is unlike all patterns here.
        self.foreign: list[SingleModel] = []
        self.models: list[SingleModel] = []
        self._place([])

    @property
    def own(self) -> list[Pattern]:
        return self.patterns.used

    # Answering

    def answer(self, x: Array) -> Answer:
        answers = [model.answer(x) for model in self.models]
        if len(answers) == 1:
            return answers[0]._replace(work=answers, pattern=self._numbers[0])
        scores = self._weights * np.array([answer.score for answer in answers])
        best = int(scores.argmin())
        return Answer(float(scores[best]), answers[best].view, answers, self._numbers[best])

    def answers_ahead(self, X: Array) -> list[Answer]:
        return [self.answer(X[0])]

    def rows_alike(self) -> int:
        return min(max(self.learned // 2, 8), self.patterns.rows_until_change)

    def answers(self, X: Array) -> Array:
        return self.scores(X)

    def score_one(self, x: Array) -> float:
        return float(self.scores(x[np.newaxis])[0])

    def scores(self, X: Array) -> Array:
        return np.asarray(self._each_scored(X).min(axis=0))

    def _each_scored(self, X: Array) -> Array:
        """Score each row by each model, as it counts: own ones first."""
        scores = np.stack([model.scores(X) for model in self.models])
        scores *= self._weights[:, np.newaxis]
        return scores

    def numbers_of(self, X: Array) -> Array:
        return np.asarray(np.array(self._numbers)[self._each_scored(X).argmin(axis=0)])

    def left_out(self, X: Array) -> Array:
        scores, labels = self._each_scored(X), self.patterns.nearest_to_each(X)
        for index, pattern in enumerate(self.own):
            mine = labels == index
            if mine.any():
                scores[index, mine] = self._weights[index] * pattern.model.left_out(X[mine])
        return np.asarray(scores.min(axis=0))

    def explainer(self, x: Array) -> Any:
        return self.models[self._numbers.index(self.answer(x).pattern)].explainer(x)

    def in_words(self, counted: str) -> str:
        """How many patterns there are, and what was learned in each, like rows (``counted``)."""
        rows = {one.number: sum(part.learned for part in one.parts) for one in self.own}
        if self.rows_undecided:
            more = f"{self.rows_undecided:,} more {counted}"
            found = f"one so far: {more} decide how many there are"
        elif len(rows) == 1:
            found = f"one, of {self.learned:,} {counted}"
        else:
            each = ", ".join(f"{count:,} of number {n}" for n, count in sorted(rows.items()))
            found = f"{len(rows)}, with {counted} learned: {each}"
        others = len(self.foreign)
        return f"{found}; {others} more that only others know" if others else found

    # Learning

    def keep(self, answer: Answer, x: Array) -> None:
        index = self.patterns.nearest(x)
        self.own[index].model.keep(answer.work[index], x)
        self.patterns.move(index, x)
        self._seen([x])

    def learn_all(self, X: Array) -> None:
        start = 0
        while start < len(X):
            block = X[start : start + self.patterns.rows_until_change]
            labels = self.patterns.followed(block)
            for index, pattern in enumerate(self.own):
                pattern.model.learn_all(block[labels == index])
            self._seen(block)
            start += len(block)

    def adopt(self, X: Array) -> None:
        """Make a pattern of rows that are a new normal, if there can be one more.

        Where the number is fixed, or not decided yet, they are learned like any others.
        """
        if not self.patterns.has_room:
            self.learn_all(X)
            return
        self.patterns.found(X)
        self.learned += len(X)
        self._place(self._received.places(self.own))

    def reduce_to(self, rest: Part) -> None:
        self.patterns.reduce_to(rest)
        self._place(self._received.places(self.own))

    def tune(self) -> None:
        self.patterns.tune()
        self._rearrange()

    # Evidence

    @property
    def evidence(self) -> Evidence:
        return Evidence.sum(part.evidence for part in self.parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.patterns.parts

    @property
    def rows_undecided(self) -> int:
        return self.patterns.rows_undecided

    @property
    def received(self) -> tuple[Evidence, ...]:
        return self._received.parts

    def set_prior(self, parts: Sequence[Evidence]) -> None:
        """Replace all that was received from others.

        What one model explains as well as several becomes one model; what is like an own pattern
        makes that one better; the rest are foreign patterns.
        """
        self._received = Received(parts, self.basis, self.rule, self.ridge)
        self._place(self._received.places(self.own))

    def set_loan(self, loan: Moments | None) -> None:
        self.patterns.set_loan(loan)
        self.version += 1

    # On disk

    def pack(self) -> Packed:
        fields, arrays = self.patterns.pack()
        return {"patterns": fields | {"places": self.places}}, arrays

    def restore(
        self, fields: Mapping[str, Any], arrays: Mapping[str, Array], received: Sequence[Evidence]
    ) -> None:
        known = fields["patterns"]
        self.patterns.restore(known, arrays)
        self.learned = require_whole("learned", fields["learned"], 0)
        self._received = Received(received, self.basis, self.rule, self.ridge)
        # Where parts belonged when they came: the patterns may have changed since.
        places = list(known["places"])
        if len(places) != len(self._received.sums) or not {*places} <= {
            None,
            *self.patterns.numbers,
        }:
            raise BadInput("each group of received parts needs one place, a pattern or none")
        self._place(places)

    # Steps

    def _place(self, places: list[int | None]) -> None:
        self.places = places
        sums = list(zip(places, self._received.sums, strict=True))
        foreign = [evidence for number, evidence in sums if number is None]
        self.foreign = [single_model(self.basis, ridge=self.ridge) for _ in foreign]
        for model, evidence in zip(self.foreign, foreign, strict=True):
            model.use_prior(evidence)
        for pattern in self.own:
            pattern.set_prior([evidence for number, evidence in sums if number == pattern.number])
        self.models = [*(pattern.model for pattern in self.own), *self.foreign]
        #: −1, −2, … for foreign ones.
        self._numbers = [*self.patterns.numbers, *range(-1, -1 - len(foreign), -1)]
        here, elsewhere = _known(
            np.array([pattern.typical for pattern in self.own]),
            np.array([typical_score(evidence, self.ridge) for evidence in foreign]),
        )
        # Foreign ones count as much as own ones.
        self._weights = here.mean() / np.concatenate([here, elsewhere])
        self._typical = {pattern.number: pattern.typical for pattern in self.own}
        # Scores computed before are out of date.
        self.version += 1

    def _seen(self, X: Array | Sequence[Array]) -> None:
        self.learned += len(X)
        if self.patterns.seen(X):
            self._rearrange()

    def _rearrange(self) -> None:
        """Find new places for what was received, if that makes a difference."""
        places = self._received.places(self.own)
        typical = {pattern.number: pattern.typical for pattern in self.own}
        if (places, typical) != (self.places, self._typical):
            self._place(places)
