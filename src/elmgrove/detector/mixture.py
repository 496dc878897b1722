"""One model for each normal pattern of a device, and for those that others know."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.linalg import one_thread
from elmgrove.algebra.moments import Moments, Packed
from elmgrove.algebra.rows import Array
from elmgrove.algebra.similarity import fit, groups
from elmgrove.detector.gaussian import SingleModel, typical_score
from elmgrove.detector.model import Answer, Part
from elmgrove.detector.patterns import INSTEAD, RAW, Matching, OwnPatterns, Pattern, PatternRule
from elmgrove.errors import BadInput, NotAdmissible, require_whole


class Place(NamedTuple):
    """Where some of the received parts belong: to an own pattern by its number, or to none.

    ``also`` are other own patterns, by their numbers, whose rows are in the same group.
    """

    received: tuple[int, ...]
    number: int | None
    also: tuple[int, ...] = ()


class Received:
    """Parts of others in groups: what one model explains as well as several is one group.

    Where a ``matching`` says which own pattern is in which group, each part is a group by itself.
    """

    def __init__(
        self,
        parts: Sequence[Evidence],
        ridge: float,
        basis: Basis,
        rule: PatternRule,
        matching: Matching | None = None,
    ) -> None:
        self.parts = tuple(parts)
        self._instead = rule.others == INSTEAD
        self.matching = matching if self._instead else None
        self._ridge, self._tolerance = ridge, rule.tolerance(basis)
        # A model of no rows at all would explain any row of zeros.
        self._filled = [index for index, part in enumerate(parts) if part.count > 0.0]
        fitted = [] if self.matching else [fit(parts[index], ridge) for index in self._filled]
        found = groups(fitted, self._tolerance)
        self._groups = [
            (members, fit(_added([parts[index] for index in members]), ridge))
            for members in (tuple(self._filled[index] for index in group) for group in found)
        ]

    def sum_at(self, place: Place, own: Sequence[Pattern]) -> Evidence:
        """Adds up what is at a place: received parts, and the rows of patterns in their group."""
        also = [pattern.evidence for pattern in own if pattern.number in place.also]
        return _added([*(self.parts[index] for index in place.received), *also])

    def places(self, own: Sequence[Pattern]) -> list[Place]:
        """Finds for each group the own pattern that one model could serve as well, or none.

        Where others answer instead, what belongs to none has no place (MLMG, Algorithm 3, lines 15
        to 17: it makes more groups than there are patterns here), unless it was matched.
        """
        if self.matching is not None:
            return list(self._matched(self.matching, own))
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
            if same or not self._instead:
                places.append(Place(members, nearest if same else None))
        return places

    def _matched(self, matching: Matching, own: Sequence[Pattern]) -> Iterator[Place]:
        """Algorithm 3: a group's model in the place of each pattern in it, or beside what is kept.

        Of patterns that were joined since, the one that they are part of; of those that were put
        aside none.
        """
        holder = {number: pattern.number for pattern in own for number in pattern.numbers}
        kept = {holder.get(number) for number in matching.kept}
        for group in sorted({*self._filled, *(group for _, group in matching.groups)}):
            matched = [number for number, one in matching.groups if one == group]
            members = sorted({holder[number] for number in matched if number in holder})
            came = (group,) if group in self._filled else ()
            replaced = [number for number in members if number not in kept]
            for number in replaced:
                also = tuple(other for other in members if other != number)
                if came or also:
                    yield Place(came, number, also)
            # Of one pattern that is kept, and of nobody else, it is that pattern's model.
            if not replaced and (came or len(members) > 1) and (members or not matched):
                yield Place(came, None, tuple(members))

    def fields(self, places: Sequence[Place]) -> dict[str, Any]:
        """Places as JSON holds them, and the matching, if there is one."""
        known = [list(place if place.also else place[:2]) for place in places]
        matching = {} if self.matching is None else {"matching": self.matching.fields}
        return {"places": known, **matching}

    def saved_places(self, places: Sequence[Sequence[Any]], numbers: Sequence[int]) -> list[Place]:
        """Places as a file has them; ``BadInput`` unless each part with rows has one of those.

        Where others answer instead, a part may have none, or one for each pattern in its group.
        """
        found = [_place(*place) for place in places]
        placed = sorted(index for place in found for index in place.received)
        if not self._instead and placed != self._filled:
            raise BadInput("each received part with rows needs one place")
        named = {number for place in found for number in (place.number, *place.also)}
        if not (named <= {None, *numbers} and {*placed} <= {*self._filled}):
            raise BadInput("a received part has a place that is no pattern")
        return found


def _added(parts: Sequence[Evidence]) -> Evidence:
    """The sum; of one part that part itself, so that what is known of it is not found again."""
    return parts[0] if len(parts) == 1 else Evidence.sum(parts)


def _place(received: Sequence[int], number: int | None, also: Sequence[int] = ()) -> Place:
    return Place(tuple(received), number, tuple(also))


def require_usable(parts: Sequence[Evidence], basis: Basis) -> None:
    """Raises unless all parts can be used here, alone and together."""
    for part in parts:
        basis.require(part.basis)
        part.require_admissible("this evidence can't be merged")
    if parts:
        Evidence.sum(parts).require_within(np.dtype(np.float64))


class Weighing:
    """Own patterns and foreign models, and how much the score of each counts.

    Models differ in how well they can explain anything at all, so what counts is a score in
    proportion to what is typical of the model (a distance is that already). Foreign ones count as
    much as own ones: ``typical`` has the score of a typical row of each. ``raw`` lets each score
    count as it is: the lowest raw loss (MLMG, Ito 2019).
    """

    def __init__(
        self,
        own: Sequence[Pattern],
        foreign: Sequence[SingleModel],
        typical: Sequence[float],
        *,
        raw: bool = False,
    ) -> None:
        self._own = list(own)
        self.models = [*(pattern.model for pattern in own), *foreign]
        here, elsewhere = _known(np.array([pattern.typical for pattern in own]), np.array(typical))
        self._weights = here.mean() / np.concatenate([here, elsewhere])
        if raw:
            self._weights = np.ones(len(self.models))

    def answer(self, x: Array) -> Answer:
        """Lets the best model answer for a row."""
        answers = [model.answer(x) for model in self.models]
        if len(answers) == 1:
            return answers[0]._replace(work=answers, pattern=self._own[0].number)
        scores = self._weights * np.array([answer.score for answer in answers])
        best, nearest = int(scores.argmin()), int(scores[: len(self._own)].argmin())
        return Answer(float(scores[best]), answers[best].view, answers, nearest, self.number(best))

    def scores(self, X: Array, as_they_are: bool = False) -> Array:
        """Scores each row by each model, as it counts: own ones first.

        By models ``as_they_are``, or after all that they learned.
        """
        scores = np.stack(
            [model.answers(X) if as_they_are else model.scores(X) for model in self.models]
        )
        scores *= self._weights[:, np.newaxis]
        return scores

    def plain_losses(self, X: Array) -> Array:
        """Computes what the best model leaves of each row, to compare with other models'."""
        best = self.scores(X).argmin(axis=0)
        plain = np.empty(len(X))
        for index in np.unique(best):
            plain[best == index] = self.models[index].plain_losses(X[best == index])
        return plain

    def scores_left_out(self, X: Array, scores: Array, labels: Array) -> Array:
        """Replaces the scores of the own pattern that learned a row by those without that row.

        ``labels`` has the place of that pattern for each row.
        """
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
    """Takes what is not known to be the largest that is known: few rows have large errors."""
    known = [values[np.isfinite(values)].max(initial=0.0) for values in (own, foreign)]
    largest = (known[0] or known[1] or 1.0), max(*known) or 1.0
    own, foreign = (
        np.where(np.isfinite(values) & (values > 0.0), values, most)
        for values, most in zip((own, foreign), largest, strict=True)
    )
    return own, foreign


