"""A report is the same after its journey, and what is not one is refused by the field's name."""

import json
import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import BadInput
from elmgrove.detector.events import Event
from elmgrove.detector.verdict import Cause
from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.report import MOST_BYTES_REPORT, Minute, Report, seconds_of
from elmgrove.federation.schemas import MOST_EVENTS, MOST_MINUTES, json_size
from support.reports import cooperation, event, minute, report, status

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=50)
LEAVES = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | FINITE | TEXTS
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=8)
NAMES = st.text("abcøxyz-09", min_size=1, max_size=50)


@st.composite
def minutes(draw: st.DrawFn) -> Minute:
    rows = draw(st.integers(0, 10**9))
    scores = sorted(draw(st.lists(FINITE, min_size=4, max_size=4)))
    return Minute(
        draw(st.integers(0, 2**31)),
        rows,
        draw(st.integers(0, rows)),
        draw(st.none() | FINITE),
        (scores[0], scores[1], scores[2], scores[3]),
    )


NUMBERS = st.none() | FINITE
WAITING_ROWS = st.fixed_dictionaries(
    {"time": NUMBERS, "score": NUMBERS, "values": st.dictionaries(TEXTS, NUMBERS, max_size=2)},
    optional={"more": JSON},
)
OUTCOMES = st.builds(
    CommandResult,
    st.text("abc-_09", min_size=1, max_size=64),
    st.floats(0, 2e9),
    st.booleans(),
    st.lists(TEXTS, max_size=3).map(tuple),
)
REPORTS = st.builds(
    Report,
    NAMES,
    st.floats(0, 2e9),
    st.builds(
        lambda state, learned, more: status(state=state, learned=learned, more=more),
        st.sampled_from(("learning", "watching", "changing")),
        st.integers(0, 2**62),
        JSON,
    ),
    st.lists(minutes(), max_size=5, unique_by=lambda one: one.minute).map(tuple),
    st.lists(st.integers(0, 99), max_size=4, unique=True).map(lambda n: tuple(map(event, n))),
    st.none() | st.just(cooperation()),
    st.lists(OUTCOMES, max_size=3).map(tuple),
    st.none() | st.lists(WAITING_ROWS, max_size=3).map(tuple),
)


@given(REPORTS)
def test_a_report_is_the_same_after_its_journey(made: Report) -> None:
    assert Report.from_fields(json.loads(json.dumps(made.fields, allow_nan=False))) == made


@given(REPORTS, st.data())
def test_whatever_is_put_in_the_place_of_a_field_is_taken_or_refused_in_words(
    made: Report, data: st.DataObject
) -> None:
    """Nothing else is raised, and what is taken is JSON that comes back the same."""
    fields = json.loads(json.dumps(made.fields))
    wrong = JSON | st.floats() | st.integers() | st.text(max_size=4) | st.just(["\ud800"])
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] = data.draw(wrong)
    with suppress(BadInput):
        taken = Report.from_fields(fields)
        json.dumps(taken.fields, allow_nan=False).encode()
        assert Report.from_fields(taken.fields) == taken


def test_what_an_event_tells_of_itself_is_an_event_of_a_report() -> None:
    for begin, end in ((1714573200.5, None), (1714573200.0, 1714573300.25), (17, 52)):
        made = Event(3, begin, end, 8.1, begin, 1.0, 31, (Cause("flow", 0.9, 22.0, 31.0),))
        told = {**made.fields, "text": str(made)}
        assert replace(report(), events=(told,)).events == (told,)
        assert seconds_of(told["begin"]) == (None if begin == 17 else begin)


def test_the_largest_report_fits_into_a_request() -> None:
    """Each part as large as it may be, as it is sent."""
    deepest = -1.7976931348623157e308
    long = "ä" * 200
    made = Report(
        long[:200],
        1714573200.123456,
        {**status(), "more": "x" * 32_000},
        tuple(
            Minute(4_223_370_000 + n, 10**9, 10**9, deepest, (deepest,) * 4)
            for n in range(MOST_MINUTES)
        ),
        tuple({**event(n), "text": "x" * 4000} for n in range(MOST_EVENTS)),
        cooperation(contributors=[f"{n}" + "x" * 190 for n in range(50)]),
        tuple(CommandResult(f"{n}", 1.0, False, ("x" * 700,)) for n in range(20)),
        tuple({**WAITING, "more": "x" * 1750} for n in range(50)),
    )
    assert 0.8 * MOST_BYTES_REPORT < json_size(made.fields) < MOST_BYTES_REPORT


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in report().fields.items() if key != name}


DEEP: Any = None
for _ in range(40):
    DEEP = [DEEP]
HUGE = 10**4000
NO_NUMBERS: list[Any] = ["1", True, -1e400, math.nan, HUGE, [], {}]
NO_TIMES: list[Any] = ["soon", True, [], 1e30, HUGE, "x" * 500]
DONE = CommandResult("e-1", 1.0, False, ("done",))
WAITING: dict[str, Any] = {"time": 1.0, "score": 2.0, "values": {"flow": None}}


def each(field: str, *wrong: Any) -> list[tuple[str, Any]]:
    return [(field, one) for one in wrong]


