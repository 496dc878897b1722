"""What is promised of real machines: how it is measured, judged, and put on the page."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from benchmarks.quality import after_learn, first_day, fleets, mixtures
from benchmarks.quality.after_learn import Alarms, Taught
from benchmarks.quality.battery import calm, faulty
from benchmarks.quality.centroids import Centroids
from benchmarks.quality.drift import (
    CALM,
    OWN,
    DriftCase,
    SmallestError,
    cases,
    dealt,
    together,
    tried,
)
from benchmarks.quality.first_day import Day
from benchmarks.quality.kinds import MIXTURES, POISONED, SHARE
from benchmarks.quality.machines import (
    KINDS,
    LEAD,
    RESOLUTION,
    SENSORS,
    SIZE,
    ideal,
    machine,
    orders,
    sibling,
)
from benchmarks.quality.measure import Quality
from benchmarks.quality.mixtures import GROUP, QUALITY, Choice, chosen
from benchmarks.quality.page import with_promises
from benchmarks.quality.peers import HalfSpaceTrees, PyOD, Rival
from benchmarks.quality.report import tables
from benchmarks.quality.runs import Record, Results
from benchmarks.quality.sets import Placed
from benchmarks.quality.silencing import ALONE, AT_ONCE, BY_NAME, Beside, Told
from benchmarks.quality.targets import judged

from elmgrove.detector.drift import CHANGE, SLOW, SPIKE

DATA = os.environ.get("ELMGROVE_DATA", "")
needs_data = pytest.mark.skipif(not DATA, reason="ELMGROVE_DATA names no folder with the data sets")
ABOUT = {
    "date": "today",
    "processor": "one",
    "cores": 2,
    "python": "3",
    "packages": {},
    "quick": False,
}


def day(odd: bool, again: bool, learned: float, events: int, questions: int) -> Day:
    return Day(Placed("SMD", "m1", odd), True, True, again, learned, 1000, events, questions)


def measured(false: float, recall: float, name: str = "C-MAPSS", odd: bool = True) -> Taught:
    alarms = Alarms(false, recall)
    return Taught(Placed(name, "engine1", odd), True, alarms, Alarms(0.0, 0.0))


@pytest.mark.parametrize(
    ("odd", "met"),
    [
        ([day(True, True, 0.6, 1, 0)], [True, True, True, True]),
        ([day(True, False, 0.7, 2, 1)], [False, False, False, False]),
        ([day(True, True, 0.7, 2, 0), day(True, False, 0.3, 0, 0)], [False, True, True, True]),
    ],
)
def test_a_first_day_is_judged_on_odd_devices(odd: list[Day], met: list[bool]) -> None:
    even = day(False, not met[0], 0.5, 7, 7)
    assert [one.met for one in judged(Results(days=[even, *odd]))] == met


def test_a_device_with_fewer_normal_rows_weighs_less_in_what_they_cost() -> None:
    short = day(True, True, 0.0, 1, 1)._replace(normal_rows=3000)
    found = first_day.together([short, day(True, False, 1.0, 3, 0)])
    assert (found.events, found.questions, found.learned) == (1.0, 0.25, 0.5)


def test_after_learn_both_all_and_odd_devices_must_hold_the_rate() -> None:
    good, bad = measured(0.0, 0.9), measured(0.05, 0.9)
    assert [one.met for one in judged(Results(taught=[good, good, bad]))] == [True, True, True]
    even = [measured(0.0, 0.5, odd=False)] * 3
    found = judged(Results(taught=[*even, bad._replace(watches=False)]))
    assert [(one.found, one.met) for one in found] == [
        ("3 of 4", False),
        ("0.00%, 0.00%; odd devices 5.00%, 0.00%", False),
        ("60.0% (as a stream 0.0%)", True),
    ]


def test_a_stretch_lost_in_either_way_counts() -> None:
    told = {
        way: Told(3, frozenset(found), 9, 0)
        for way, found in {ALONE: (0, 1), BY_NAME: (0, 1, 2), AT_ONCE: (1,)}.items()
    }
    (reached,) = judged(Results(beside=[Beside("EC2", "one", told)]))
    assert (reached.found, reached.met) == ("1 of 2", False)


def test_the_section_comes_before_how_and_replaces_an_older_one() -> None:
    kept = "# Page\n\n## Targets\n\n## How\n\n- so\n\n## SMD\n"
    once = with_promises(kept, Results(taught=[measured(0.01, 0.9)]), ABOUT)
    twice = with_promises(once, Results(taught=[measured(0.03, 0.8)]), ABOUT)
    assert once.startswith("# Page\n\n## Targets\n\n## Promises")
    assert "1.00%" not in twice
    assert "3.00%" in twice
    assert twice.count("## Promises") == twice.count("## How") == 1
    assert twice.endswith("\n## How\n\n- so\n\n## SMD\n")


@needs_data
@pytest.mark.parametrize("name", first_day.SETS)
def test_a_device_lives_its_first_day(name: str) -> None:
    case = next(one for one in first_day.cases(Path(DATA), quick=True) if one.set == name)
    found = first_day.lived(case, Path(DATA))
    assert 800 <= found.normal_rows <= first_day.NORMAL
    assert 0.0 <= found.learned <= 1.0


@needs_data
def test_two_devices_of_each_set_watch_after_learn() -> None:
    cases = after_learn.cases(Path(DATA), quick=True)
    assert len(cases) == 2 * len(after_learn.ARCHIVED + after_learn.UNORDERED)
    few = [one for one in cases if one.set != "SMD"]
    assert all(after_learn.taught(case, Path(DATA)).watches for case in few)


# What is said of a fleet: what a loan gained, whom it hurt, and whether that is enough


def record(rows: int | None, device: str, method: str, auc: float, name: str = "SMD") -> Record:
    quality = Quality(auc, 0.5, 0.5, 0.01, 0.0, 0.0)
    return Record(fleets.fleet_title(name, rows), device, method, 0, quality)


def found(rows: int | None, changes: list[float], name: str = "SMD") -> tuple[str, bool | None]:
    records = []
    for number, change in enumerate(changes):
        records.append(record(rows, f"d{number}", fleets.ALONE, 0.8, name))
        records.append(record(rows, f"d{number}", fleets.LOAN, 0.8 + change, name))
    (reached,) = (one for one in judged(Results(records)) if "loan" in one.target)
    return reached.found, reached.met


@pytest.mark.parametrize(
    ("rows", "changes", "met"),
    [
        (30, [0.05, 0.03], True),
        (30, [0.05, -0.03], False),
        (300, [0.05, -0.03], True),
        (300, [0.0, -0.01], False),
        (1000, [0.05, -0.03], False),
        (1000, [0.0, -0.002], True),
        (None, [0.0, 0.0], True),
    ],
)
def test_a_loan_must_gain_early_and_hurt_nobody_late(
    rows: int | None, changes: list[float], met: bool
) -> None:
    assert found(rows, changes)[1] is met


def test_who_is_hurt_and_by_how_much_is_said() -> None:
    text, _ = found(1000, [0.1, -0.05, 0.0, 0.0])
    assert text == "+0.0125; hurt by more than 0.02: 25%, worst -0.050"


def test_fans_need_not_gain() -> None:
    assert found(30, [0.0, 0.0], "fans")[1] is True


# Simulated machines are what they say: the law, the size of a fault, its rows, any order


def left_over(rows: np.ndarray, sensor: int) -> float:
    """The standard deviation of a sensor given the others, measured on rows."""
    others = np.delete(rows, sensor, axis=1) - np.delete(rows, sensor, axis=1).mean(axis=0)
    own = rows[:, sensor] - rows[:, sensor].mean()
    return float((own - others @ np.linalg.lstsq(others, own, rcond=None)[0]).std())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "constant columns"])
def test_a_residual_sigma_is_what_the_other_sensors_leave_open(kind: str) -> None:
    made = machine(kind, 4, seed=3)
    measured = [left_over(made.train, sensor) for sensor in range(4)]
    assert measured == pytest.approx(made.residual, rel=0.08)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sensors", SENSORS)
def test_a_fault_moves_its_sensor_by_its_size_and_nothing_else(kind: str, sensors: int) -> None:
    made, whole = machine(kind, sensors, 0), machine(kind, sensors, 0, size=0.0)
    moved = np.zeros_like(made.test)
    for fault in made.faults:
        moved[list(fault.rows), fault.sensor] = fault.size * made.residual[fault.sensor]
        assert abs(fault.size) == SIZE
    assert np.allclose(made.test - whole.test, moved, rtol=1e-9, atol=1e-9)
    assert faulty(made).sum() == np.any(moved != 0, axis=1).sum()


def test_constant_columns_are_constant_and_have_a_stated_sigma() -> None:
    made = machine("constant columns", 4, seed=0)
    assert (np.ptp(made.train, axis=0) == 0).tolist() == [True, False, True, False]
    assert made.residual[[0, 2]] == pytest.approx(RESOLUTION)
    assert {fault.sensor for fault in made.faults if fault.constant} == {0, 2}


def test_another_order_is_the_same_machine() -> None:
    made = machine("shared load", 4, seed=1)
    order = orders(4, seed=1)[1]
    turned = made.ordered(order)
    assert np.array_equal(turned.test[:, np.argsort(order)], made.test)
    assert turned.residual == pytest.approx(made.residual[order])
    for one, other in zip(made.faults, turned.faults, strict=True):
        assert order[other.sensor] == one.sensor


def test_orders_differ() -> None:
    assert len(orders(1, 0)) == 1
    assert len({tuple(order.tolist()) for order in orders(8, 0)}) == 3


def test_calm_rows_have_no_fault_in_their_window() -> None:
    made = machine("shared load", 2, seed=0)
    rows = np.flatnonzero(calm(made))
    marks = faulty(made)
    assert not any(marks[max(0, row - 9) : row + 1].any() for row in rows)
    assert calm(made)[:LEAD].all()


def test_what_one_row_can_show_shrinks_with_the_sensors() -> None:
    shares = [ideal(sensors) for sensors in SENSORS]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == pytest.approx(0.949, abs=1e-3)


# Mixtures of kinds: what is said of a rule's choices, and whether that is enough

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


# Other libraries' detectors, as they are compared with

RATE = 0.02


def _pyod(name: str) -> Callable[[], Rival]:
    def made() -> Rival:
        pytest.importorskip("pyod")
        return PyOD(name, RATE)

    return made


def _river() -> Rival:
    pytest.importorskip("river")
    return HalfSpaceTrees(RATE)


MADE = {
    "HalfSpaceTrees": _river,
    **{name: _pyod(name) for name in ("ECOD", "IForest", "KNN", "PCA", "LOF")},
}


@pytest.mark.parametrize("name", MADE)
# Of a library's own making, which is not ours to mend.
@pytest.mark.filterwarnings("default")
def test_each_finds_what_lies_far_out_at_about_the_stated_rate(name: str) -> None:
    rng = np.random.default_rng(0)
    train, normal = rng.normal(size=(1500, 3)), rng.normal(size=(1500, 3))
    train[:, 2] = normal[:, 2] = 5.0
    far = normal[:50] + np.array([9.0, 9.0, 0.0])
    rival = MADE[name]()
    rival.fit(train)
    scores = rival.score(np.vstack([normal, far]))
    assert scores.shape == (1550,)
    assert np.isfinite(scores).all()
    flagged = scores > rival.threshold
    assert flagged[1500:].mean() > 0.9
    assert flagged[:1500].mean() < 3 * RATE


# The benchmark of drift: what is told of known changes, and the centroids beside it


def test_centroids_find_a_change_with_the_last_row_of_a_check() -> None:
    """Written out: the check begins with the first anomalous row, and takes W of them."""
    rng = np.random.default_rng(0)
    train, calm = rng.normal(size=(400, 4)), rng.normal(size=(50, 4)) * 0.1
    moved = 9.0 + rng.normal(size=(60, 4))
    found = Centroids(train, 10).found(np.vstack([calm, moved]))
    assert found == [59, 69, 79, 89, 99, 109]
    # Anomalous rows that are near in the mean are none.
    to_and_fro = moved * np.where(np.arange(60) % 2, 1.0, -1.0)[:, None]
    assert Centroids(train, 10).found(to_and_fro) == []


def test_centroids_go_on_in_the_next_rows() -> None:
    rng = np.random.default_rng(0)
    train, moved = rng.normal(size=(400, 4)), 9.0 + rng.normal(size=(60, 4))
    whole, parts = Centroids(train, 25), Centroids(train, 25)
    some = [parts.found(moved[:13]), parts.found(moved[13:])]
    assert whole.found(moved) == [24, 49] == [*some[0], *(13 + row for row in some[1])]


def test_dealt_rows_have_the_mean_and_the_deviation_and_none_comes_twice() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 5)) @ np.diag([1.0, 2, 3, 4, 5]) + 7.0
    found = dealt(rows, 3)
    assert found.mean(axis=0) == pytest.approx(rows.mean(axis=0), abs=0.4)
    assert found.std(axis=0) == pytest.approx(rows.std(axis=0), rel=0.1)
    assert len(np.unique(found[:, 0])) == len(found)
    assert not np.array_equal(found, dealt(rows, 4))


@pytest.mark.parametrize("kind", [CHANGE, SLOW, SPIKE])
def test_a_machine_is_tried(kind: str) -> None:
    own, *theirs = tried(DriftCase("8 sensors, memory 0.0", "1", kind), Path())
    assert own.method == OWN
    assert len(theirs) == 3
    if kind == SPIKE:
        assert (own.rows, own.told) == (None, 0)
    else:
        assert own.rows is not None
        assert (own.told, own.kind, own.sensor) == (1, True, True)


def test_cases_without_a_folder_have_no_fans() -> None:
    names = {case.set for case in cases(None, quick=False)}
    assert not any("fans" in name for name in names)
    assert len({case.set for case in cases(Path(), quick=False)} - names) == 2
    assert {case.kind for case in cases(None, quick=True)} == {CHANGE, SLOW, SPIKE}


def test_what_was_noticed_is_put_together() -> None:
    found = [
        SmallestError(DriftCase("set", "1", CHANGE), OWN, 40, 1, True, True, 2),
        SmallestError(DriftCase("set", "2", CHANGE), OWN, 60, 2, True, False, 4),
        SmallestError(DriftCase("set", "3", CHANGE), OWN, None, 0),
        SmallestError(DriftCase("set", "1", CALM), OWN, None, 3),
        SmallestError(DriftCase("set", "2", CALM), OWN, None, 0),
    ]
    change, calm = together(found)
    assert (change.cases, change.found, change.rows) == (3, 2 / 3, 50.0)
    assert (change.kind_right, change.sensor_right, change.onset) == (1.0, 0.5, 3.0)
    assert change.false is None
    assert (calm.cases, calm.false, calm.rows) == (2, 1.5, None)
