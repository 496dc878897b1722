"""Which rows follow the one before them, so that a window may hold both."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from elmgrove.device.sources.text import Reading
from support.sources import drop_file, open_rows, read_now

pytestmark = pytest.mark.usefixtures("unpaced")


def readings(items: Iterable[Any]) -> list[Reading]:
    return [item for item in read_now(items) if isinstance(item, Reading)]


def follows(items: list[Reading]) -> list[bool]:
    return [item.follows for item in items]


def test_a_row_does_not_follow_one_that_is_bad(path: Path) -> None:
    path.write_text("a,b\n1,2\n3,four\n5,6\n7,8\n9\n11,12\n")
    assert follows(readings(iter(open_rows(path)))) == [False, False, True, False]


@pytest.mark.parametrize("follow", [True, False])
def test_after_a_restart_the_row_after_the_bookmark_follows(path: Path, follow: bool) -> None:
    path.write_text("a,b\n1,2\n3,4\n5,six\n7,8\n")
    first, second, _ = readings(iter(open_rows(path, follow=follow)))
    again = readings(iter(open_rows(path, follow=follow, bookmark=first.bookmark)))
    assert follows(again) == [True, False]
    again = readings(iter(open_rows(path, follow=follow, bookmark=second.bookmark)))
    assert follows(again) == [False], "there was a bad row in between"


@pytest.mark.parametrize("follow", [True, False])
def test_a_file_in_which_the_place_is_not_found_follows_nothing(path: Path, follow: bool) -> None:
    path.write_text("a,b\n1,2\n3,4\n")
    *_, last = readings(iter(open_rows(path, follow=follow)))
    path.write_text("a,b\n9,9\n9,9\n")
    again = readings(iter(open_rows(path, follow=follow, bookmark=last.bookmark)))
    assert follows(again) == [False, True]


def test_a_log_that_was_rotated_goes_on_and_one_that_was_cut_does_not(path: Path) -> None:
    path.write_text("a,b\n1,2\n")
    items = iter(open_rows(path, follow=True))
    assert follows(readings(items)) == [False]
    path.rename(path.with_suffix(".1"))
    path.write_text("a,b\n3,4\n")
    assert follows(readings(items)) == [True]
    path.write_text("")
    assert readings(items) == []
    with path.open("a") as file:
        file.write("5,6\n")
    assert follows(readings(items)) == [False], "rows may have been cut off before they were read"


def test_a_line_that_was_never_finished_is_a_gap(path: Path) -> None:
    path.write_text("a,b\n1,2\n3,")
    items = iter(open_rows(path, follow=True))
    assert follows(readings(items)) == [False]
    path.rename(path.with_suffix(".1"))
    path.write_text("a,b\n5,6\n")
    assert follows(readings(items)) == [False]


# A folder


def test_a_file_of_a_folder_goes_on_where_the_one_before_ended(tmp_path: Path) -> None:
    drop_file(tmp_path / "1.csv", "a,b\n1,2\n3,4\n")
    drop_file(tmp_path / "2.csv", "a,b\n5,6\n")
    source = open_rows(tmp_path)
    items = iter(source)
    read = readings(items)
    assert follows(read) == [False, True, True]
    drop_file(tmp_path / "3.csv", "x,y\n7,8\n")
    drop_file(tmp_path / "4.csv", "a,b\n9,10\n")
    assert follows(readings(items)) == [False], "one was refused"
    # Whether the file of the bookmark is still there or was moved because it was read.
    assert read[-1].bookmark is not None
    drop_file(tmp_path / "5.csv", "a,b\n11,12\n")
    for _ in range(2):
        again = open_rows(tmp_path, bookmark=read[-1].bookmark)
        assert readings(iter(again))[0].follows
        source.saved(read[-1].bookmark)
