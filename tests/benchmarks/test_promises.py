"""What is promised of real machines: how it is measured, judged, and put on the page."""

import os
from pathlib import Path

import pytest
from benchmarks.quality import after_learn, first_day
from benchmarks.quality.after_learn import Alarms, Taught
from benchmarks.quality.first_day import Day
from benchmarks.quality.page import with_promises
from benchmarks.quality.runs import Results
from benchmarks.quality.sets import Placed
from benchmarks.quality.silencing import ALONE, AT_ONCE, BY_NAME, Beside, Told
from benchmarks.quality.targets import judged

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
