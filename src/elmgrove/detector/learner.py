"""The learner: a model behind its preparation, which scores rows and learns normal ones."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np

from elmgrove.algebra import (
    Array,
    Basis,
    HiddenLayer,
    Moments,
    Scaling,
    Spectrum,
    default_score,
    one_thread,
)
from elmgrove.detector.alarm import AlarmRule
from elmgrove.detector.answers import Answers
from elmgrove.detector.drift_watch import DriftWatch
from elmgrove.detector.elsewhere import Elsewhere
from elmgrove.detector.events import Events
from elmgrove.detector.frames import rows_with_names
from elmgrove.detector.gate import Gate
from elmgrove.detector.increments import HOUR, Increments
from elmgrove.detector.last_rows import stamps_of
from elmgrove.detector.mixture import Mixture, PatternRule
from elmgrove.detector.model import Model
from elmgrove.detector.preparation import Preparation
from elmgrove.detector.quarantine import Quarantine
from elmgrove.detector.scorer import BLOCK, Scorer
from elmgrove.detector.single import single_model
from elmgrove.detector.thresholds import FalseAlarmRate, Threshold
from elmgrove.detector.windows import choose_window
from elmgrove.errors import require_whole

# Products of fewer numbers are never spread over threads.
_SMALL = 4096


class Learner(Scorer):
    """Scores rows, and learns those that are known to be normal; ``Detector`` also decides.

    Every row is scored before it is learned, and counted: that is what a threshold is made of.
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
        dtype: Any = np.float64,
        threshold: Threshold | None = None,
        alarm: AlarmRule | None = None,
        warmup: int | None = None,
        quarantine: int = 256,
        promote_after: int | None = None,
        increment: float = HOUR,
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
        settings = {"ridge": ridge, "forgetting": forgetting, "dtype": dtype}
        self.model: Model = (
            single_model(basis, **settings)
            if patterns is None
            else Mixture(basis, patterns, **settings)
        )
        self.gate = Gate(
            basis,
            self.model.dtype,
            threshold,
            warmup,
            self._rows_known,
            self._left_out,
        )
        #: Strange rows that belong together: the open event, and the last ones that ended.
        self.events = Events(alarm or AlarmRule())
        #: What was learned, hour by hour, so that an hour can be taken out again.
        self.increments = Increments(self.model, increment)
        #: Rows that were learned and taken out again.
        self.taken = 0
        self.quarantine = Quarantine(basis.inputs, quarantine, promote_after)
        self.preparation = Preparation(basis, self.model.dtype)
        #: What is normal for others.
        self.elsewhere = Elsewhere(basis, ())
        #: What others lend: how readings move together.
        self.loan: Moments | None = None
        #: What finds out whether rows become others, for good; None where nobody asked for it.
        self.drift: DriftWatch | None = None
        #: What somebody said of anomalous rows, and what undoes the last of it.
        self.answers = Answers()
        # For a small matrix even asking for one thread takes longer than the product.
        large = layer.units * basis.inputs > _SMALL
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
        """Takes note that the next row does not follow the last one: the window begins again."""
        self.preparation.restart()

    def forget_undo(self) -> None:
        """Lets the last answer be one that can't be undone any more."""
        self.answers.undoable = None
        self.increments.pins.pop("answer", None)

    def _left_out(self, rows: Array) -> Array:
        return self.model.left_out(rows)

    def _rows_known(self) -> float:
        received = self.model.received
        return self.learned - self.taken + (0.0 if received is None else received.count)
