"""How much a law is tried on: a sixth of it by default, and all where there is time.

``ELMGROVE_TEST_LAWS=6`` is all: all examples, all seeds, and of tests that are marked with
``combinations`` all combinations of what their parameters may be. Otherwise of those each value
of each parameter is tried, but not with each value of the others.
"""

import os
from itertools import product

import pytest
from hypothesis import HealthCheck, settings

_ALL = 6
#: Sixths of the examples that are tried.
_SIXTHS = int(os.environ.get("ELMGROVE_TEST_LAWS", "1"))
_FEWEST_EXAMPLES, _FEWEST_SEEDS = 3, 2


def law_examples(most: int) -> int:
    """Gives the number of examples to try where as many as ``most`` are tried in the long form."""
    return max(most * _SIXTHS // _ALL, min(_FEWEST_EXAMPLES, most))


def law_seeds(most: int) -> range:
    """Gives the seeds of random rows to try, of the ``most`` that are tried in the long form."""
    return range(max(most * _SIXTHS // _ALL, min(_FEWEST_SEEDS, most)))


def pytest_configure(config: pytest.Config) -> None:
    """Makes the mark known."""
    config.addinivalue_line("markers", "combinations: all of them are tried in the long form only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out combinations, unless all are wanted."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items if _SIXTHS < _ALL else ():
        if item.get_closest_marker("combinations") is not None:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = [item for alike in tests.values() for item in _needless(alike)]
    config.hook.pytest_deselected(items=left_out)
    gone = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in gone]


def _needless(items: list[pytest.Item]) -> list[pytest.Item]:
    """Those of one test that have no value which none of the others has.

    As many stay as the parameter has values that has most. Of a test that somebody chose some
    combinations of, all of these stay.
    """
    sizes = [len(list(mark.args[1])) for mark in items[0].iter_markers("parametrize")]
    # As they were collected: the last parameter changes with each.
    places = list(product(*map(range, sizes)))
    if len(places) != len(items):
        return []
    kept = {
        # Where one size divides another, equal values shall not meet each time.
        tuple((turn + turn // size) % size for size in sizes)
        for turn in range(max(sizes))
    }
    return [item for item, place in zip(items, places, strict=True) if place not in kept]


# Hypothesis without a clock: on a busy machine an example may take any time.


settings.register_profile(
    "patient",
    deadline=None,
    max_examples=law_examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")
