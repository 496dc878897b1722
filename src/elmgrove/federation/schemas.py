"""Messages: what devices and servers tell each other as JSON, declared once for both sides."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from elmgrove.errors import BadInput

#: Minutes of one report.
MOST_MINUTES = 1440
#: Events of one report: the open one, and the last that ended.
MOST_EVENTS = 21
#: Rows of the quarantine in one report.
MOST_WAITING = 50
#: Devices that contributed, in one report.
MOST_CONTRIBUTORS = 50
#: Outcomes of one report.
MOST_RESULTS = 20

# JSON has 63 bits in data bases, and no infinity.
_HIGHEST, _LARGEST = 2**63 - 1, 1.7976931348623157e308
_PRINTABLE = r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029]+\Z"
Count = Annotated[int, Meta(ge=0, le=_HIGHEST)]
Number = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]
Positive = Annotated[float, Meta(ge=0.0, le=_LARGEST)]
#: Seconds since 1970, in years that a calendar has.
Moment = Annotated[float, Meta(ge=-6.2e10, le=2.5e11)]
#: The number of a row, or a time in ISO 8601 with its zone.
When = Count | Annotated[datetime, Meta(tz=True)]
Id = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]
Name = Annotated[str, Meta(max_length=200, pattern=_PRINTABLE)]
Text = Annotated[str, Meta(max_length=1000)]


class Cause(Struct, forbid_unknown_fields=True):
    """A column behind an event; what was seen is None where a device keeps readings to itself."""

    feature: Text
    share: Number | None
    seen: Number | None
    expected: Number | None
    ago: Count


class Event(Struct, forbid_unknown_fields=True):
    """An event of a device, with its sentence."""

    number: Count
    begin: When
    end: When | None
    peak_at: When
    peak: Number
    threshold: Number
    rows: Count
    changing: bool
    answered: Annotated[str, Meta(max_length=400)] | None
    known: Annotated[list[Text], Meta(max_length=20)]
    causes: Annotated[list[Cause], Meta(max_length=20)]
    text: Annotated[str, Meta(max_length=4000)]


class OpenEvent(Struct):
    number: Count | None = None


class Question(Struct):
    """What a device asks where what is normal has changed."""

    text: Text = ""
    since: Text | Count | None = None


class GivenAnswer(Struct):
    action: Text
    event: Count | None = None
    text: Text = ""


class Flagged(Struct):
    share: Number | None = None


class LastSync(Struct):
    said: Text = ""


class Status(Struct):
    """What a server looks at of a device's status, which has more."""

    state: Literal["learning", "watching", "changing"]
    learned: Count
    event: OpenEvent | None
    drift: Question | None
    version: Annotated[str, Meta(max_length=64, pattern=_PRINTABLE)]
    sync_seconds: Annotated[float, Meta(ge=0.0, le=3.2e9)] | None
    since: Text | None = None
    patterns: Text | None = None
    rows_missing: Count = 0
    threshold: Number | None = None
    rate: Number | None = None
    flagged: Flagged = msgspec.field(default_factory=Flagged)
    unlike: Text | None = None
    uses: Text | None = None
    sync: LastSync | None = None
    quarantine: Count | None = None
    # A clock may be in no calendar.
    last_row: Text | Count | None = None
    answers: list[GivenAnswer] = []
    undoable: bool = False


class WaitingRow(Struct):
    """A row of the quarantine."""

    time: Number | None
    score: Number | None
    values: dict[Text, Number | None]


class Cooperation(Struct, forbid_unknown_fields=True):
    """What the last sync that changed the model changed."""

    time: Moment
    before: Positive | None
    after: Positive | None
    others: Count
    borrowed_rows: Positive | None
    share: Annotated[float, Meta(ge=0.0, le=1.0)] | None
    contributors: Annotated[list[Name], Meta(max_length=MOST_CONTRIBUTORS)]


class Result(Struct, forbid_unknown_fields=True):
    """What a device said after a command."""

    command: Id
    time: Moment
    refused: bool
    said: Annotated[list[Text], Meta(max_length=20)]


#: A minute, its counts, the threshold, and four quantiles of its scores, one after another.
MinuteNumbers = tuple[
    # Its end is in the year 9999, too.
    Annotated[int, Meta(ge=0, le=4_223_371_678)],
    Annotated[int, Meta(ge=0, le=10**9)],
    Count,
    Number | None,
    Number,
    Number,
    Number,
    Number,
]


class ReportMessage(Struct, forbid_unknown_fields=True):
    """A report, as it is sent."""

    format: Literal[1]
    device: Name
    time: Moment
    status: Status
    minutes: Annotated[list[MinuteNumbers], Meta(max_length=MOST_MINUTES)]
    events: Annotated[list[Event], Meta(max_length=MOST_EVENTS)]
    cooperation: Cooperation | None
    results: Annotated[list[Result], Meta(max_length=MOST_RESULTS)]
    quarantine: Annotated[list[WaitingRow], Meta(max_length=MOST_WAITING)] | None


class CommandMessage(Struct, forbid_unknown_fields=True):
    """A command, as it is sent."""

    id: Id
    action: Literal["accept", "reject", "undo"]
    words: dict[str, Any]
    asked_by: Annotated[str, Meta(max_length=100, pattern=_PRINTABLE)]
    asked_at: Moment


class Stored(Struct):
    """What a server says of a contribution that it stored."""

    origin: str
    epoch: Count
    revision: Count


def read(kind: Any, stated: Any) -> Any:
    """Reads a message; ``BadInput`` names the path of what is wrong, and what was expected."""
    try:
        return msgspec.convert(stated, kind)
    except (msgspec.ValidationError, OverflowError, UnicodeEncodeError) as error:
        what, _, where = str(error).partition(" - at `")
        raise BadInput(f"{where.rstrip('`') or '$'}: {what[:1].lower()}{what[1:]}") from error


def check(kind: Any, stated: Any, sizes: Mapping[str, int] | None = None) -> None:
    """Raises ``BadInput`` unless any JSON and any data base can hold this message.

    Some of its fields have at most so many bytes as JSON (``sizes``).
    """
    read(kind, stated)
    _require_plain("$", stated, 12)
    for name, most in (sizes or {}).items():
        if (size := json_size(stated[name])) > most:
            raise BadInput(f"$.{name}: expected at most {most} bytes of JSON, got {size}")


def json_size(value: Any) -> int:
    """Counts the bytes that something has as JSON, as it is sent."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _require_plain(path: str, value: Any, depth: int) -> None:
    """Raises ``BadInput`` unless any data base holds it: no NaN, NUL, or halves of letters."""
    if depth == 0:
        raise BadInput(f"{path}: expected no more than 12 objects and lists inside each other")
    if isinstance(value, dict):
        for key, one in value.items():
            _require_plain(f"{path} (a name)", key, depth)
            _require_plain(f"{path}.{key}", one, depth - 1)
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            _require_plain(f"{path}[{place}]", one, depth - 1)
    elif not _is_plain(value):
        raise BadInput(f"{path}: expected what JSON and a data base can hold")


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        try:
            return b"\0" not in value.encode()
        except UnicodeEncodeError:
            return False
    if isinstance(value, float):
        return abs(value) <= _LARGEST
    return value is None or (isinstance(value, int) and -_HIGHEST <= value <= _HIGHEST)
