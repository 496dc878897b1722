"""The rate test: whether counting has shown that the stated rate of false alarms holds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput

#: The state of a detector that raises no alarms yet: counting has not shown its rate.
LEARNING = "learning"
#: The state of a detector whose stated rate was shown by counting; it raises alarms.
WATCHING = "watching"
#: The state of a detector that finds far more rows anomalous than stated, for long.
CHANGING = "changing"

# So many times the stated rate is not the stated rate.
_TIMES = 5.0
# This many anomalous rows more than the rate explains are no chance.
_LASTING = 12.0
# Where no more than this share of rows is anomalous, they come one by one.
_SCATTERED = 0.2
# What is saved of them.
_COUNTERS = (
    "state",
    "rows",
    "flagged",
    "bursts",
    "test_rows",
    "test_flagged",
    "test_bursts",
    "calm",
    "excess",
    "excess_rows",
    "excess_flagged",
    "restarts",
    "taught",
)
# While nothing is anomalous, the test looks every so many rows.
_TEST_EVERY = 8
# The normal distribution's 97.5 % quantile.
_BAND = 1.96


class Flagged(NamedTuple):
    """Rows judged since counting began, those above the threshold, and how these came.

    ``bursts`` counts anomalous rows that came together as one: neighbours are anomalous for one
    cause.
    """

    rows: int
    flagged: int
    bursts: int
    window: int

    @property
    def share(self) -> float:
        """The share of rows above the threshold."""
        return self.flagged / self.rows if self.rows else 0.0

    @property
    def length(self) -> float:
        """How many anomalous rows come together, with a burst of a third of a window taken as seen.

        At most a window: beyond that they share no row.
        """
        met = (self.flagged + (self.window + 2) / 3.0) / (self.bursts + 1.0)
        return min(met, self.window)

    @property
    def band(self) -> tuple[float, float]:
        """The range in which the true share lies with 95 % confidence (Wilson's interval).

        Anomalous rows come in bursts, so there are as many independent rows as bursts would fill.
        """
        n = self.rows / self.length
        if n == 0.0:
            return 0.0, 1.0
        centre = (self.share + _BAND**2 / (2.0 * n)) / (1.0 + _BAND**2 / n)
        spread = math.sqrt(self.share * (1.0 - self.share) / n + (_BAND / (2.0 * n)) ** 2)
        half = _BAND * spread / (1.0 + _BAND**2 / n)
        return max(centre - half, 0.0), min(centre + half, 1.0)


@dataclass
class RateTest:
    """Counts rows above the threshold, each judged before it is learned, and tells the state.

    Wald's sequential test decides between the stated rate and five times it. While ``learning``
    it begins again whenever the five times is shown: the machine is still changing. It becomes
    ``watching`` when the stated rate is, to the ``confidence`` asked for, or at once by rows that
    are known to be normal (``teach``). It never goes back because of anomalous rows: twelve
    more of them than the rate explains are an excess that lasts, and mean ``changing`` until the
    stated rate is shown once more. Rows that are anomalous one by one, few among many, are an
    ``excess`` of their own kind: the threshold is to follow them (``AlarmGate``). Anomalous rows
    that come together count as few: windows share rows, and causes last.
    """

    rate: float | None
    confidence: float
    window: int
    state: str = LEARNING
    #: What was counted since the state is what it is, and since the test last began.
    rows: int = 0
    flagged: int = 0
    bursts: int = 0
    test_rows: int = 0
    test_flagged: int = 0
    test_bursts: int = 0
    #: Rows since the last that was above the threshold.
    calm: int = 0
    #: Anomalous rows beyond what the rate explains, while watching.
    excess: float = 0.0
    #: The rows since there was no excess, and those above the threshold among them.
    excess_rows: int = 0
    excess_flagged: int = 0
    #: How often the test showed that the machine is still changing.
    restarts: int = 0
    #: Rows learned that were known to be normal.
    taught: int = 0

    def __post_init__(self) -> None:
        self._weigh()
        if self.state == LEARNING:
            self.state = self._first

    def _weigh(self) -> None:
        # Where nothing need be shown, it watches from the start.
        self._first = LEARNING if self.confidence > 0.0 else WATCHING
        rate = 0.01 if self.rate is None else self.rate
        more = min(_TIMES * rate, 0.5 * (1.0 + rate))
        #: What an anomalous row says for five times the rate, and any other against it.
        self._gain = math.log(more / rate)
        self._cost = math.log((1.0 - rate) / (1.0 - more))
        self._relief = -self._cost / self._gain
        self._bound = math.log(max(self.confidence, 0.5) / (1.0 - max(self.confidence, 0.5)))
        # Rows in which three anomalous ones are to be expected, and that could have shown the rate.
        needed = self._tested.length * self._bound / self._cost
        self._patience = math.ceil(max(3.0 / rate, needed))

    def teach(self, rows: int) -> None:
        """Counts rows that are known to be normal: the rate need not be earned on others."""
        self.taught += rows
        if self.state == LEARNING:
            self._begin(WATCHING)

    def count(self, anomalous: bool) -> None:
        """Counts one judged row."""
        if anomalous:
            self._count_anomalous()
        else:
            self._count_calm(1)

    def count_many(self, anomalous: NDArray[np.bool_]) -> None:
        """Counts judged rows, as ``count`` counts one."""
        done = 0
        for place in np.flatnonzero(anomalous).tolist():
            self._count_calm(place - done)
            self._count_anomalous()
            done = place + 1
        self._count_calm(len(anomalous) - done)

    @property
    def lasting(self) -> bool:
        """Whether more rows are anomalous than chance explains, while watching."""
        return self.state == WATCHING and self.excess >= _LASTING

    @property
    def undecided(self) -> bool:
        """Whether the test has gone on for long, while learning, and has shown nothing."""
        return self.state == LEARNING and self._patience <= self.test_rows

    @property
    def scattered(self) -> bool:
        """Whether the anomalous rows of an excess came one by one, among many others."""
        return self.excess_flagged <= _SCATTERED * self.excess_rows

    def change(self) -> None:
        """Takes an excess that lasts for a change."""
        self._begin(CHANGING)

    def settle(self) -> None:
        """Forgets an excess: the threshold has followed it."""
        self._begin(WATCHING)

    def _count_anomalous(self) -> None:
        self._advance(1)
        self.flagged += 1
        self.test_flagged += 1
        if self.calm >= self.window or self.test_flagged == 1:
            self.bursts += 1
            self.test_bursts += 1
        self.calm = 0
        if self.rate is None:
            # No rate was stated, so nothing is to be shown.
            return
        if self.state != WATCHING:
            self._test()
            return
        self.excess += 1.0 / self.seen.length
        self.excess_rows += 1
        self.excess_flagged += 1

    def _count_calm(self, rows: int) -> None:
        """Counts rows that are not anomalous, few by few only where one of them may decide."""
        while rows and self.rate is not None and self.state != WATCHING:
            step = min(_TEST_EVERY - self.test_rows % _TEST_EVERY, rows)
            rows -= step
            self._advance(step)
            self.calm += step
            if self.test_rows % _TEST_EVERY == 0:
                self._test()
        self._advance(rows)
        self.calm += rows
        if rows and self.excess > 0.0:
            relief = self._relief / self.seen.length
            # Nothing is less than no excess.
            while rows and self.excess > 0.0:
                self.excess = max(self.excess + relief, 0.0)
                self.excess_rows += 1
                rows -= 1
            if self.excess == 0.0:
                self.excess_rows = self.excess_flagged = 0

    def _advance(self, rows: int) -> None:
        self.rows += rows
        self.test_rows += rows

    @property
    def seen(self) -> Flagged:
        """The count since the state is what it is."""
        return Flagged(self.rows, self.flagged, self.bursts, self.window)

    @property
    def _tested(self) -> Flagged:
        return Flagged(self.test_rows, self.test_flagged, self.test_bursts, self.window)

    @property
    def missing(self) -> int:
        """Rows without an anomalous one that would show the stated rate; 0 once it is shown."""
        if self.state == WATCHING:
            return 0
        needed = math.ceil((self._bound * self._tested.length + self._evidence) / self._cost)
        if self.state == LEARNING:
            needed = min(needed, self._patience - self.test_rows)
        return max(needed, 1)

    def restate(self, rate: float | None, confidence: float) -> None:
        """Goes on with another rate or confidence.

        What it has shown is not taken back, so it goes on watching; unless nothing needed to be
        shown before, and now it does. With another rate counting begins again.
        """
        unshown = self.confidence == 0.0 < confidence
        counted = rate == self.rate
        self.rate, self.confidence = rate, confidence
        self._weigh()
        state = self.state
        if rate is None or state == LEARNING or (unshown and state == WATCHING):
            state = self._first
        if state != self.state or not counted:
            self._begin(state)
            self.rows = self.flagged = self.bursts = 0

    def doubt(self) -> None:
        """Takes back that the rate was shown: rows known to be normal have shown another."""
        self._begin(self._first)

    def accept(self) -> None:
        """Goes on watching after a change: what was anomalous is normal now."""
        self._begin(WATCHING)

    @property
    def _evidence(self) -> float:
        """The log likelihood ratio for five times the rate, as if rows were independent."""
        return self.test_flagged * self._gain - (self.test_rows - self.test_flagged) * self._cost

    def _test(self) -> None:
        ratio = self._evidence / self._tested.length
        if ratio <= -self._bound:
            self._begin(WATCHING)
        elif ratio >= self._bound:
            self.restarts += 1
            self._begin(self.state)

    def _begin(self, state: str) -> None:
        """Begins the test again, and with another state the count as well."""
        if state != self.state:
            self.rows = self.flagged = self.bursts = 0
        self.state = state
        self.test_rows = self.test_flagged = self.test_bursts = self.calm = 0
        self.excess = 0.0
        self.excess_rows = self.excess_flagged = 0

    # On disk

    @property
    def fields(self) -> dict[str, Any]:
        """Its counters, as JSON holds them; the rate goes with the threshold."""
        return {"progress": {name: getattr(self, name) for name in _COUNTERS}}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Goes on from ``fields``."""
        known = fields["progress"]
        if set(known) != set(_COUNTERS):
            raise BadInput(f"progress has {', '.join(_COUNTERS)}, not {', '.join(known)}")
        if known["state"] not in (LEARNING, WATCHING, CHANGING):
            raise BadInput(f"no state is called {known['state']!r}")
        for name, value in known.items():
            if name != "state" and not (isinstance(value, (int, float)) and value >= 0):
                raise BadInput(f"progress: {name} can't be {value!r}")
            setattr(self, name, value)
