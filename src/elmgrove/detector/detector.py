"""The detector: scores rows, decides, and learns those that are not anomalous."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np

from elmgrove.algebra.basis import Basis, default_score
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.layer import HiddenLayer
from elmgrove.algebra.linalg import one_thread
from elmgrove.algebra.moments import Moments
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import Scaling
from elmgrove.algebra.spectrum import Spectrum
from elmgrove.detector.dataframes import rows_with_names
from elmgrove.detector.decision import CHANGING, LEARNING, AlarmGate, RateTest, stamps_of
from elmgrove.detector.drift_detector import DriftDetector
from elmgrove.detector.events import AlarmRule, Events
from elmgrove.detector.feedback import Answers
from elmgrove.detector.gaussian import single_model
from elmgrove.detector.history import History, split_at
from elmgrove.detector.inputs import Period, Preparation, choose_window, stacked
from elmgrove.detector.mixture import Mixture
from elmgrove.detector.model import Answer, Model, Part
from elmgrove.detector.patterns import PatternRule
from elmgrove.detector.peers import Other, Peers
from elmgrove.detector.quarantine import Quarantine, Waiting
from elmgrove.detector.thresholds import FalseAlarmRate, Threshold
from elmgrove.detector.verdict import Cause, Verdict, causes_of, score_of, view_of
from elmgrove.errors import BadInput, NotAdmissible, require_whole
from elmgrove.storage.disk import FilePath, as_path, load, locked, write
from elmgrove.storage.sealed import seal, unseal

#: Rows that are prepared at once.
BLOCK = 4096


class Detector:
    """Learns what normal rows look like, and says how anomalous a row is.

    With a linear layer a row's ``score`` is its distance from what was learned (Mahalanobis'
    distance, squared, divided by the number of values): a typical row scores 1, whatever the
    units. With another layer, or ``score="loss"``, it is the mean squared error of reconstructing
    the row from a few hidden units (Ito 2021, §3.4). The distance finds what breaks the usual
    relations between columns, and what leaves the usual range. It does not find a normal row at
    the wrong time, unless a ``window`` shows it: then the last rows, side by side, are one
    input. With a ``spectrum`` rows are samples of signals, and ``observe`` takes a frame of them.

    ``learn_one`` and ``learn_many`` are for rows known to be normal. ``observe`` is for a
    stream: it scores, decides, and learns the row unless it is anomalous (anomalous rows wait in
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
    >>> anomalous = normal[0] + [3, 0, 0, 0, 0, 0]
    >>> verdict = detector.observe(anomalous)
    >>> verdict.anomalous, verdict.learned, detector.blame(anomalous)[0].feature
    (True, False, 'column 0')
    >>> idle, busy = (rng.normal(size=(300, 2)) @ rng.normal(size=(2, 8)) + 9 * k for k in (0, 1))
    >>> detector = Detector(HiddenLayer(inputs=8, units=8), patterns=PatternRule())
    >>> detector.learn_many(rng.permutation(np.vstack([idle, busy])))
    >>> [part.number for part in detector.parts]
    [1, 2]
    >>> detector.observe(idle[0]).pattern != detector.observe(busy[0]).pattern
    True
    """

    def __init__(
        self,
        layer: HiddenLayer,
        *,
        score: str | None = None,
        window: int = 1,
        spectrum: Spectrum | None = None,
        patterns: PatternRule | None = None,
        features: Sequence[str] | None = None,
        categories: Any = (),
        scaling: Scaling | None = None,
        ridge: float = 1e-3,
        forgetting: float = 1.0,
        threshold: Threshold | None = None,
        alarm: AlarmRule | None = None,
        warmup: int | None = None,
        quarantine: int = 256,
    ) -> None:
        names = None if features is None else tuple(features)
        window = require_whole("window", window, 1)
        self.basis = basis = Basis(
            layer,
            layer.inputs * window,
            names,
            scaling or Scaling(),
            window,
            score or default_score(layer.activation),
            spectrum,
            categories,
        )
        #: How patterns come and go; None where there is one model.
        self.patterns = patterns
        if patterns is not None and forgetting != 1.0:
            raise BadInput("forgetting would lose patterns that are not at work: leave one of them")
        self.model: Model = (
            single_model(basis, ridge=ridge, forgetting=forgetting)
            if patterns is None
            else Mixture(basis, patterns, ridge=ridge)
        )
        self.gate = AlarmGate(
            basis,
            threshold,
            warmup,
            self._rows_known,
            self._left_out,
        )
        #: Anomalous rows that belong together: the open event, and the last ones that ended.
        self.events = Events(alarm or AlarmRule())
        #: What was learned, hour by hour, so that an hour can be taken out again.
        self.increments = History(self.model)
        #: Rows that were learned and taken out again.
        self.taken = 0
        self.quarantine = Quarantine(basis.inputs, quarantine)
        self.preparation = Preparation(basis)
        #: What is normal for others.
        self.elsewhere = Peers(basis, ())
        #: What others lend: how readings move together.
        self.loan: Moments | None = None
        #: Whether rows have changed for good: ``drift.report`` says what, and since when.
        self.drift = DriftDetector(self.gate, self.model, self.events)
        #: What somebody said of anomalous rows, and what undoes the last of it.
        self.answers = Answers()
        # For a small matrix even asking for one thread takes longer than the product.
        large = layer.units * basis.inputs > 4096
        self._threads: AbstractContextManager[None] = one_thread if large else nullcontext()

    @classmethod
    def for_data(
        cls,
        rows: Any,
        *,
        window: int | str = "auto",
        score: str | None = None,
        spectrum: Spectrum | None = None,
        categories: Sequence[str] = (),
        rate: float | None = None,
        scaling: str = "standard",
        units: int | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> Self:
        """Makes a detector for rows like these: columns, scaling, units and window fit them.

        It has learned nothing yet. Rows may be a table with names (pandas, Polars), whose columns
        are then found by name, in whatever order, and whose dates are times; ``categories`` are
        those of its columns that hold words. ``rate`` is the share of normal rows that may be
        flagged, short for ``threshold=FalseAlarmRate(rate)``. ``settings`` are the constructor's.
        ``window="auto"`` takes ten rows for one input where the rows are a time series
        (``choose_window`` says why).
        """
        X, names, words = rows_with_names(rows, categories)
        size = choose_window(X, spectrum).window if window == "auto" else window
        basis = Basis.fitted(
            X,
            names,
            categories=words,
            scaling=scaling,
            units=units,
            window=require_whole("window", size, 1),
            score=score,
            spectrum=spectrum,
            seed=seed,
        )
        if rate is not None:
            settings["threshold"] = FalseAlarmRate(rate)
        return cls.for_basis(basis, **settings)

    @classmethod
    def for_basis(cls, basis: Basis, **settings: Any) -> Self:
        """Makes a detector that prepares rows as this basis says; ``settings`` are the others."""
        return cls(
            basis.layer,
            score=basis.score,
            window=basis.window,
            spectrum=basis.spectrum,
            features=basis.features,
            categories=basis.categories,
            scaling=basis.scaling,
            **settings,
        )

    @property
    def window(self) -> int:
        """The rows, side by side, that are one input."""
        return self.basis.window

    @property
    def learned(self) -> int:
        """Rows learned here since the start, forgotten or not."""
        return self.model.learned

    # Learning rows that are known to be normal

    def learn_one(self, row: Any, time: float | None = None) -> None:
        """Learns a normal row; on bad input raises ``BadInput`` and stays as it was.

        ``time`` is when it was measured, in seconds since 1970 (UTC).
        """
        x = self.preparation.next_input(row, time)
        if x is None:
            return
        period = self.preparation.period
        with self._threads:
            answer = self.model.answer(x)
            self.increments.note(*period)
            self.model.keep(answer, x)
        stamp = (*period, self.model.learned)
        self.gate.learned(x[np.newaxis], np.array([answer.score]), [stamp])

    def learn_many(self, rows: Any, times: Any = None) -> None:
        """Learns normal rows, as ``learn_one`` learns one but much faster. All or none."""
        X, when = self.preparation.next_many(rows, times)
        last_rows = self.preparation.last_rows
        periods = last_rows.periods(X, when)
        done, (end, *ends) = 0, self.increments.boundaries(periods)
        for start in range(0, len(X), BLOCK):
            inputs = last_rows.add_many(X[start : start + BLOCK], when[start : start + BLOCK])
            while len(inputs):
                if done == end:
                    end, *ends = ends
                    self.increments.note_many(periods[done:end])
                block = inputs[: min(self.model.rows_alike(), end - done)]
                scores = self.model.answers(block)
                self.model.learn_all(block)
                begun, done, inputs = done, done + len(block), inputs[len(block) :]
                self.gate.learned(block, scores, stamps_of(periods[begun:done], self.learned))
        self.gate.expire()

    def interrupt(self) -> None:
        """Begin a new window: the next row does not follow the last one."""
        self.preparation.restart()

    def forget_undo(self) -> None:
        """Forget what undoes the last answer."""
        self.answers.undoable = None
        self.increments.pins.pop("answer", None)

    # Watching a stream

    def observe(self, row: Any, time: float | None = None) -> Verdict:
        """Scores the row, decides, and learns it unless it is anomalous.

        With a window, the first rows after the start or a gap are scored, but neither judged nor
        learned, until the window is full. ``time`` is when the row was measured, in seconds since
        1970 (UTC).
        """
        x = self.preparation.next_input(row, time)
        if x is None:
            return self._unjudged(time)
        with self._threads:
            if not self.drift.started:
                self.drift.start()
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
        """``learning`` (no alarms yet), ``watching``, or ``changing`` (far more is anomalous)."""
        return self.gate.state

    @property
    def threshold(self) -> float:
        """Scores above this are anomalous; infinite while ``learning``."""
        return math.inf if self.state == LEARNING else self.gate.limit()

    @property
    def progress(self) -> RateTest:
        """What counting has shown up to now."""
        return self.gate.progress

    @property
    def rows_missing(self) -> int:
        """Rows that must still come, none of them above the threshold, before there are alarms."""
        return self.gate.rows_missing

    def plot(self, rows: Any, path: Any = None, *, times: Any = None, name: str = "") -> Any:
        """Draws scores, events and the sensors that caused them, and learns nothing.

        Returns matplotlib's figure, saved at ``path`` if given; without, it is pyplot's, which
        windows and notebooks show. Rows may be a table with names (pandas, Polars); ``times`` are
        seconds since 1970 (UTC), or those of the table's index or of its column of dates. Needs
        ``elmgrove[plot]``.
        """
        # Here, since it replays this detector.
        from elmgrove.detector.plot import plotted

        return plotted(self, rows, path, times=times, name=name)

    def adopt(self, waiting: Sequence[Waiting], *, by_hand: bool = False) -> None:
        """Learns rows that waited: they are a new normal, and an increment of their own."""
        if not waiting:
            return
        X = np.array([one.row for one in waiting])
        periods = np.array([(one.since, one.time) for one in waiting], np.float64)
        self.increments.cut()
        self.increments.note_many(periods, by_hand=by_hand)
        self.model.adopt(X)
        self.increments.cut()
        self.gate.adopted(X, self.model.left_out(X), stamps_of(periods, self.learned))

    # Scoring

    def score_one(self, row: Any) -> float:
        """Score a row that follows the last one: about 1 where it is typical."""
        x = self.preparation.one(row)
        return score_of(self.model, self.preparation.last_rows.with_next(x))

    def score_many(self, rows: Any) -> Array:
        """Scores each row of a stretch by itself, as ``score_one`` scores one, up to rounding.

        With a window, the first rows of the stretch are scored by as many rows as there are. With a
        spectrum, rows are samples, and there is a score for each whole frame of the stretch.
        """
        X = self.preparation.many(rows)
        size, scores = self.basis.window, np.empty(len(X))
        for start in range(0, len(X), BLOCK):
            first = max(start - size + 1, 0)
            inputs = stacked(X[first : start + BLOCK], size)
            # As many as there are inputs, up to the end of the block.
            end = min(start + BLOCK, len(X))
            scores[end - len(inputs) : end] = self.model.scores(inputs)
        for index in range(min(size - 1, len(X))):
            scores[index] = score_of(self.model, X[: index + 1].reshape(-1))
        return scores

    def blame(self, row: Any, k: int = 3) -> list[Cause]:
        """Finds the k features that, each alone with other values, explain most of the score.

        Where there are patterns, to the one that explains the row best. With a window, the row is
        taken to follow the last one.
        """
        x = self.preparation.last_rows.with_next(self.preparation.one(row))
        return causes_of(self.model, x, k)

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
    def patterns_in_words(self) -> str | None:
        """How many patterns there are, and what was learned in each; None where one model is."""
        model = self.model
        return model.in_words(self.basis.counted) if isinstance(model, Mixture) else None

    @property
    def rows_undecided(self) -> int:
        """Rows to come until ``parts`` are settled, and from then on only grow; 0 if they are."""
        return self.model.rows_undecided

    @property
    def received(self) -> Evidence | None:
        """What others learned and this detector took in, as one sum."""
        parts = self.model.received
        return Evidence.sum(parts) if parts else None

    def set_prior(self, parts: Sequence[Evidence]) -> None:
        """Replace all that was received from others.

        One model rests on their sum. With patterns, evidence of rows like those of a pattern here
        makes that one better; the rest are patterns that others know, and explain a row here as
        much as its own do.
        """
        level = self._level()
        self.model.set_prior(parts)
        self._follow(level)

    def merge(self, evidence: Evidence) -> None:
        """Merge what others learned: the cooperative update (Ito 2021, §4.2), in one shot.

        From now on the model is the one that learning the other's rows as well would have
        given. Merging adds: the same evidence twice counts twice. ``Member`` keeps contributions
        apart by origin, so that a newer one replaces the older.
        """
        level = self._level()
        self.basis.require(evidence.basis)
        # The sum could hide what the part is not.
        evidence.require_admissible("this evidence can't be merged")
        self.model.set_prior([*self.model.received, evidence])
        self._follow(level)

    def set_peers(self, others: Sequence[Other], loan: Moments | None = None) -> None:
        """Asks these others about anomalous rows from now on, and borrows from them.

        What is anomalous here stays so: a verdict's ``known`` names those of them for whom the row
        would have been normal. ``loan`` is what they lend (``lent``): how readings move together,
        until this device has seen enough itself.
        """
        model = self.model
        elsewhere = Peers(self.basis, others, ridge=model.ridge)
        if loan != self.loan:
            level = self._level()
            model.set_loan(loan)
            self._follow(level)
        self.loan, self.elsewhere = loan, elsewhere

    def subtract(self, evidence: Evidence) -> None:
        """Take out evidence that was merged."""
        level = self._level()
        self.basis.require(evidence.basis)
        kept = list(self.model.received)
        if evidence not in kept:
            raise NotAdmissible("this evidence was never merged here")
        kept.remove(evidence)
        self.model.set_prior(kept)
        self._follow(level)

    def level(self, rows: Array) -> float | None:
        """Measures how high these of the last rows score, had the model not learned them."""
        if len(rows) < 2 * self.basis.window or not len(self.gate.recent):
            return None
        return float(np.quantile(self.model.left_out(rows), 0.95))

    def _level(self) -> float | None:
        return self.level(self.gate.recent.rows)

    def _follow(self, before: float | None) -> None:
        self.gate.follow(before, self._level())

    # On disk

    def save(self, path: FilePath, name: str | None = None) -> None:
        """Saves all that it knows, atomically, as a state that the command and agents go on with.

        ``name`` is the device's; else that of the state which is there already, or the file's. What
        that state notes beside its detector stays. One that holds what others gave, or what was
        given away, is not replaced: that is for ``elmgrove.federation.Member``. The file holds
        recent rows, so only its owner may read it.
        """
        # Here, since it makes detectors itself.
        from elmgrove.detector.state import STATE_FORMAT, pack_state

        path = as_path(path)
        with locked(path):
            beside = load(path, _beside) if path.exists() else {"name": path.stem}
            fields, arrays = pack_state(name or beside["name"], self)
            write(path, seal(STATE_FORMAT, beside | fields, arrays), private=True)

    @staticmethod
    def load(path: FilePath) -> "Detector":
        """Loads a detector that ``save``, the command or an agent saved.

        Of what others gave and lent nothing is loaded; where that is part of the model (the policy
        ``merged``) it is refused.
        """
        from elmgrove.detector.state import detector_from_bytes

        return load(as_path(path), detector_from_bytes)

    def __repr__(self) -> str:
        basis, gate, rate = self.basis, self.gate, self.gate.policy.rate
        names = basis.names[:3] if basis.features else ()
        more = ", …" if names and len(basis.names) > 3 else ""
        columns = f"{basis.columns} column{'s' * (basis.columns > 1)}"
        named = f" ({', '.join(names)}{more})" if names else ""
        window = f", window {basis.window}" if basis.window > 1 else ""
        stated = "" if rate is None else f" at rate {rate:g}"
        outlook = f"scores above {gate.limit():.4g} are anomalous"
        if gate.state == LEARNING:
            outlook = f"{gate.rows_missing:,} more {basis.counted} until there are alarms"
        learned = f"{self.learned:,} {basis.counted} learned"
        return f"<Detector of {columns}{named}{window}: {gate.state}{stated}, {outlook}; {learned}>"

    # Steps

    def _observed_many(self, inputs: Array, periods: Sequence[Period]) -> list[Verdict]:
        verdicts = list[Verdict]()
        if len(inputs) and not self.drift.started:
            self.drift.start()
        while len(verdicts) < len(inputs):
            version, event, begun = self.model.version, self.events.running, len(verdicts)
            for answer in self.model.answers_ahead(inputs[begun:]):
                # A copy: a verdict that somebody keeps is not to keep all the others' rows.
                place = len(verdicts)
                verdicts.append(self._observed(inputs[place].copy(), answer, periods[place]))
                if self.model.version != version or self.events.running is not event:
                    # What was learned was cut where an event begins or ends, and the model is as
                    # new as can be: what was answered ahead is out of date.
                    break
        return verdicts

    def _observed(self, x: Array, answer: Answer, period: Period) -> Verdict:
        gate, (since, time) = self.gate, period
        decision = gate.decide(answer.score)
        # What an event is made of is for somebody to say: nothing is learned while one is open.
        learns = not decision.anomalous and self.events.running is None
        known: tuple[str, ...] = ()
        if decision.anomalous:
            known = self.elsewhere.known(x, decision.limit)
            gate.recent.refuse(answer.score, decision.limit)
            self.quarantine.add(x, answer.score, period)
        else:
            if learns:
                self.increments.note(since, time)
                self.model.keep(answer, x)
                gate.recent.accept(x, answer.score, (since, time, self.model.learned))
            if self.quarantine.rejected and decision.state != CHANGING:
                self.quarantine.rejected = False
        verdict = Verdict(
            answer.score,
            decision.limit,
            decision.anomalous,
            known,
            learns,
            False,
            decision.state,
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
        if decision.anomalous or events.running is not None:
            running, events.learned = events.running, self.learned
            events.follow(verdict, gate.state)
            if events.running is not running:
                self._bound_event()
        verdict.drift = self.drift.follow(verdict)
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
        return Verdict(score, self.threshold, *judged, 0, seen, x, view, self.basis, time)

    # Methods, so that a detector can be pickled.

    def _left_out(self, rows: Array) -> Array:
        return self.model.left_out(rows)

    def _rows_known(self) -> float:
        received = sum(part.count for part in self.model.received)
        return self.learned - self.taken + received


def _beside(blob: bytes) -> dict[str, Any]:
    """Reads what a state holds beside its detector; ``BadInput`` if that would not fit another."""
    from elmgrove.detector.state import STATE_FORMAT

    fields, _ = unseal(STATE_FORMAT, blob)
    exchanged = [name for name in ("heard", "left", "merged", "published") if fields.get(name)]
    if exchanged:
        raise BadInput(
            f"the state of {fields['name']!r} holds more than a detector ({', '.join(exchanged)}), "
            "which would be lost; save to another file, or save its elmgrove.federation.Member"
        )
    return fields
