"""Drift as it is told: a spike, a lasting change or a slow drift, in words and as fields."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from elmgrove.detector.news import normal_at
from elmgrove.detector.when import json_when

#: A few rows were strange, and then rows were normal again.
SPIKE = "spike"
#: Rows are others than before, for good, since one moment.
CHANGE = "change"
#: Rows move away slowly.
SLOW = "drift"
#: Far more rows are anomalous than stated, one by one, and the threshold follows.
SCATTERED = "scattered"
# Of what is so many deviations from 0, or more, a change is told in per cent.
_FROM_ZERO = 3.0
_QUESTION, _COMMANDS = "a new normal or a fault?", " accept or reject"
_FOLLOWS = "the threshold follows, {:.3g} → {:.3g}; if it was a fault, reject"
_STAYS = "far above the threshold, which stays"
_REGIME = "if it is no fault, relearn, or accept it as a new normal"


class Shift(NamedTuple):
    """What a sensor did: where it should be by what was learned and by the others, and where it is.

    ``size`` is how far it moved, or how much more it varies, in units of what is usual given the
    others. ``percent`` is None where 0 is no natural zero. ``varied`` and ``varies`` are its
    deviations; ``by_spread`` says that they are what changed. ``per_hour`` (or ``per_row``) is its
    pace, where it moves slowly.
    """

    sensor: str
    before: float
    after: float
    percent: float | None
    size: float
    varied: float
    varies: float
    by_spread: bool = False
    per_hour: float | None = None
    per_row: float | None = None

    def __str__(self) -> str:
        digits = _digits(self.varies - self.varied if self.by_spread else self.after - self.before)
        if self.by_spread:
            told = f"({self.varied:.{digits}f} → {self.varies:.{digits}f})"
            if 2.0 * self.varies < self.varied:
                return f"{self.sensor} hardly varies {told}"
            if self.varies < 1.5 * self.varied:
                far = f"{self.size:.1f} times as far as usual"
                return f"{self.sensor} is {far} from what the others say"
            return f"{self.sensor} varies {self.varies / self.varied:.1f} times as much {told}"
        off, told = (
            self.after - self.before,
            f"({self.before:.{digits}f} → {self.after:.{digits}f})",
        )
        size = f"{abs(off):.{digits}f}" if self.percent is None else f"{abs(self.percent):.0f} %"
        return f"{self.sensor} is {size} {'higher' if off > 0.0 else 'lower'} {told}"

    @property
    def moving(self) -> str:
        """What a sensor does that moves slowly, without since when."""
        return f"{self.sensor} has been {'rising' if self._pace > 0.0 else 'falling'}"

    @property
    def pace(self) -> str:
        """How fast it moves."""
        if self.per_hour is not None:
            return f"{_signed(self.per_hour)} an hour"
        return f"{_signed(1000.0 * self._pace)} in 1,000 rows"

    @property
    def _pace(self) -> float:
        return self.per_row or 0.0


class Relation(NamedTuple):
    """A sensor that followed another one, and does no longer."""

    sensor: str
    other: str

    def __str__(self) -> str:
        return f"{self.sensor} no longer follows {self.other}"


@dataclass(frozen=True)
class Drift:
    """What a watch found: its ``kind``, since when, what changed, and the share of strange rows.

    ``since`` and ``until`` are times (seconds since 1970, UTC), or None where none was told;
    ``rows`` counts the rows since then, and ``place`` says in words where that is in a file.
    ``whole`` says that these are all rows that were looked at. ``raised`` has the threshold before
    and after it followed scattered rows. ``known`` names others at whom most
    rows of the event would have been normal.

    >>> flow = Shift("flow", 31.2, 25.0, -19.9, 8.0, 0.5, 0.5)
    >>> print(Drift("change", 51600.0, 52800.0, 120, 0.96, (flow,), (Relation("temp", "load"),)))
    since 14:20 flow is 20 % lower (31.2 → 25.0); temp no longer follows load; 96 % of rows are \
strange: a new normal or a fault? accept or reject
    """

    kind: str
    since: float | None
    until: float | None
    rows: int
    strange: float
    sensors: tuple[Shift, ...] = ()
    relations: tuple[Relation, ...] = ()
    place: str = ""
    whole: bool = False
    raised: tuple[float, float] | None = None
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind == SPIKE:
            many = round(self.strange * self.rows)
            at = "" if self.since is None else f" at {clock(self.since, self.until)}"
            return f"a spike{at}: {many} rows were strange, then normal again"
        if self.raised is not None:
            before, after = self.raised
            share = f"{100.0 * self.strange:.1f} % of rows are strange, one by one"
            what = _FOLLOWS.format(before, after) if after > 1.1 * before else _STAYS
            return f"{self._since} {share}: {what}"
        what = "; ".join([self._moved, *map(str, self.relations)])
        known = f" ({normal_at(self.known)})" if self.known else ""
        asked = f"{_REGIME}{known}" if self.whole else f"{_QUESTION}{known}{_COMMANDS}"
        return f"{what}; {100.0 * self.strange:.0f} % of rows are strange: {asked}"

    @property
    def _moved(self) -> str:
        """What the sensors did, and since when."""
        since = self._since
        if self.kind == SLOW and self.sensors:
            first, *others = self.sensors
            also = "".join(f"; {one.moving}: {one.pace}" for one in others)
            return f"{first.moving} {since}: {first.pace}{also}"
        told = ", ".join(map(str, self.sensors))
        if not self.sensors:
            told = "no sensor alone is different, but how they move together"
        if self.whole:
            return f"a fault, or another regime, from the first row on: {told}"
        return f"{since} {told}"

    @property
    def _since(self) -> str:
        if self.since is not None:
            return f"since {clock(self.since, self.until)}"
        return self.place or f"for {self.rows:,} rows"

    @property
    def fields(self) -> dict[str, Any]:
        """What there is to tell, as JSON holds it; times in ISO 8601."""
        return {
            "kind": self.kind,
            "since": None if self.since is None else json_when(self.since),
            "until": None if self.until is None else json_when(self.until),
            "rows": self.rows,
            "strange": self.strange,
            "known": list(self.known),
            "sensors": [shift._asdict() for shift in self.sensors],
            "relations": [relation._asdict() for relation in self.relations],
        }


def percent_of(before: float, after: float, deviation: float) -> float | None:
    """Computes a change in per cent; None where the value is too near to 0 for that."""
    if not abs(before) > _FROM_ZERO * deviation:
        return None
    return 100.0 * (after - before) / abs(before)


def clock(time: float, now: float | None) -> str:
    """Says when it was (UTC): the time of the day, with the day where that is another one.

    >>> clock(1714573200.0, 1714580000.0), clock(1714573200.0, None)
    ('14:20', '2024-05-01 14:20')
    """
    told = str(json_when(float(time)))
    today = now is not None and str(json_when(float(now)))[:10] == told[:10]
    # A time that no calendar has is told as it is.
    return told if "T" not in told else told[11:16] if today else told[:16].replace("T", " ")


def _digits(change: float) -> int:
    """The digits after the point that show a change to two figures."""
    if not 0.0 < abs(change) < math.inf:
        return 1
    return min(max(1 - math.floor(math.log10(abs(change))), 0), 9)


def _signed(value: float) -> str:
    return f"{value:+.{_digits(value)}f}"