def inside(field: str, name: str, *wrong: Any) -> list[tuple[str, Any]]:
    """A field of a part in the place of that part."""
    part = {"status": status(), "cooperation": cooperation(), "events": event(1)}[field]
    made = [{**part, name: one} for one in wrong]
    return each(field, *([one] if field == "events" else one for one in made))


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *each("device", "", None, 5, "x" * 201, "a\nb", "a\0", "\ud800"),
        *each("time", "now", None, True, math.nan, math.inf, 1e30, HUGE),
        *each("format", 2, "1", True, HUGE),
        *each("status", None, [], {}, status(state="well"), status(state=["x"])),
        *inside("status", "learned", -1, 1.5, True, None, HUGE),
        *inside("status", "event", "open", True, []),
        *inside("status", "version", "", None, "x" * 65),
        *inside("status", "sync_seconds", -1, "1", math.nan),
        *inside("status", "more", DEEP, math.nan, HUGE, "\ud800", "\0"),
        ("status", status(more="x" * 40_000)),
        ("status", status(**{"\ud800": 1})),
        *each("minutes", None, {}, [None], [[]], [[1] * 7], [[1] * 9]),
        ("minutes", [minute(5).fields, minute(5).fields]),
        ("minutes", [minute(n).fields for n in range(MOST_MINUTES + 1)]),
        *(
            ("minutes", [[*minute(5).fields[:place], wrong, *minute(5).fields[place + 1 :]]])
            for place in range(8)
            for wrong in NO_NUMBERS
        ),
        ("minutes", [[5, 10, 11, None, 1, 2, 3, 4]]),
        ("minutes", [[5, 10, 4, None, 1, 2, 1, 4]]),
        *each("events", None, {}, [None], [{}], [event(1), event(1)]),
        ("events", [event(n) for n in range(MOST_EVENTS + 1)]),
        *inside("events", "begin", "soon", None, 1.5, -1, True, []),
        *inside("events", "end", "2024-05-01T14:20:00", "9" * 50),
        *inside("events", "causes", None, [1], [{}], "xx"),
        ("events", [{**event(1), "peak": math.inf}]),
        ("events", [{**event(1), "rows": 1.5}]),
        ("events", [{**event(1), "text": "x" * 5000}]),
        ("events", [{**event(1), "more": 1}]),
        *each("cooperation", [], {}, cooperation(share=1.1)),
        *inside("cooperation", "before", -1, "1", math.nan, True),
        *inside("cooperation", "contributors", "ab", ["x"] * 51, [5]),
        *each("results", None, [None], [{}], [DONE.fields] * 21),
        *each(
            "quarantine", {}, [1], [{}], [WAITING] * 51, [WAITING | {"values": {"flow": math.nan}}]
        ),
        ("quarantine", [WAITING | {"values": {"x": "1"}}]),
        ("quarantine", [WAITING | {"more": "x" * 100_000}]),
        ("unheard", 1),
    ],
)
def test_what_is_no_report_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(BadInput):
        Report.from_fields({**report().fields, field: wrong})


@pytest.mark.parametrize("name", sorted(report().fields))
def test_a_field_that_is_missing_is_named(name: str) -> None:
    with pytest.raises(BadInput, match=name):
        Report.from_fields(without(name))


# Commands

COMMAND = Command("e-1", "accept", {"from": "2024-05-01T14:20:00Z", "to": 1.8e9}, "anna", 1.7e9)


@pytest.mark.parametrize(
    "command",
    [
        COMMAND,
        replace(COMMAND, action="reject", words={}),
        replace(COMMAND, words={"instead": True}),
        replace(COMMAND, words={"event": 3}),
        replace(COMMAND, action="undo", words={}),
    ],
    ids=repr,
)
def test_an_command_is_the_same_after_its_journey(command: Command) -> None:
    assert Command.from_fields(json.loads(json.dumps(command.fields))) == command


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *each("id", "", None, "a b", "x" * 65, "ä"),
        *each("action", "tune", "status", "", None, ["accept"], {}),
        *each("words", None, [], {"rows": [[1]]}, {"instead": 1}, {"instead": None}),
        *each("words", *({"from": one} for one in NO_TIMES)),
        *each("words", {"from": None}, {"event": "3"}, {"event": -1}, {"event": None}),
        *each("asked_by", "", None, "a\n", "x" * 101),
        *each("asked_at", None, "now", math.nan, True, HUGE),
        ("unheard", 1),
    ],
)
def test_what_is_no_command_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(BadInput):
        Command.from_fields({**COMMAND.fields, field: wrong})


def test_what_is_not_normal_is_not_put_in_the_place_of_anything() -> None:
    with pytest.raises(BadInput, match="words of reject are from, to, event"):
        replace(COMMAND, action="reject", words={"instead": True})


@given(OUTCOMES)
def test_an_outcome_is_the_same_after_its_journey(result: CommandResult) -> None:
    assert CommandResult.from_fields(json.loads(json.dumps(result.fields))) == result


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *each("command", "", None, "a b"),
        *each("time", None, math.inf),
        *each("refused", None, 0, "no"),
        *each("said", None, "all of it", [1], ["x"] * 21, ["x" * 1001], ["\ud800"]),
    ],
)
def test_what_is_no_outcome_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(BadInput):
        CommandResult.from_fields({**DONE.fields, field: wrong})
