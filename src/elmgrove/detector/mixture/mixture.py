"""Several models side by side, one for each normal pattern, that answer like one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import OSELM, Array, Basis, Evidence, Guess, one_thread, typical_loss
from elmgrove.detector.mixture.own import OwnPatterns
from elmgrove.detector.mixture.pattern import Part, Pattern, PatternRule
from elmgrove.detector.mixture.received import Place, Received


class Panel:
    """Own patterns and foreign models, and how much the errors of each count.

    Models differ in how well they can explain anything at all, so what counts is an error in
    proportion to what is typical of the model. A typical row of a foreign one counts as
    ``handicap`` times the strangest row that was normal here (``weigh``): what happens elsewhere
    excuses a row here less than what happens here, and hardly anything that one's own patterns
    explain about as well.
    """

    def __init__(
        self,
        own: Sequence[Pattern],
        foreign: Sequence[OSELM],
        typical: Sequence[float],
        handicap: float,
    ) -> None:
        self._own = list(own)
        self._foreign = list(foreign)
        self._models = [*(pattern.model for pattern in own), *foreign]
        self._typical = _known(np.array([pattern.typical for pattern in own]), np.array(typical))
        self._handicap = handicap
        self.weigh(None)

    def weigh(self, edge: float | None) -> None:
        """``edge``: the largest loss of what is normal here; None if that is not known yet.

        Then foreign models count as much as own ones.
        """
        self.edge = edge
        own, foreign = self._typical
        level = own.mean()
        excused = level if edge is None else max(level, self._handicap * edge)
        self._weights = np.concatenate([level / own, excused / foreign])

    def guess(self, x: Array) -> Guess:
        """What the best model makes of a row that is known to be good."""
        models = self._models
        h = models[0].hidden_one(x)
        ws = [model.solve_one(h) for model in models]
        ys = [model.output_one(w) for model, w in zip(models, ws, strict=True)]
        if len(models) == 1:
            return Guess(h, (ws, None), ys[0], self._own[0].number)
        losses = self._weights * np.array([float(r @ r) for r in (x - y for y in ys)])
        best = int(losses.argmin())
        return Guess(h, (ws, losses), ys[best], self._number(best), float(self._weights[best]))

    def losses(self, X: Array) -> Array:
        """What each model leaves unexplained of each row, as it counts: own ones first."""
        losses = np.stack([model.losses(X) for model in self._models])
        losses *= self._weights[:, np.newaxis]
        return losses

    def losses_left_out(self, X: Array, losses: Array, labels: Array) -> Array:
        """The same where the own pattern that learned a row (``labels``) did not learn it."""
        left_out = losses.copy()
        for index, pattern in enumerate(self._own):
            mine = labels == index
            if mine.any():
                without = pattern.model.leave_one_out(X[mine], X[mine])
                left_out[index, mine] = self._weights[index] * without
        return left_out

    def winners(self, X: Array) -> list[int]:
        """The number of the pattern that explains each row best; −1, −2, … for foreign ones."""
        return [self._number(int(index)) for index in self.losses(X).argmin(axis=0)]

    def _number(self, index: int) -> int:
        own = len(self._own)
        return self._own[index].number if index < own else own - index - 1


def _known(own: Array, foreign: Array) -> tuple[Array, Array]:
    """What nobody knows is taken to be as the largest that is known: few rows, large errors."""
    known = [values[np.isfinite(values)].max(initial=0.0) for values in (own, foreign)]
    largest = (known[0] or known[1] or 1.0), max(*known) or 1.0
    own, foreign = (
        np.where(np.isfinite(values) & (values > 0.0), values, most)
        for values, most in zip((own, foreign), largest, strict=True)
    )
    return own, foreign


class Mixture:
    """Models of one basis: own patterns, and foreign ones that others know.

    A row is answered by the model that explains it best (see ``Panel``), and learned by the own
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
        self._reception = Received((), self.ridge, rule.join)
        self.places: list[Place] = []
        #: The models of what is unlike all patterns here.
        self.foreign: list[OSELM] = []
        #: Whether models came, went or changed otherwise than by the row that was last learned.
        self.rearranged = False
        self.place([])

    @property
    def own(self) -> list[Pattern]:
        """The patterns in use."""
        return self.patterns.own

    @property
    def retired(self) -> list[Pattern]:
        """The patterns put aside."""
        return self.patterns.retired

    # Answering

    def guess(self, x: Array) -> Guess:
        """What the best model makes of a row that is known to be good."""
        return self._panel.guess(x)

    def loss_one(self, x: Array) -> float:
        """Σ (x − y)² of the best model, in proportion to what is typical of it."""
        with one_thread:
            guess = self.guess(x)
        r = x - guess.y
        return guess.weight * float(r @ r)

    def losses(self, X: Array) -> Array:
        """The same for each row."""
        lowest: Array = self._panel.losses(X).min(axis=0)
        return lowest

    def winners(self, X: Array) -> list[int]:
        """The number of the pattern that explains each row best; −1, −2, … for foreign ones."""
        return self._panel.winners(X)

    def model_of(self, number: int) -> OSELM:
        """The model behind a winner's number."""
        return self.foreign[-1 - number] if number < 0 else self.patterns.find(number).model

    def leave_one_out(self, X: Array, T: Array) -> Array:
        """The lowest loss of each row, where its own pattern's is that without the row."""
        lowest: Array = self._left_out(X).min(axis=0)
        return lowest

    @property
    def edge(self) -> float | None:
        """The largest loss of what is normal here, by own patterns; None if it is not known."""
        return self._panel.edge

    def weigh(self, edge: float | None) -> None:
        """Lets foreign patterns count as ``edge`` says; as much as own ones if it is None."""
        self._panel.weigh(edge)

    def settle(self, X: Array) -> None:
        """The same by rows that are normal here."""
        self.weigh(float(self._left_out(X)[: len(self.own)].min(axis=0).max()))

    # Learning

    def learn_one(self, x: Array, t: Array) -> None:
        """Learns a row that is known to be good."""
        with one_thread:
            if self.rule.assign == "loss" and len(self.own) > 1:
                self.take(self.guess(x), x, float(x @ x))
                return
            index = self.patterns.nearest(x)
            model = self.own[index].model
            h = model.hidden_one(x)
            model.absorb(h, model.solve_one(h), x, float(x @ x))
            self._learned(index, x)

    def take(self, guess: Guess, t: Array, energy: float) -> None:
        """Learns the row that was guessed, with the work that was done for that."""
        ws, losses = guess.w
        by_loss = self.rule.assign == "loss" and losses is not None
        index = int(losses[: len(self.own)].argmin()) if by_loss else self.patterns.nearest(t)
        self.own[index].model.absorb(guess.h, ws[index], t, energy)
        self._learned(index, t)

    def absorb_many(self, X: Array, T: Array) -> None:
        """Learns rows that are known to be good, in their order."""
        start = 0
        while start < len(X):
            block = X[start : start + self.patterns.rows_until_change]
            if self.rule.assign == "loss" and self.patterns.first_rows is None:
                for x in block:
                    self.learn_one(x, x)
            else:
                self._absorb_block(block)
            start += len(block)

    def found(self, X: Array) -> None:
        """Makes these rows a pattern of their own, if there can be one more.

        Where the number is fixed, or not decided yet, they are learned like any others.
        """
        if self.patterns.has_room:
            self.patterns.found(X)
            self._match()
        else:
            self.absorb_many(X, X)

    def trial(self, rows: Array) -> OSELM:
        """A learner of these rows alone: a new pattern need not have anything of the others."""
        made = self.patterns.blank(0).model
        made.absorb_many(rows, rows)
        return made

    # Patterns that come and go

    def tune(self) -> None:
        """Joins patterns that are one, and puts aside those that got no rows."""
        self.patterns.tune()
        self._rearrange()

    def part(self, number: int) -> None:
        """Makes a pattern that was joined to another one by itself again."""
        self.patterns.part(number)
        self._match()

    def revive(self, number: int) -> None:
        """Brings a pattern back that was put aside."""
        self.patterns.revive(number)
        self._match()

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
    def received(self) -> tuple[Evidence, ...]:
        """What others know, as it came."""
        return self._reception.parts

    @property
    def prior(self) -> Evidence | None:
        """All that was received from others, as one sum."""
        return Evidence.sum(self.received) if self.received else None

    def rest_on(self, parts: Sequence[Evidence]) -> None:
        """Lets these take the place of all that was received.

        What is of the same kind becomes one model; what is of the same kind as an own pattern
        makes that one better; the rest are foreign patterns.
        """
        Received.require_fitting(parts, self.basis)
        if parts:
            # Refuses what can't be added up, before anything is changed.
            self.patterns.blank(0).model.prior = Evidence.sum(parts)
        reception = Received(parts, self.ridge, self.rule.join)
        places = reception.places(self.own)
        self._reception = reception
        self.place(places)

    def place(self, places: Sequence[Place]) -> None:
        """Lets what was received be where ``places`` says."""
        sums = [(place.number, self._reception.sum(place.received)) for place in places]
        self.places = list(places)
        foreign = [evidence for number, evidence in sums if number is None]
        self.foreign = [self._foreign(evidence) for evidence in foreign]
        for pattern in self.own:
            mine = [evidence for number, evidence in sums if number == pattern.number]
            pattern.rest_on(Evidence.sum(mine) if mine else None)
        self.patterns.arrange()
        typical = [typical_loss(evidence, self.ridge) for evidence in foreign]
        self._panel = Panel(self.own, self.foreign, typical, self.rule.handicap)
        self._arranged = self._arrangement
        self.rearranged = True

    # Steps

    def _left_out(self, X: Array) -> Array:
        losses = self._panel.losses(X)
        # Which own pattern would learn each row, with nothing moving meanwhile.
        if self.rule.assign == "loss":
            labels = losses[: len(self.own)].argmin(axis=0)
        else:
            labels = self.patterns.nearest_to_each(X)
        return self._panel.losses_left_out(X, losses, labels)

    def _absorb_block(self, X: Array) -> None:
        labels = np.empty(len(X), np.intp)
        for row, x in enumerate(X):
            labels[row] = self.patterns.nearest(x)
            self.patterns.move(labels[row], x)
        for index, pattern in enumerate(self.own):
            mine = X[labels == index]
            pattern.model.absorb_many(mine, mine)
        self._seen(X)

    def _learned(self, index: int, x: Array) -> None:
        self.patterns.move(index, x)
        self._seen([x])

    def _seen(self, X: Array | Sequence[Array]) -> None:
        if self.patterns.seen(X):
            self._rearrange()

    def _rearrange(self) -> None:
        """Places what was received anew, if that makes a difference."""
        fading = self.forgetting < 1.0 and any(pattern.joined for pattern in self.own)
        places = self._reception.places(self.own)
        if fading or (places, self._arrangement) != (self.places, self._arranged):
            self.place(places)

    @property
    def _arrangement(self) -> list[tuple[int, float]]:
        """What the panel was made for."""
        return [(pattern.number, pattern.typical) for pattern in self.own]

    def _match(self) -> None:
        """What was received finds its place among the patterns here."""
        self.place(self._reception.places(self.own))

    def _foreign(self, evidence: Evidence) -> OSELM:
        model = self.patterns.blank(0).model
        model.rest_on(evidence)
        return model
