"""Times as people write and read them."""

import pytest

from elmgrove.cli.options import moment, shown
from elmgrove.errors import BadInput

#: 2026-05-01, 12:00 UTC.
NOON = 1777636800.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-01T14:20", NOON + 8400),
        ("2026-05-01 14:20:30", NOON + 8430),
        ("2026-05-01T14:20Z", NOON + 8400),
        ("2026-05-01T16:20+02:00", NOON + 8400),
        ("2026-04-30", NOON - 36 * 3600),
        ("1777636800", NOON),
        ("1777636800.5", NOON + 0.5),
        ("14:20", NOON + 8400),
        ("9:05", NOON - 3 * 3600 + 300),
        ("09:05:07", NOON - 3 * 3600 + 307),
        ("-2h", NOON - 7200),
        ("-1.5d", NOON - 36 * 3600),
        ("-90s", NOON - 90),
        ("-5m", NOON - 300),
    ],
)
def test_each_way_to_write_a_time_is_read(text: str, expected: float) -> None:
    assert moment(text, now=NOON) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("text", ["", "soon", "25:00", "14:60", "-2y", "nan", "2026-13-01"])
def test_what_is_no_time_is_refused_with_ways_to_write_one(text: str) -> None:
    with pytest.raises(BadInput, match="is no time: write 2026-05-01T14:20, 14:20"):
        moment(text, now=NOON)


def test_times_are_shown_without_the_date_where_that_is_today() -> None:
    assert shown(NOON, NOON) == "12:00:00"
    assert shown("2026-05-01T11:00:00Z", NOON) == "11:00:00"
    assert shown("2026-04-30T11:00:00Z", NOON) == "2026-04-30 11:00:00"
    assert shown(None) == "?"


def test_what_is_no_time_is_shown_as_it_is() -> None:
    assert shown("1e+30 s after 1970") == "1e+30 s after 1970"
    assert shown(1e30, "1e+30 s after 1970") == "1e+30"
