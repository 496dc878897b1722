"""Alarms follow from anomalous rows by a rule: k of the last n."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import AlarmRule, BadInput
from elmgrove.detector.events import Alarm, Hit


def alarms(rule: AlarmRule, anomalous: str) -> str:
    """Rows in, alarms out, both as drawings: # for yes, . for no."""
    alarm = Alarm(rule)
    told = (row == "#" and alarm.raised(Hit(n, n)) for n, row in enumerate(anomalous))
    return "".join("#" if raised else "." for raised in told)


def test_by_default_a_row_or_two_are_no_alarm_and_three_of_five_are() -> None:
    assert alarms(AlarmRule(), "#....##....#..#") == "." * 15
    assert alarms(AlarmRule(), "#.#.#.") == "....#."
    assert alarms(AlarmRule(), "##...#") == "......"


def test_k_anomalous_rows_of_the_last_n_are_needed() -> None:
    rule = AlarmRule(k=2, n=3)
    assert alarms(rule, "#..#..#") == "......."
    assert alarms(rule, "#.#....") == "..#...."
    assert alarms(rule, ".##.#..") == "..#.#.."


def test_a_normal_row_never_raises_an_alarm_though_enough_came_before() -> None:
    assert alarms(AlarmRule(k=1, n=5), "#....") == "#...."


def test_the_first_of_the_rows_that_count_is_known() -> None:
    alarm = Alarm(AlarmRule(k=2, n=4))
    for row in (1, 8, 10):
        alarm.raised(Hit(row, float(row)))
    assert alarm.first == Hit(8, 8.0)


@given(st.integers(1, 4), st.integers(0, 3), st.lists(st.booleans()))
def test_the_alarm_is_the_literal_rule(k: int, more: int, anomalous: list[bool]) -> None:
    """As its docstring says it, looking back over the whole stream for each row."""
    rule = AlarmRule(k, k + more)
    alarm = Alarm(rule)
    for i, now in enumerate(anomalous):
        recent = anomalous[max(0, i - rule.n + 1) : i + 1]
        assert not now or alarm.raised(Hit(i, i)) == (sum(recent) >= rule.k)


@pytest.mark.parametrize(
    ("k", "n", "cooldown"), [(0, 1, 0), (2, 1, 0), (-1, 3, 0), (1, 0, 0), (1, 1, -1)]
)
def test_a_rule_that_makes_no_sense_is_refused(k: int, n: int, cooldown: int) -> None:
    with pytest.raises(BadInput, match=r"alarm|cool-down"):
        AlarmRule(k, n, cooldown)
