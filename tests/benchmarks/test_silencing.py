"""On real fleets no labelled stretch loses its event because of others."""

import os
from pathlib import Path

import pytest
from benchmarks.quality.silencing import ALONE, AT_ONCE, BY_NAME, FANS, NAB, fleet_of, measured

DATA = os.environ.get("ELMGROVE_DATA", "")


@pytest.mark.skipif(not DATA, reason="ELMGROVE_DATA names no folder with the data sets")
@pytest.mark.parametrize("name", [*NAB, FANS])
def test_no_labelled_stretch_loses_its_event_because_of_others(name: str) -> None:
    found = measured(fleet_of(name, Path(DATA)))
    known = 0
    for ways in found.values():
        for way in (BY_NAME, AT_ONCE):
            assert ways[way].found >= ways[ALONE].found
            assert ways[way].rows >= ways[ALONE].rows, "nor any row"
            known += ways[way].known
    assert known > 50, "others know many of them, and say so"
