"""``elmgrove learn`` with few rows: it says how many more to learn, and watches with those."""

from support.commands import Elmgrove
from support.fans import rows, write


def test_learn_says_how_many_more_rows_it_needs(elmgrove: Elmgrove) -> None:
    write("a.csv", rows(1, 20))
    ran = elmgrove("learn", "a.csv", "--state", "fan.elm", "--window", "1")
    assert "Still learning: too few rows for a threshold, 30 more rows are needed." in ran.err
    write("b.csv", rows(2, 30))
    assert "Watching: " in elmgrove("learn", "b.csv", "--state", "fan.elm").err
