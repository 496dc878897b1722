"""One model for each normal pattern of a device, and for those that others know."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments, Packed
from elmgrove.algebra.rows import Array
from elmgrove.algebra.similarity import fit, groups
from elmgrove.detector.gaussian import SingleModel, typical_score
from elmgrove.detector.model import Answer, Part
from elmgrove.detector.patterns import OwnPatterns, Pattern, PatternRule
from elmgrove.errors import BadInput, NotAdmissible, require_whole


class Place(NamedTuple):
    """Where some of the received parts belong: to an own pattern by its number, or to none."""

    received: tuple[int, ...]
    number: int | None


class Received:
    """Parts of others in groups: what one model explains as well as several is one group."""

    def __init__(
        self, parts: Sequence[Evidence], ridge: float, basis: Basis, rule: PatternRule
    ) -> None:
        self.parts = tuple(parts)
        self._ridge, self._tolerance = ridge, rule.tolerance(basis)
        # A model of no rows at all would explain any row of zeros.
        self._filled = [index for index, part in enumerate(parts) if part.count > 0.0]
        found = groups([fit(parts[index], ridge) for index in self._filled], self._tolerance)
        self._groups = [
            (members, fit(_added([parts[index] for index in members]), ridge))
            for members in (tuple(self._filled[index] for index in group) for group in found)
        ]

    def sum_at(self, place: Place) -> Evidence:
        return _added([self.parts[index] for index in place.received])

    def places(self, own: Sequence[Pattern]) -> list[Place]:
        """Finds for each group the own pattern that one model could serve as well, or none."""
        known = [
            (pattern.number, fit(pattern.evidence, self._ridge))
            for pattern in own
            if pattern.learned and self._groups
        ]
        places = []
        for members, group in self._groups:
            losses = {number: group.loss_with(mine) for number, mine in known}
            nearest = min(losses, key=lambda number: losses[number], default=None)
            same = nearest is not None and losses[nearest] <= self._tolerance
            places.append(Place(members, nearest if same else None))
        return places

    def saved_places(self, places: Sequence[Sequence[Any]], numbers: Sequence[int]) -> list[Place]:
        """Places as a file has them; ``BadInput`` unless each part with rows has one of those."""
        found = [Place(tuple(received), number) for received, number in places]
        if sorted(index for place in found for index in place.received) != self._filled:
            raise BadInput("each received part with rows needs one place")
        if not {place.number for place in found} <= {None, *numbers}:
            raise BadInput("a received part has a place that is no pattern")
        return found


def _added(parts: Sequence[Evidence]) -> Evidence:
    # Of one part that part itself, so that what is known of it is not found again.
    return parts[0] if len(parts) == 1 else Evidence.sum(parts)


class Weighing:
    """Own patterns and foreign models, and how much the score of each counts.

    Models differ in how well they can explain anything at all, so what counts is a score in
    proportion to what is typical of the model (a distance is that already). Foreign ones count as
    much as own ones: ``typical`` has the score of a typical row of each.
    """

    def __init__(
        self,
        own: Sequence[Pattern],
        foreign: Sequence[SingleModel],
        typical: Sequence[float],
    ) -> None:
        self._own = list(own)
        self.models = [*(pattern.model for pattern in own), *foreign]
        here, elsewhere = _known(np.array([pattern.typical for pattern in own]), np.array(typical))
        self._weights = here.mean() / np.concatenate([here, elsewhere])

    def answer(self, x: Array) -> Answer:
        answers = [model.answer(x) for model in self.models]
        if len(answers) == 1:
            return answers[0]._replace(work=answers, pattern=self._own[0].number)
        scores = self._weights * np.array([answer.score for answer in answers])
        best = int(scores.argmin())
        return Answer(float(scores[best]), answers[best].view, answers, self.number(best))

    def scores(self, X: Array) -> Array:
        """Score each row by each model, as it counts: own ones first."""
        scores = np.stack([model.scores(X) for model in self.models])
        scores *= self._weights[:, np.newaxis]
        return scores

    def scores_left_out(self, X: Array, scores: Array, labels: Array) -> Array:
        """Replace the scores of the own pattern that learned a row by those without that row."""
        replaced = scores.copy()
        for index, pattern in enumerate(self._own):
            mine = labels == index
            if mine.any():
                replaced[index, mine] = self._weights[index] * pattern.model.left_out(X[mine])
        return replaced

    def number(self, index: int) -> int:
        """The number of the pattern at a place; −1, −2, … for foreign ones."""
        own = len(self._own)
        return self._own[index].number if index < own else own - index - 1


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

    The model that explains a row best answers it (``Weighing``), and the own pattern that it
    belongs to learns it (``OwnPatterns``). Foreign patterns never learn.
    """

    def __init__(self, basis: Basis, rule: PatternRule, *, ridge: float, forgetting: float) -> None:
        self.basis = basis
        self.rule = rule
        self.patterns = OwnPatterns(basis, rule, ridge=ridge, forgetting=forgetting)
        model = self.own[0].model
        self.ridge, self.forgetting = model.ridge, model.forgetting
        self.version = 0
        #: Rows learned here since the start, forgotten or not.
        self.learned = 0
        self._received = Received((), self.ridge, basis, rule)
        self.places: list[Place] = []
        #: The models of what is unlike all patterns here.
        self.foreign: list[SingleModel] = []
        self._place([])

    @property
    def own(self) -> list[Pattern]:
        return self.patterns.used

    @property
    def models(self) -> list[SingleModel]:
        return self._weighing.models

    # Answering

    def answer(self, x: Array) -> Answer:
        return self._weighing.answer(x)

    def answers_ahead(self, X: Array) -> list[Answer]:
        return [self.answer(X[0])]

    def rows_alike(self) -> int:
        return min(max(self.learned // 2, 8), self.patterns.rows_until_change)

    def answers(self, X: Array) -> Array:
        return self.scores(X)

    def score_one(self, x: Array) -> float:
        return float(self.scores(x[np.newaxis])[0])

    def scores(self, X: Array) -> Array:
        return np.asarray(self._weighing.scores(X).min(axis=0))

    def numbers_of(self, X: Array) -> Array:
        """Find the number of the pattern that explains each row best."""
        numbers = np.array([self._weighing.number(index) for index in range(len(self.models))])
        return np.asarray(numbers[self._weighing.scores(X).argmin(axis=0)])

    def left_out(self, X: Array) -> Array:
        scores, labels = self._weighing.scores(X), self.patterns.nearest_to_each(X)
        return np.asarray(self._weighing.scores_left_out(X, scores, labels).min(axis=0))

    def explainer(self, x: Array) -> tuple[int, Any]:
        number = self.answer(x).pattern
        model = next(one for i, one in enumerate(self.models) if self._weighing.number(i) == number)
        return number, model.explainer(x)[1]

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
        """Join patterns that are one."""
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
    def received(self) -> Evidence | None:
        parts = self._received.parts
        return Evidence.sum(parts) if parts else None

    def set_prior(self, parts: Sequence[Evidence]) -> None:
        """Replace all that was received from others.

        What one model explains as well as several becomes one model; what is like an own pattern
        makes that one better; the rest are foreign patterns.
        """
        received = self._usable(parts)
        self._received, places = received, received.places(self.own)
        self._place(places)

    def add_received(self, evidence: Evidence) -> None:
        self.set_prior([*self._received.parts, evidence])

    def remove_received(self, evidence: Evidence) -> None:
        kept = list(self._received.parts)
        if evidence not in kept:
            raise NotAdmissible("this evidence was never merged here")
        kept.remove(evidence)
        self.set_prior(kept)

    def set_loan(self, loan: Moments | None) -> None:
        self.patterns.set_loan(loan)
        self.version += 1

    # On disk

    def pack(self) -> Packed:
        fields, arrays = self.patterns.pack()
        return {"patterns": fields | {"places": list(map(list, self.places))}}, arrays

    def restore(
        self, fields: Mapping[str, Any], arrays: Mapping[str, Array], received: Sequence[Evidence]
    ) -> None:
        known = fields["patterns"]
        self.patterns.restore(known, arrays)
        self.learned = require_whole("learned", fields["learned"], 0)
        self._received = self._usable(received)
        # Where parts belonged when they came: the patterns may have changed since.
        self._place(self._received.saved_places(known["places"], self.patterns.numbers))

    # Steps

    def _place(self, places: Sequence[Place]) -> None:
        """Put what was received into these places."""
        sums = [(place.number, self._received.sum_at(place)) for place in places]
        self.places = list(places)
        foreign = [evidence for number, evidence in sums if number is None]
        self.foreign = [self.patterns.foreign(evidence) for evidence in foreign]
        for pattern in self.own:
            pattern.set_prior([evidence for number, evidence in sums if number == pattern.number])
        typical = [typical_score(evidence, self.ridge) for evidence in foreign]
        self._weighing = Weighing(self.own, self.foreign, typical)
        self._arranged = self.patterns.arrangement
        # Scores computed before are out of date.
        self.version += 1

    def _seen(self, X: Array | Sequence[Array]) -> None:
        self.learned += len(X)
        if self.patterns.seen(X):
            self._rearrange()

    def _rearrange(self) -> None:
        """Find new places for what was received, if that makes a difference."""
        fading = self.forgetting < 1.0 and any(pattern.joined for pattern in self.own)
        places = self._received.places(self.own)
        if fading or (places, self.patterns.arrangement) != (self.places, self._arranged):
            self._place(places)

    def _usable(self, parts: Sequence[Evidence]) -> Received:
        """The parts in groups; raises unless all can be used here, alone and together."""
        for part in parts:
            self.basis.require(part.basis)
            part.require_admissible("this evidence can't be merged")
        if parts:
            Evidence.sum(parts).require_in_range()
        return Received(parts, self.ridge, self.basis, self.rule)
