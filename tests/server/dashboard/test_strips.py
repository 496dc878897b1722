"""Strips: events as a picture and in words, however many there are and wherever they lie."""

import re

from hypothesis import given
from hypothesis import strategies as st

from elmgrove.server.dashboard.fleet_page import Strip, strips
from elmgrove.server.dashboard.rendering import TimeRange
from elmgrove.server.store.reports import StoredEvent

#: A minute a step.
SPAN = TimeRange(6000.0, 6000.0 + 60.0 * 144, ("now-144m", "now"))


def event(begin: float, ended: float | None, device: str = "fan") -> StoredEvent:
    return StoredEvent(device, 1, begin, ended, 8.25, {})


def drawn(path: str) -> list[tuple[int, int]]:
    """Where each rectangle of a path begins and ends; that it is one is checked."""
    found = re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)h-(\d+)z", path)
    assert "".join("M{} {}h{}v{}h-{}z".format(*one) for one in found) == path
    assert all(
        width == back and (int(y), int(high)) in ((4, 12), (0, 20))
        for _, y, width, high, back in found
    )
    return [(int(x), int(x) + int(width)) for x, _, width, _, _ in found]


def test_an_event_is_where_it_was_and_an_open_one_reaches_the_end() -> None:
    assert Strip.of([], SPAN) == Strip("", "", "No events")
    strip = Strip.of([event(6000.0 + 140 * 60, None), event(6600.0, 6720.0)], SPAN)
    assert drawn(strip.ended) == [(10, 13)]
    assert drawn(strip.open) == [(140, 144)]
    assert strip.words == (
        "2 events: since 1970-01-01 04:00 UTC and not over, worst score 8.25; "
        "1970-01-01 01:50 to 1970-01-01 01:52 UTC, worst score 8.25"
    )


def test_a_short_event_is_seen_and_one_beyond_the_ends_is_cut() -> None:
    assert drawn(Strip.of([event(6061.0, 6061.5)], SPAN).ended) == [(1, 2)]
    assert drawn(Strip.of([event(0.0, 1e9)], SPAN).ended) == [(0, 144)]
    assert drawn(Strip.of([event(1e9, None)], SPAN).open) == [(144 - 1, 144)]


def test_many_are_counted_and_few_told() -> None:
    words = Strip.of([event(7000.0 + n, 7000.5 + n) for n in range(40)], SPAN).words
    assert words.startswith("40 events: ")
    assert words.endswith("; and 35 before these")
    assert len(words) < 500


def test_each_device_has_its_own() -> None:
    found = strips([event(6061.0, 6062.0, "a"), event(6121.0, 6122.0, "b")], SPAN)
    assert {name: drawn(strip.ended) for name, strip in found.items()} == {
        "a": [(1, 2)],
        "b": [(2, 3)],
    }


times = st.floats(-1e10, 1e10, allow_nan=False)


@given(st.lists(st.tuples(times, st.none() | times), max_size=30))
def test_whatever_devices_say_the_picture_is_small_and_inside(
    stated: list[tuple[float, float | None]],
) -> None:
    strip = Strip.of([event(begin, ended) for begin, ended in stated], SPAN)
    for path in (strip.ended, strip.open):
        for start, end in drawn(path):
            assert 0 <= start < end <= 144
    ended = {step for start, end in drawn(strip.ended) for step in range(start, end)}
    lasting = {step for start, end in drawn(strip.open) for step in range(start, end)}
    assert not ended & lasting
