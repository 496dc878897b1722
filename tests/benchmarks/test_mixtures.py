"""Mixtures of kinds: what is said of a rule's choices, and whether that is enough."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.quality import mixtures
from benchmarks.quality.kinds import MIXTURES, POISONED, SHARE
from benchmarks.quality.machines import machine, sibling
from benchmarks.quality.mixtures import GROUP, QUALITY, Choice, chosen
from benchmarks.quality.report import tables
from benchmarks.quality.runs import Results
from benchmarks.quality.targets import judged

PUMPS = "pumps of one kind, one poisoned"


def choice(
    device: str, right: int, taken: int, poisoned: bool, change: float, rule: str = GROUP
) -> Choice:
    return Choice(PUMPS, device, None, rule, 4, right, taken, poisoned, 0.9 + change, 0.9)


def test_choices_are_summed_up() -> None:
    held = [choice("a", 4, 5, True, -0.05), choice("b", 2, 3, False, 0.01)]
    found = chosen(held, PUMPS, None, GROUP)
    assert found is not None
    assert (found.taken, found.precision, found.recall) == (4.0, 0.75, 0.75)
    assert (found.left_out, found.devices) == (0.5, 2)
    assert found.changes == pytest.approx([-0.05, 0.01])
    assert chosen(held, PUMPS, None, QUALITY) is None
    assert chosen(held, PUMPS, 100, GROUP) is None


@pytest.mark.parametrize(
    ("one", "met"),
    [
        (choice("a", 4, 4, False, 0.0), [True, True, True]),
        (choice("a", 4, 5, True, -0.03), [False, False, False]),
        (choice("a", 3, 3, False, 0.0), [True, False, True]),
        (choice("a", 0, 0, False, 0.0), [True, False, True]),
    ],
)
def test_a_group_must_hurt_nobody_be_whole_and_without_poison(one: Choice, met: list[bool]) -> None:
    results = Results(choices=[one])
    assert [reached.met for reached in judged(results)] == met
    (table, _) = tables(results, judged(results))
    assert table.title == f"Mixture: {PUMPS}"
    assert table.rows[0][:2] == ["all", GROUP]


def test_siblings_follow_one_law_and_fail_alike() -> None:
    law = machine("shared load", 4, 1)
    one, again, other = (sibling(law, seed, 0.0, 0.0) for seed in (5, 5, 6))
    assert np.array_equal(one.train, again.train)
    assert not np.array_equal(one.train, other.train)
    assert np.cov(one.train.T) == pytest.approx(law.covariance, rel=0.3)
    assert [fault.sensor for fault in one.faults] == [fault.sensor for fault in law.faults]


def test_the_poisoned_one_has_a_fault_in_some_of_its_rows() -> None:
    devices = MIXTURES[PUMPS].devices(Path(), 1)
    bad = devices.pop(POISONED)
    assert {one.kind for one in devices.values()} == {"0"}
    assert bad.test is not None
    assert len(bad.test) == round(SHARE * len(bad.train))


def test_a_quick_run_lets_each_rule_choose() -> None:
    found = mixtures.compared(PUMPS, 1, Path(), quick=True)
    assert {one.rule for one in found} == set(mixtures.RULES)
    assert {one.rows for one in found} == set(mixtures.ROWS)
    assert all(one.poisoned for one in found if one.rule == mixtures.EVERYONE)
    assert not any(one.poisoned for one in found if one.rule == mixtures.NAMED)