# Rows that are scored by one arrangement while they are learned, at least.
_FEW = 8


class Mixture:
    """Models of one basis: own patterns, and foreign ones that others know.

    A row is answered by the model that explains it best (see ``Weighing``), and learned by the own
    pattern that it belongs to (see ``OwnPatterns``). Foreign patterns never learn.
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
        """The patterns in use."""
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
        return min(max(self.learned // 2, _FEW), self.patterns.rows_until_change)

    def answers(self, X: Array) -> Array:
        if self.rule.assign != "loss":
            return self.scores(X)
        # Scores decide which pattern learns a row, so nothing may be computed again for these.
        return np.asarray(self._weighing.scores(X, as_they_are=True).min(axis=0))

    def score_one(self, x: Array) -> float:
        return float(self.scores(x[np.newaxis])[0])

    def scores(self, X: Array) -> Array:
        return np.asarray(self._weighing.scores(X).min(axis=0))

    def plain_losses(self, X: Array) -> Array:
        return self._weighing.plain_losses(X)

    def left_out(self, X: Array) -> Array:
        scores = self._weighing.scores(X)
        # Which own pattern would learn each row, with nothing moving meanwhile.
        if self.rule.assign == "loss":
            labels = scores[: len(self.own)].argmin(axis=0)
        else:
            labels = self.patterns.nearest_to_each(X)
        return np.asarray(self._weighing.scores_left_out(X, scores, labels).min(axis=0))

    def explainer(self, x: Array) -> tuple[int, Any]:
        number = self.answer(x).pattern
        model = self.foreign[-1 - number] if number < 0 else self.patterns.find(number).model
        return number, model.explainer(x)[1]

    # Learning

    def keep(self, answer: Answer, x: Array) -> None:
        index = answer.nearest if self.rule.assign == "loss" else self.patterns.nearest(x)
        self.own[index].model.keep(answer.work[index], x)
        self.patterns.move(index, x)
        self._seen([x])

    def learn_all(self, X: Array) -> None:
        start = 0
        while start < len(X):
            block = X[start : start + self.patterns.rows_until_change]
            if self.rule.assign == "loss" and self.patterns.first_rows is None:
                for x in block:
                    self._learn(x)
            else:
                self._learn_block(block)
            start += len(block)

    def forget_by(self, forgetting: float) -> None:
        self.patterns.forget_by(forgetting)
        self.forgetting = forgetting

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

    def new_normal(self, rows: Array, threshold: float) -> NDArray[np.bool_]:
        if self.basis.score == "distance":
            # As wide as one of the own patterns.
            marks = [pattern.model.new_normal(rows, threshold) for pattern in self.own]
            return max(marks, key=lambda marked: int(marked.sum()))
        made = self.patterns.blank(0).model
        made.learn_all(rows)
        return np.asarray(made.left_out(rows) <= threshold)

    # Patterns that come and go

    def set_rule(self, rule: PatternRule) -> None:
        """Change the rule; patterns stay joined as they are."""
        self.rule = self.patterns.rule = rule

    def tune(self) -> None:
        """Joins patterns that are one, and puts aside those that got no rows."""
        self.patterns.tune()
        self._rearrange()

    def separate(self, number: int) -> None:
        """Undo a join."""
        self.patterns.separate(number)
        self._place(self._received.places(self.own))

    def revive(self, number: int) -> None:
        """Brings a pattern back that was put aside."""
        self.patterns.revive(number)
        self._place(self._received.places(self.own))

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

    def set_prior(self, parts: Sequence[Evidence], matching: Matching | None = None) -> None:
        """Replace all that was received from others.

        What one model explains as well as several becomes one model; what is like an own pattern
        makes that one better; the rest are foreign patterns, or not used where others answer
        instead. Then a ``matching`` decides what belongs together, if there is one.
        """
        received = self._usable(parts, matching)
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
        return {"patterns": fields | self._received.fields(self.places)}, arrays

    def restore(
        self, fields: Mapping[str, Any], arrays: Mapping[str, Array], received: Sequence[Evidence]
    ) -> None:
        known = fields["patterns"]
        self.patterns.restore(known, arrays)
        self.learned = require_whole("learned", fields["learned"], 0)
        self._received = self._usable(received, Matching.from_fields(known.get("matching")))
        # Where parts belonged when they came: the patterns may have changed since.
        self._place(self._received.saved_places(known["places"], self.patterns.numbers))

    # Steps

    def _place(self, places: Sequence[Place]) -> None:
        """Put what was received into these places."""
        sums = [(place.number, self._received.sum_at(place, self.own)) for place in places]
        self.places = list(places)
        foreign = [evidence for number, evidence in sums if number is None]
        self.foreign = [self.patterns.foreign(evidence) for evidence in foreign]
        for pattern in self.own:
            pattern.set_prior([evidence for number, evidence in sums if number == pattern.number])
        typical = [typical_score(evidence, self.ridge) for evidence in foreign]
        raw = self.rule.compare == RAW
        self._weighing = Weighing(self.own, self.foreign, typical, raw=raw)
        self._arranged = self.patterns.arrangement
        # Scores computed before are out of date.
        self.version += 1

    def _learn(self, x: Array) -> None:
        with one_thread:
            if self.rule.assign == "loss" and len(self.own) > 1:
                self.keep(self.answer(x), x)
                return
            index = self.patterns.nearest(x)
            self.own[index].model.learn(x)
            self.patterns.move(index, x)
        self._seen([x])

    def _learn_block(self, X: Array) -> None:
        labels = self.patterns.followed(X)
        for index, pattern in enumerate(self.own):
            pattern.model.learn_all(X[labels == index])
        self._seen(X)

    def _seen(self, X: Array | Sequence[Array]) -> None:
        self.learned += len(X)
        if self.patterns.seen(X):
            self._rearrange()
        elif any(place.also for place in self.places):
            # What answers for several patterns here has learned the rows of each.
            self._place(self.places)

    def _rearrange(self) -> None:
        """Finds new places for what was received, if that makes a difference."""
        fading = self.forgetting < 1.0 and any(pattern.joined for pattern in self.own)
        places = self._received.places(self.own)
        if fading or (places, self.patterns.arrangement) != (self.places, self._arranged):
            self._place(places)

    def _usable(self, parts: Sequence[Evidence], matching: Matching | None) -> Received:
        require_usable(parts, self.basis)
        return Received(parts, self.ridge, self.basis, self.rule, matching)
