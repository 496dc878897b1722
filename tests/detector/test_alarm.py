"""Alarms follow from strange rows by a rule: k of the last n, then quiet for a while."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import AlarmRule, BadInput
from elmgrove.detector.alarm import Alarm


def alarms(rule: AlarmRule, strange: str) -> str:
    """Rows in, alarms out, both as drawings: # for yes, . for no."""
    alarm = Alarm(rule)
    return "".join("#" if alarm.raised(row == "#") else "." for row in strange)


def test_by_default_each_strange_row_is_an_alarm() -> None:
    assert alarms(AlarmRule(), "..#.##.") == "..#.##."


def test_k_strange_rows_of_the_last_n_are_needed() -> None:
    rule = AlarmRule(k=2, n=3)
    assert alarms(rule, "#..#..#") == "......."
    assert alarms(rule, "#.#....") == "..#...."
    assert alarms(rule, ".##.#..") == "..#.#.."


def test_a_normal_row_never_raises_an_alarm_though_enough_came_before() -> None:
    assert alarms(AlarmRule(k=1, n=5), "#....") == "#...."


def test_after_an_alarm_there_is_quiet_for_so_many_rows_strange_or_not() -> None:
    rule = AlarmRule(cooldown=2)
    assert alarms(rule, "#######") == "#..#..#"
    assert alarms(rule, "#..####") == "#..#..#"
    assert alarms(rule, "#.#.#..") == "#...#.."


def test_strange_rows_within_the_quiet_count_for_the_next_alarm() -> None:
    assert alarms(AlarmRule(k=3, n=3, cooldown=2), "######") == "..#..#"


def literal(rule: AlarmRule, strange: list[bool]) -> list[bool]:
    """The rule as its docstring says it, looking back over the whole stream for each row."""
    raised: list[bool] = []
    for i, now in enumerate(strange):
        recent = strange[max(0, i - rule.n + 1) : i + 1]
        quiet = rule.cooldown > 0 and any(raised[-rule.cooldown :])
        raised.append(now and sum(recent) >= rule.k and not quiet)
    return raised


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 5), st.lists(st.booleans()))
def test_the_alarm_is_the_literal_rule(
    k: int, more: int, cooldown: int, strange: list[bool]
) -> None:
    rule = AlarmRule(k, k + more, cooldown)
    alarm = Alarm(rule)
    assert [alarm.raised(row) for row in strange] == literal(rule, strange)


@pytest.mark.parametrize(
    ("k", "n", "cooldown"), [(0, 1, 0), (2, 1, 0), (-1, 3, 0), (1, 0, 0), (1, 1, -1)]
)
def test_a_rule_that_makes_no_sense_is_refused(k: int, n: int, cooldown: int) -> None:
    with pytest.raises(BadInput, match=r"alarm|cool-down"):
        AlarmRule(k, n, cooldown)
