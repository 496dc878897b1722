"""News of events: what is told of one, when it was, how strong, and because of what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from elmgrove.detector.verdict import Cause
from elmgrove.detector.when import When, json_when, when_text
from elmgrove.errors import BadInput, require_whole

#: Causes of an event that its text names, and devices at which its rows are normal.
TOLD = 3
#: What is told of an event: that it began,
OPENED = "opened"
#: that it is far stranger than was told before,
WORSENED = "worse"
#: or that it is over.
ENDED = "ended"


@dataclass(frozen=True)
class Event:
    """Strange rows that belong together, as they are known by now.

    ``begin``, ``end`` (None while it is open) and ``peak_at`` are times (seconds since 1970, UTC),
    or as whole numbers those of rows, where no time was told. ``peak`` is the highest score, and
    ``threshold`` what it was compared with; ``rows`` counts strange rows. ``causes`` are those of
    the strongest rows: the mean share of each feature, with what the peak shows and what was
    expected there. ``changing`` says that it lasted, and may be a new normal; ``answered`` what
    somebody said it was. ``known`` names others at whom most of its rows would have been
    normal.

    >>> flow = Cause("flow", 0.9, 22.0, 31.0)
    >>> print(Event(3, 17, 52, 8.1, 21, 1.0, 31, (flow,), known=("pump-3",)))
    event 3: row 17 to row 52, 31 rows strange, peak 8.1 × threshold, normal at pump-3; flow 22 \
(not 31)
    """

    number: int
    begin: When
    end: When | None
    peak: float
    peak_at: When
    threshold: float
    rows: int
    causes: tuple[Cause, ...]
    changing: bool = False
    answered: str = ""
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        since = "since " if self.end is None else ""
        answered = f"; answered: {self.answered}" if self.answered else ""
        return f"event {self.number}: {since}{self.span}, {self.facts}{answered}"

    @property
    def span(self) -> str:
        """When it was, in words; while it is open, when it began."""
        begin = when_text(self.begin)
        return begin if self.end is None else f"{begin} to {when_text(self.end)}"

    @property
    def facts(self) -> str:
        """How many rows, how strange, where else that is normal, and because of what, in words."""
        rows = f"{self.rows} row{'s' if self.rows != 1 else ''} strange"
        peak = f", peak {self.peak / self.threshold:.3g} × threshold" if self.threshold else ""
        reasons = ", ".join(map(str, self.causes[:TOLD]))
        told = [f"{rows}{peak}", normal_at(self.known)]
        return ", ".join(filter(None, told)) + (f"; {reasons}" if reasons else "")

    @property
    def fields(self) -> dict[str, Any]:
        """What there is to tell, as JSON holds it; times in ISO 8601, or numbers of rows."""
        return {
            "number": self.number,
            "begin": json_when(self.begin),
            "end": None if self.end is None else json_when(self.end),
            "peak": self.peak,
            "peak_at": json_when(self.peak_at),
            "threshold": self.threshold,
            "rows": self.rows,
            "changing": self.changing,
            "answered": self.answered or None,
            "known": list(self.known),
            "causes": [cause._asdict() for cause in self.causes],
        }


def normal_at(names: Sequence[str]) -> str:
    """Says at whom rows would have been normal; nothing where they would have been at nobody.

    >>> normal_at(["pump-3"]), normal_at(["a", "b", "c", "d", "e"])
    ('normal at pump-3', 'normal at a, b, c and 2 more')
    """
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return f"normal at {', '.join(names[:TOLD])}{more}" if names else ""


class News(NamedTuple):
    """What is new: an event ``opened``, is ``worse`` or ``ended``."""

    kind: str
    event: Event

    def __str__(self) -> str:
        event = self.event
        if self.kind == OPENED:
            return f"event {event.number} opened at {event.span}: {event.facts}"
        if self.kind == WORSENED:
            return f"event {event.number} is worse: since {event.span}, {event.facts}"
        return f"event {event.number} ended: {event.span}, {event.facts}"


# On disk


def event_from(fields: Mapping[str, Any]) -> Event:
    """Makes an event of its own fields, as JSON holds them; ``BadInput`` if they are none."""
    named = {"causes": causes_from(fields["causes"]), "known": names_from(fields["known"])}
    event = Event(**{**fields, **named})
    require_numbers(fields, {"end": event.begin} if event.end is None else {})
    return event


def news_from(kind: str, fields: Mapping[str, Any]) -> News:
    """Makes news of their kind and their event's own fields; ``BadInput`` if they are none."""
    if kind not in (OPENED, WORSENED, ENDED):
        raise BadInput(f"news of an event can't be {kind!r}")
    return News(kind, event_from(fields))


def causes_from(known: Sequence[Sequence[Any]]) -> tuple[Cause, ...]:
    """Makes causes of their values."""
    causes = tuple(Cause(*cause) for cause in known)
    for cause in causes:
        if type(cause.feature) is not str:
            raise BadInput(f"a feature has a name, not {cause.feature!r}")
        require_numbers(cause._asdict())
    return causes


def names_from(known: Sequence[Any]) -> tuple[str, ...]:
    """Makes names of devices of what JSON holds; ``BadInput`` if they are none."""
    if not all(type(name) is str for name in known):
        raise BadInput(f"devices have names, not {known!r:.80}")
    return tuple(known)


def require_numbers(fields: Mapping[str, Any], but: Mapping[str, Any] = {}) -> None:
    """Raises ``BadInput`` unless each field is a number that is fit for it."""
    for name, value in {**fields, **but}.items():
        if name in _NAMED:
            continue
        if name == "answered" and isinstance(value, str):
            continue
        if type(value) not in ((bool,) if name == "changing" else (int, float)):
            raise BadInput(f"{name} can't be {value!r}")
        if name in _WHOLE:
            require_whole(name, value, 0)


# Fields that are no numbers, and those that count.
_NAMED = {"causes", "feature", "known", "strong", "strongest"}
_WHOLE = {"number", "rows", "last", "loose", "ago", "after", "until"}
