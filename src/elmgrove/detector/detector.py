"""The detector: scores rows, decides, and learns those that are not strange."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import Array, Evidence, Moments
from elmgrove.detector.elsewhere import Elsewhere, Other
from elmgrove.detector.keeping import Keeping
from elmgrove.detector.last_rows import stamps_of
from elmgrove.detector.matching import Matching
from elmgrove.detector.mixture import RAW, Mixture
from elmgrove.detector.model import Answer, Part
from elmgrove.detector.parting import split_at
from elmgrove.detector.picture import plotted
from elmgrove.detector.progress import CHANGING, LEARNING, Progress
from elmgrove.detector.quarantine import Waiting
from elmgrove.detector.scorer import BLOCK
from elmgrove.detector.verdict import Cause, Verdict, explained
from elmgrove.detector.views import score_of, view_of
from elmgrove.detector.windows import Period

# The share of the last rows' scores that is compared when others change the model.
_LEVEL = 0.95


class Detector(Keeping):
    """Learns what normal rows look like, and says how strange a row is.

    With a linear layer a row's ``score`` is its distance from what was learned (Mahalanobis'
    distance, squared, divided by the number of values): a typical row scores 1, whatever the
    units. With another layer, or ``score="loss"``, it is the mean squared error of reconstructing
    the row from a few hidden units (Ito 2021, §3.4). The distance finds what breaks the usual
    relations between columns, and what leaves the usual range. It does not find a normal row at
    the wrong time, unless a ``window`` shows it: then the last so many rows, side by side, are one
    input. With a ``spectrum`` rows are samples of signals, and ``observe`` takes a frame of them.

    ``learn_one`` and ``learn_many`` are for rows known to be normal. ``observe`` is for a
    stream: it scores, decides, and learns the row unless it is strange (strange rows wait in
    ``quarantine``). Nothing is flagged while it is ``learning``: until ``warmup`` rows were learned
    (twice the hidden units unless stated), the threshold has the scores it needs, and counting has
    shown the stated rate; ``progress`` tells what is missing. ``merge`` takes in what others
    learned; ``evidence`` is what this device learned itself, for others.

    ``patterns`` gives a model to each of several normal patterns (MLMG, Qin and Kondo 2021): one
    model for all of them would explain everything between them as well, and miss what lies there.
    A row's score is then the lowest of theirs, and ``verdict.pattern`` says whose. That works where
    patterns are far apart compared with their width, and not where one drifts into the other: then
    one model is better.

    >>> from elmgrove import HiddenLayer, PatternRule
    >>> rng = np.random.default_rng(0)
    >>> normal = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(500, 6)) / 9
    >>> detector = Detector.for_data(normal)
    >>> detector.learn_many(normal)
    >>> strange = normal[0] + [3, 0, 0, 0, 0, 0]
    >>> verdict = detector.observe(strange)
    >>> verdict.anomalous, verdict.learned, detector.blame(strange)[0].feature
    (True, False, 'column 0')
    >>> idle, busy = (rng.normal(size=(300, 2)) @ rng.normal(size=(2, 8)) + 9 * k for k in (0, 1))
    >>> detector = Detector(HiddenLayer(inputs=8, units=8), patterns=PatternRule())
    >>> detector.learn_many(rng.permutation(np.vstack([idle, busy])))
    >>> [part.number for part in detector.parts]
    [1, 2]
    >>> detector.observe(idle[0]).pattern != detector.observe(busy[0]).pattern
    True
    """

    # Watching a stream

    def observe(self, row: Any, time: float | None = None) -> Verdict:
        """Scores the row, decides, and learns it unless it is strange.

        With a window, the first rows after the start or a gap are scored, but neither judged nor
        learned, until the window is full. ``time`` is when the row was measured, in seconds since
        1970 (UTC).
        """
        x = self.preparation.next_input(row, time)
        if x is None:
            return self._unjudged(time)
        with self._threads:
            return self._observed(x, self.model.answer(x), self.preparation.period)

    def observe_many(self, rows: Any, times: Any = None) -> list[Verdict]:
        """Observes rows that came together, with the verdicts that ``observe`` would give.

        With a spectrum, rows are samples, and there is a verdict for each frame they complete.
        """
        X, when = self.preparation.next_many(rows, times)
        last_rows = self.preparation.last_rows
        missing = min(self.basis.window - 1 - len(last_rows), len(X))
        verdicts = list[Verdict]()
        for x, time in zip(X[:missing], when[:missing].tolist(), strict=True):
            last_rows.add(x, time)
            verdicts.append(self._unjudged(None if math.isnan(time) else time))
        for start in range(missing, len(X), BLOCK):
            block = X[start : start + BLOCK], when[start : start + BLOCK]
            periods, inputs = last_rows.periods(*block), last_rows.add_many(*block)
            with self._threads:
                verdicts += self._observed_many(inputs, periods.tolist())
        return verdicts

    @property
    def state(self) -> str:
        """``learning`` (no alarms yet), ``watching``, or ``changing`` (far more is strange)."""
        return self.gate.state

    @property
    def threshold(self) -> float:
        """Scores above this are strange; infinite while ``learning``."""
        return math.inf if self.state == LEARNING else self.gate.limit()

    @property
    def progress(self) -> Progress:
        """What counting has shown up to now."""
        return self.gate.progress

    @property
    def rows_missing(self) -> int:
        """Rows that must still come, none of them above the threshold, before there are alarms."""
        return self.gate.rows_missing

    def causes(self, verdict: Verdict, k: int = 3) -> list[Cause]:
        """Finds what ``blame`` would have found for the row of a verdict given here."""
        view = verdict.view
        if self.basis.score == "loss":
            _, view = self.model.explainer(verdict.row)
        return explained(self.basis, view, verdict.row, k)

    #: Draws scores, events and the sensors that caused them, and learns nothing.
    plot = plotted

    def promote(self) -> int:
        """Learns all quarantined rows as a new normal; says how many there were."""
        self.adopt(waiting := self.quarantine.release())
        return len(waiting)

    def adopt(self, waiting: Sequence[Waiting], *, by_hand: bool = False) -> None:
        """Learns rows that waited: they are a new normal, and an increment of their own."""
        if not waiting:
            return
        X = self.quarantine.inputs(waiting)
        periods = np.array([(one.since, one.time) for one in waiting], np.float64)
        self.increments.cut()
        self.increments.note_many(periods, by_hand=by_hand)
        self.model.adopt(X)
        self.increments.cut()
        self.gate.adopted(X, self.model.left_out(X), stamps_of(periods, self.learned))

    def _observed_many(self, inputs: Array, periods: Sequence[Period]) -> list[Verdict]:
        verdicts = list[Verdict]()
        while len(verdicts) < len(inputs):
            version, event, begun = self.model.version, self.events.running, len(verdicts)
            for answer in self.model.answers_ahead(inputs[begun:]):
                # A copy: a verdict that somebody keeps is not to keep all the others' rows.
                place = len(verdicts)
                verdicts.append(self._observed(inputs[place].copy(), answer, periods[place]))
                if self.model.version != version or self.events.running is not event:
                    # Rows were promoted, or what was learned was cut where an event begins or ends,
                    # and the model is as new as can be: what was answered ahead is out of date.
                    break
        return verdicts

    def _observed(self, x: Array, answer: Answer, period: Period) -> Verdict:
        gate, (since, time) = self.gate, period
        decision = gate.decide(answer.score)
        # What an event is made of is for somebody to say: nothing is learned while one is open.
        learns = not decision.strange and self.events.running is None
        promoted = 0
        known: tuple[str, ...] = ()
        if decision.strange:
            known = self.elsewhere.known(x, decision.limit)
            promoted = self._refuse(x, answer.score, decision.limit, period)
        else:
            if learns:
                self.increments.note(since, time)
                self.model.keep(answer, x)
                gate.recent.accept(x, answer.score, (since, time, self.model.learned))
            if self.quarantine.run or self.quarantine.rejected:
                self.quarantine.calm(decision.state == CHANGING)
        verdict = Verdict(
            answer.score,
            decision.limit,
            decision.strange,
            known,
            learns,
            False,
            decision.state,
            promoted,
            answer.pattern,
            gate.progress.seen,
            x,
            answer.view,
            self.basis,
            None if math.isnan(time) else time,
            excess=decision.excess,
            raised=decision.raised,
        )
        events = self.events
        events.row += 1
        if decision.strange or events.running is not None:
            running, events.learned = events.running, self.learned
            events.follow(verdict, gate.state, self.causes)
            if events.running is not running:
                self._bound_event()
        return verdict

    def _bound_event(self) -> None:
        """Keeps what was learned in the last event apart, so that it can be taken out exactly.

        With patterns nobody knows which of them learned which row: then an event's rows are those
        from the one that opened it to the one with which it was over.
        """
        events = self.events
        running = events.running
        if running is not None:
            if not split_at(self, running.after):
                running.after = self.learned
            self.increments.pins["event"] = (running.after,)
            return
        after, until = events.last_learned
        if not split_at(self, until):
            until = self.learned
        events.last_learned = (after, until)
        self.increments.pins["event"] = (after, until)

    def _unjudged(self, time: float | None) -> Verdict:
        """The verdict on a row that completes no window yet."""
        self.events.row += 1
        x = self.preparation.partial
        score, (x, view) = score_of(self.model, x), view_of(self.model, x)
        judged, seen = (False, (), False, False, self.state), self.progress.seen
        return Verdict(score, self.threshold, *judged, 0, 0, seen, x, view, self.basis, time)

    def _refuse(self, x: Array, score: float, limit: float, period: Period) -> int:
        self.gate.recent.refuse(score, limit)
        self.quarantine.add(x, score, period)
        promoted = self.quarantine.release_new_normal(self.model, limit)
        self.adopt(promoted)
        return len(promoted)

    # Cooperation

    @property
    def evidence(self) -> Evidence:
        """What this device learned itself, and nothing it received: what it may give away."""
        return self.model.evidence

    @property
    def parts(self) -> tuple[Part, ...]:
        """What this device learned itself, by pattern; one part where there is one model."""
        return self.model.parts

    @property
    def rows_undecided(self) -> int:
        """Rows to come until ``parts`` are settled, and from then on only grow; 0 if they are."""
        return self.model.rows_undecided

    @property
    def received(self) -> Evidence | None:
        """What others learned and this detector took in, as one sum."""
        return self.model.received

    def rest_on(self, parts: Sequence[Evidence], matching: Matching | None = None) -> None:
        """Lets these take the place of all that was received from others.

        One model rests on their sum. With patterns, evidence of rows like those of a pattern here
        makes that one better; the rest are patterns that others know, and explain a row here as
        much as its own do. Where others answer ``instead`` (``PatternRule``) they are not used, and
        ``matching`` may say which part belongs to which pattern.
        """
        level = self._level()
        if isinstance(self.model, Mixture):
            self.model.rest_on(parts, matching)
        else:
            self.model.rest_on(parts)
        self._follow(level)

    def merge(self, evidence: Evidence) -> None:
        """Takes in what others learned: the cooperative update (Ito 2021, §4.2), in one shot.

        From now on the model is the one that learning the other's rows as well would have
        given. Merging adds: the same evidence twice counts twice. ``Member`` keeps contributions
        apart by origin, so that a newer one replaces the older.
        """
        level = self._level()
        self.model.add_received(evidence)
        self._follow(level)

    def consult(self, others: Sequence[Other], loan: Moments | None = None) -> None:
        """Asks these others about anomalous rows from now on, and borrows from them.

        What is anomalous here stays so: a verdict's ``known`` names those of them for whom the row
        would have been normal. ``loan`` is what they lend (``lent``): how readings move together,
        until this device has seen enough itself.
        """
        model, raw = self.model, self.patterns is not None and self.patterns.compare == RAW
        elsewhere = Elsewhere(self.basis, others, raw=raw, ridge=model.ridge, dtype=model.dtype)
        if loan != self.loan:
            level = self._level()
            model.borrow(loan)
            self._follow(level)
        self.loan, self.elsewhere = loan, elsewhere

    def subtract(self, evidence: Evidence) -> None:
        """Takes evidence that was merged out again."""
        level = self._level()
        self.model.remove_received(evidence)
        self._follow(level)

    def level(self, rows: Array) -> float | None:
        """Measures how high these of the last rows score, had the model not learned them."""
        if len(rows) < 2 * self.basis.window or not len(self.gate.recent):
            return None
        return float(np.quantile(self.model.left_out(rows), _LEVEL))

    def _level(self) -> float | None:
        return self.level(self.gate.recent.rows)

    def _follow(self, before: float | None) -> None:
        self.gate.follow(before, self._level())
