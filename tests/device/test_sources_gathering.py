"""Numbers that come one by one become rows."""

from collections.abc import Iterable

import pytest

from elmgrove.device.sources.mqtt import MOST_NAMES, Gathering, Row
from elmgrove.errors import BadInput


def taken(gathering: Gathering, came: Iterable[tuple[str, float]]) -> list[Row]:
    return [row for name, value in came for row in gathering.take(name, value, 0.0)]


def test_a_row_is_complete_when_each_column_has_come_again() -> None:
    gathering = Gathering(["flow", "temp"])
    came = [("temp", 1.0), ("flow", 2.0), ("flow", 3.0), ("other", 9.0), ("temp", 4.0)]
    assert taken(gathering, came) == [{"flow": 2.0, "temp": 1.0}, {"flow": 3.0, "temp": 4.0}]


def test_of_a_value_that_came_twice_the_newer_counts_so_a_lost_one_costs_one_row() -> None:
    gathering = Gathering(["a", "b", "c"])
    # The c of the second round is lost.
    rounds = [
        [(name, float(turn)) for name in "abc" if (turn, name) != (2, "c")] for turn in (1, 2, 3)
    ]
    found = taken(gathering, [one for some in rounds for one in some])
    assert found == [dict.fromkeys("abc", 1.0), dict.fromkeys("abc", 3.0)]


def test_columns_are_found_by_what_comes_again() -> None:
    gathering = Gathering()
    once = [("version", 7.0)]
    rounds = [(name, turn + 0.5) for turn in (1, 2, 3) for name in ("temp", "flow")]
    assert taken(gathering, once + rounds) == [
        {"flow": 2.5, "temp": 2.5},
        {"flow": 3.5, "temp": 3.5},
    ]
    assert gathering.columns == ("flow", "temp")
    assert gathering.findings == [
        "a row is a value of each of 2 topics: 'flow', 'temp'",
        "'version' came only once meanwhile: left out; name columns to wait for them",
    ]
    assert not gathering.knows("version")


def test_a_column_that_is_dropped_is_not_waited_for_and_stands_in_the_row() -> None:
    gathering = Gathering(aside=["clock"])
    rows = taken(gathering, [(name, 1.0) for _ in range(3) for name in ("clock", "temp")])
    assert rows == [{"temp": 1.0, "clock": None}] * 2


def test_a_row_every_few_seconds_lacks_what_did_not_come() -> None:
    gathering = Gathering(["flow", "temp"], seconds=10.0)
    assert gathering.due(5.0) is None
    assert gathering.take("temp", 1.0, 100.0) == []
    assert gathering.take("flow", 2.0, 101.0) == []
    assert gathering.due(109.9) is None
    assert gathering.due(110.0) == {"flow": 2.0, "temp": 1.0}
    assert gathering.take("temp", 3.0, 111.0) == []
    assert gathering.due(110.1) is None
    assert gathering.due(120.0) == {"flow": None, "temp": 3.0}


def test_where_nothing_came_there_is_no_row_and_none_is_made_up_after_a_sleep() -> None:
    gathering = Gathering(["temp"], seconds=10.0)
    gathering.take("temp", 1.0, 0.0)
    assert gathering.due(10.0) == {"temp": 1.0}
    assert gathering.due(20.0) is None
    gathering.take("temp", 2.0, 1000.0)
    assert gathering.due(1000.0) == {"temp": 2.0}
    assert gathering.due(1000.0) is None
    gathering.take("temp", 3.0, 1001.0)
    assert gathering.due(1009.9) is None
    assert gathering.due(1010.0) == {"temp": 3.0}


def test_columns_are_found_within_the_first_rows_that_are_due() -> None:
    gathering = Gathering(seconds=10.0)
    for second in range(30):
        gathering.take("fast", float(second), float(second))
        if second % 10 == 5:
            gathering.take("slow", float(second), float(second))
        if second == 0:
            gathering.take("once", 1.0, 0.0)
        assert gathering.due(float(second)) is None
    assert gathering.due(30.0) == {"fast": 29.0, "slow": 25.0}
    assert gathering.columns == ("fast", "slow")


def test_names_without_end_fill_no_memory() -> None:
    gathering = Gathering()
    for number in range(MOST_NAMES):
        assert gathering.take(f"t{number}", 1.0, 0.0) == []
    for number in range(3):
        with pytest.raises(BadInput, match="more than 1,000 topics"):
            gathering.take(f"more {number}", 1.0, 0.0)
    known = Gathering(["temp"])
    for number in range(3 * MOST_NAMES):
        assert known.take(f"t{number}", 1.0, 0.0) == []
    assert known.take("temp", 2.0, 0.0) == [{"temp": 2.0}]
