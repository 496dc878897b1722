"""The event that is open, as it grows: its rows, its strongest ones, and what was told of it."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from elmgrove.detector.alarm import Mark
from elmgrove.detector.news import Event, causes_from, require_numbers
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.detector.when import When
from elmgrove.errors import require_whole

#: The strongest rows of an event, whose causes are the event's; and causes that are kept of each.
STRONGEST, CAUSES = 8, 8
#: Other devices that are counted as knowing rows of an event.
KNOWING = 20
#: An event is worse, and told again, where scores are more than so many times the peak last told.
WORSE = 4.0

Explain = Callable[[Verdict, int], list[Cause]]


class Strong(NamedTuple):
    """A row that is among the strongest of its event."""

    score: float
    threshold: float
    when: When
    causes: tuple[Cause, ...]


@dataclass
class Running:
    """The event that is open, as it grows."""

    number: int
    begin: When
    #: The last row at which there was an alarm's worth of strange rows.
    last: int
    last_at: When
    rows: int = 0
    #: Strange rows since then, and the strongest of them: they count once there is another.
    loose: int = 0
    strong: list[Strong] = field(default_factory=list)
    changing: bool = False
    strongest: list[Strong] = field(default_factory=list)
    #: The peak that was last told, and the score that a row must exceed to be one of the strongest:
    #: 0, or, once it got worse, that by which it did.
    told: float = 0.0
    floor: float = 0.0
    #: Rows learned before it began, and up to the last row that prolonged it.
    after: int = 0
    until: int = 0
    #: What somebody said it was, and who and when; '' as long as nobody has.
    answered: str = ""
    #: For each other device, at how many of the rows it would have been normal.
    known: dict[str, int] = field(default_factory=dict)

    def add(self, mark: Mark, explain: Explain) -> None:
        """Counts a strange row, and explains it if it is among the strongest."""
        self.loose += 1
        verdict = mark.verdict
        if verdict is None:
            return
        for name in verdict.known:
            if name in self.known or len(self.known) < KNOWING:
                self.known[name] = self.known.get(name, 0) + 1
        score = _number(verdict.score)
        if score <= self.floor or (
            len(self.strongest) == STRONGEST and score <= self.strongest[-1].score
        ):
            return
        if len(self.strong) == STRONGEST and score <= self.strong[-1].score:
            return
        causes = tuple(explain(verdict, CAUSES))
        strong = Strong(score, verdict.threshold, mark.when, causes)
        self.strong = _strongest([*self.strong, strong])

    def confirm(self, mark: Mark) -> None:
        """Takes the strange rows up to this one as part of the event."""
        self.rows, self.loose = self.rows + self.loose, 0
        if self.strong:
            self.strongest, self.strong = _strongest([*self.strongest, *self.strong]), []
        self.last, self.last_at, self.until = mark.row, mark.when, mark.learned

    def is_worse(self, marks: Iterable[Mark]) -> bool:
        """Says whether all of these rows are far stronger than the peak that was last told."""
        least = WORSE * self.told
        return all(
            mark.verdict is not None and _number(mark.verdict.score) > least for mark in marks
        )

    def tell(self) -> Event:
        """Gives the event to tell somebody, who knows its peak from then on."""
        event = self.event()
        self.told = event.peak
        return event

    def tell_worse(self) -> Event:
        """Gives the event to tell again, as the rows show it by which it is worse."""
        self.floor = WORSE * self.told
        self.strongest = [strong for strong in self.strongest if strong.score > self.floor]
        return self.tell()

    def event(self, end: When | None = None) -> Event:
        """Gives the event as it is known by now."""
        peak = self.strongest[0] if self.strongest else Strong(0.0, 0.0, self.begin, ())
        return Event(
            self.number,
            self.begin,
            end,
            peak.score,
            peak.when,
            peak.threshold,
            self.rows,
            self._causes(),
            self.changing,
            self.answered,
            self._known(),
        )

    def _known(self) -> tuple[str, ...]:
        """Those at whom more than half of the rows would have been normal, most rows first."""
        half = (self.rows + self.loose) / 2
        order = sorted(self.known, key=lambda name: -self.known[name])
        return tuple(name for name in order if self.known[name] > half)

    def _causes(self) -> tuple[Cause, ...]:
        shares, seen = dict[str, float](), dict[str, Cause]()
        for strong in self.strongest:
            for cause in strong.causes:
                shares[cause.feature] = shares.get(cause.feature, 0.0) + cause.share
                # That of the strongest row which has it.
                seen.setdefault(cause.feature, cause)
        order = sorted(shares, key=lambda feature: -shares[feature])
        # What each sensor has to do with a row overlaps: together it is the whole at most.
        whole = max(float(len(self.strongest)), sum(shares.values()))
        return tuple(seen[name]._replace(share=shares[name] / whole) for name in order[:CAUSES])


def _number(score: float) -> float:
    """A score as JSON holds it, which knows no infinity; one that is no number is the largest."""
    return score if score < sys.float_info.max else sys.float_info.max


def _strongest(strong: list[Strong]) -> list[Strong]:
    return sorted(strong, key=lambda one: -one.score)[:STRONGEST]


# On disk


def running_from(fields: Mapping[str, Any]) -> Running:
    """Makes an open event of its own fields, as JSON holds them; ``BadInput`` if they are none."""
    require_numbers(fields)
    rows = {name: _strong_from(fields.get(name, ())) for name in ("strong", "strongest")}
    for name, count in fields["known"].items():
        require_whole(f"rows known at {name}", count, 1)
    return Running(**{**fields, **rows})


def _strong_from(known: Sequence[Sequence[Any]]) -> list[Strong]:
    strong = list[Strong]()
    for score, threshold, when, causes in known:
        require_numbers({"score": score, "threshold": threshold, "when": when})
        strong.append(Strong(score, threshold, when, causes_from(causes)))
    return strong
