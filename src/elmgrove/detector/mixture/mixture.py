"""A model for each normal pattern, and for those that others know; together they answer as one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra import Array, Basis, Evidence, Moments, Packed, one_thread
from elmgrove.detector.matching import Matching
from elmgrove.detector.mixture.own import OwnPatterns
from elmgrove.detector.mixture.pattern import Pattern
from elmgrove.detector.mixture.received import Place, Received, require_usable
from elmgrove.detector.mixture.rule import RAW, PatternRule
from elmgrove.detector.mixture.weighing import Weighing
from elmgrove.detector.model import Answer, Part, SingleModel
from elmgrove.detector.single import typical_score
from elmgrove.errors import NotAdmissible, require_whole

# Rows that are scored by one arrangement while they are learned, at least.
_FEW = 8


class Mixture:
    """Models of one basis: own patterns, and foreign ones that others know.

    A row is answered by the model that explains it best (see ``Weighing``), and learned by the own
    pattern that it belongs to (see ``OwnPatterns``). Foreign patterns never learn.
    """

    def __init__(
        self, basis: Basis, rule: PatternRule, *, ridge: float, forgetting: float, dtype: Any
    ) -> None:
        self.basis = basis
        self.rule = rule
        self.patterns = OwnPatterns(basis, rule, ridge=ridge, forgetting=forgetting, dtype=dtype)
        model = self.own[0].model
        self.ridge, self.forgetting, self.dtype = model.ridge, model.forgetting, model.dtype
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
        """The models that answer: one for each own pattern, then the foreign ones."""
        return self._weighing.models

    # Answering

    def answer(self, x: Array) -> Answer:
        """Lets the best model answer for a row; ``keep`` learns it with the work that was done."""
        return self._weighing.answer(x)

    def answers_ahead(self, X: Array) -> list[Answer]:
        """Answers for the first of these rows: the next one needs what is learned of it."""
        return [self.answer(X[0])]

    def rows_alike(self) -> int:
        """Counts the rows to learn until the model that ``answers`` uses is another one."""
        return min(max(self.learned // 2, _FEW), self.patterns.rows_until_change)

    def answers(self, X: Array) -> Array:
        """Scores rows that are about to be learned."""
        if self.rule.assign != "loss":
            return self.scores(X)
        # Scores decide which pattern learns a row, so nothing may be computed again for these.
        return np.asarray(self._weighing.scores(X, as_they_are=True).min(axis=0))

    def score_one(self, x: Array) -> float:
        """Scores one row by its best model, as ``Weighing`` compares them."""
        return float(self.scores(x[np.newaxis])[0])

    def scores(self, X: Array) -> Array:
        """Scores each row by its best model, as ``Weighing`` compares them."""
        return np.asarray(self._weighing.scores(X).min(axis=0))

    def plain_losses(self, X: Array) -> Array:
        """Computes what the best model leaves of each row, to compare with other models'."""
        return self._weighing.plain_losses(X)

    def left_out(self, X: Array) -> Array:
        """Scores each row, where its own pattern's score is that without the row."""
        scores = self._weighing.scores(X)
        # Which own pattern would learn each row, with nothing moving meanwhile.
        if self.rule.assign == "loss":
            labels = scores[: len(self.own)].argmin(axis=0)
        else:
            labels = self.patterns.nearest_to_each(X)
        return np.asarray(self._weighing.scores_left_out(X, scores, labels).min(axis=0))

    def explainer(self, x: Array) -> tuple[int, Any]:
        """Finds the pattern that explains a row best, and what explains it there."""
        number = self.answer(x).pattern
        model = self.foreign[-1 - number] if number < 0 else self.patterns.find(number).model
        return number, model.explainer(x)[1]

    # Learning

    def keep(self, answer: Answer, x: Array) -> None:
        """Learns the row that was answered, with the work that was done for that."""
        index = answer.nearest if self.rule.assign == "loss" else self.patterns.nearest(x)
        self.own[index].model.keep(answer.work[index], x)
        self.patterns.move(index, x)
        self._seen([x])

    def learn_all(self, X: Array) -> None:
        """Learns rows in their order."""
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
        """Lets each row make those before it in its pattern count so much less, from now on."""
        self.patterns.forget_by(forgetting)
        self.forgetting = forgetting

    def adopt(self, X: Array) -> None:
        """Makes rows that were strange and are a new normal a pattern, if there can be one more.

        Where the number is fixed, or not decided yet, they are learned like any others.
        """
        if not self.patterns.has_room:
            self.learn_all(X)
            return
        self.patterns.found(X)
        self.learned += len(X)
        self._place(self._received.places(self.own))

    def reduce_to(self, rest: Part) -> None:
        """Goes on with what is left of a part, as if no more had been learned in it."""
        self.patterns.reduce_to(rest)
        self._place(self._received.places(self.own))

    def new_normal(self, rows: Array, threshold: float) -> NDArray[np.bool_]:
        """Marks which strange rows make a new normal: a pattern need have nothing of the others."""
        if self.basis.score == "distance":
            # As wide as one of the own patterns.
            marks = [pattern.model.new_normal(rows, threshold) for pattern in self.own]
            return max(marks, key=lambda marked: int(marked.sum()))
        made = self.patterns.blank(0).model
        made.learn_all(rows)
        return np.asarray(made.left_out(rows) <= threshold)

    # Patterns that come and go

    def set_rule(self, rule: PatternRule) -> None:
        """Lets patterns come and go by another rule; how they are joined stays as it is."""
        self.rule = self.patterns.rule = rule

    def tune(self) -> None:
        """Joins patterns that are one, and puts aside those that got no rows."""
        self.patterns.tune()
        self._rearrange()

    def separate(self, number: int) -> None:
        """Makes a pattern that was joined to another one by itself again."""
        self.patterns.separate(number)
        self._place(self._received.places(self.own))

    def revive(self, number: int) -> None:
        """Brings a pattern back that was put aside."""
        self.patterns.revive(number)
        self._place(self._received.places(self.own))

    # Evidence

    @property
    def evidence(self) -> Evidence:
        """What was learned here, over all patterns; those put aside as well."""
        return Evidence.sum(part.evidence for part in self.parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What was learned here, by pattern."""
        return self.patterns.parts

    @property
    def rows_undecided(self) -> int:
        """Rows until it is decided how many patterns there are: then the parts are other ones."""
        return self.patterns.rows_undecided

    @property
    def received(self) -> Evidence | None:
        """All that was received from others, as one sum."""
        parts = self._received.parts
        return Evidence.sum(parts) if parts else None

    def rest_on(self, parts: Sequence[Evidence], matching: Matching | None = None) -> None:
        """Lets these take the place of all that was received from others.

        What one model explains as well as several becomes one model; what is like an own pattern
        makes that one better; the rest are foreign patterns, or not used where others answer
        instead. Then a ``matching`` decides what belongs together, if there is one.
        """
        received = self._usable(parts, matching)
        self._received, places = received, received.places(self.own)
        self._place(places)

    def add_received(self, evidence: Evidence) -> None:
        """Adds evidence of others, as one more part."""
        self.rest_on([*self._received.parts, evidence])

    def remove_received(self, evidence: Evidence) -> None:
        """Takes a part of others out again; ``NotAdmissible`` if it was never received."""
        kept = list(self._received.parts)
        if evidence not in kept:
            raise NotAdmissible("this evidence was never merged here")
        kept.remove(evidence)
        self.rest_on(kept)

    def borrow(self, loan: Moments | None) -> None:
        """Lets each own pattern borrow how readings move together elsewhere."""
        self.patterns.borrow(loan)
        self.version += 1

    # On disk

    def pack(self) -> Packed:
        """Packs all patterns; what was received is kept elsewhere."""
        fields, arrays = self.patterns.pack()
        return {"patterns": fields | self._received.fields(self.places)}, arrays

    def restore(
        self, fields: Mapping[str, Any], arrays: Mapping[str, Array], received: Sequence[Evidence]
    ) -> None:
        """Takes the place of a mixture that was packed."""
        known = fields["patterns"]
        self.patterns.restore(known, arrays)
        self.learned = require_whole("learned", fields["learned"], 0)
        self._received = self._usable(received, Matching.from_fields(known.get("matching")))
        # Where parts belonged when they came: the patterns may have changed since.
        self._place(self._received.saved_places(known["places"], self.patterns.numbers))

    # Steps

    def _place(self, places: Sequence[Place]) -> None:
        """Lets what was received be where ``places`` says."""
        sums = [(place.number, self._received.sum_at(place, self.own)) for place in places]
        self.places = list(places)
        foreign = [evidence for number, evidence in sums if number is None]
        self.foreign = [self.patterns.foreign(evidence) for evidence in foreign]
        for pattern in self.own:
            pattern.rest_on([evidence for number, evidence in sums if number == pattern.number])
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
        require_usable(parts, self.basis, self.dtype)
        return Received(parts, self.ridge, self.basis, self.rule, matching)
