"""Ranges of time in a page's address."""

import time
from urllib.parse import urlencode

import pytest
from starlette.requests import Request

from elmgrove.errors import Problem
from elmgrove.server.dashboard.rendering import TimeRange


def asked(**query: str) -> TimeRange:
    scope = {"type": "http", "query_string": urlencode(query).encode(), "headers": []}
    return TimeRange.of(Request(scope))


def test_without_one_it_is_the_last_day_and_moves_on() -> None:
    span = asked()
    assert span.end == pytest.approx(time.time(), abs=60)
    assert span.end - span.begin == pytest.approx(86_400, abs=1e-3)
    assert span.is_moving
    assert span.query == {"from": "now-24h", "to": "now"}
    again = asked(**span.fixed)
    assert not again.is_moving
    assert again.begin == pytest.approx(span.begin, abs=1.0)
    assert again.fixed == again.query == span.fixed


@pytest.mark.parametrize(
    ("begin", "end", "seconds"),
    [
        ("now-90m", "now", 5400),
        ("now-7d", "now-1d", 6 * 86_400),
        ("2026-11-17T06:00:00Z", "2026-11-17T09:00:00+01:00", 7200),
        ("2026-11-17T06:00Z", "2026-11-18T06:00Z", 86_400),
    ],
)
def test_it_is_said_from_now_on_backwards_or_in_iso_8601(
    begin: str, end: str, seconds: float
) -> None:
    span = asked(**{"from": begin, "to": end})
    assert span.end - span.begin == pytest.approx(seconds, abs=1e-3)


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("yesterday", "now"),
        ("now-24", "now"),
        ("now-99999h", "now"),
        ("now+1h", "now"),
        ("now-1h", "<script>"),
        ("2026-11-17T06:00:00", "now"),
        ("now", "now"),
        ("now", "now-1h"),
        ("now-1h", "9999-12-31T23:59:59Z"),
        ("0001-01-01T00:00:00+23:59", "now"),
        ("0001-01-01T00:00:00Z", "0001-06-01T00:00:00Z"),
        ("x" * 10_000, "now"),
    ],
)
def test_what_is_no_range_is_refused_in_a_line(begin: str, end: str) -> None:
    with pytest.raises(Problem, match=r"from|to") as refusal:
        asked(**{"from": begin, "to": end})
    assert refusal.value.kind == "malformed"
    assert len(str(refusal.value)) < 200
