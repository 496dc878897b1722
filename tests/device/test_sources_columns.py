"""Columns that come later, go, or change their places; words, and values that are missing."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmgrove.device.sources import open_source
from elmgrove.device.sources.text import Bad, Reading, Source
from elmgrove.reading.layout import Layout
from support.sources import rows_in

pytestmark = pytest.mark.usefixtures("unpaced")


def opened(path: Path, **options: Any) -> Source:
    known = {name: options.pop(name) for name in ("features", "bookmark") if name in options}
    return open_source(str(path), follow=False, layout=Layout(**options), **known)


def reasons(items: list[Any]) -> list[str]:
    return [item.reason for item in items if isinstance(item, Bad)]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "elmgrove.device"]


# Columns that come later


def test_cells_beyond_the_columns_are_ignored_with_one_warning(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text("a,b\n1,2\n3,4,5\n6,7,8\n9,10\n")
    found = list(opened(path))
    assert rows_in(found) == [[1, 2], [3, 4], [6, 7], [9, 10]]
    assert warnings(caplog) == [f"{path}, line 3: columns beyond the 2 of before are ignored"]
    assert all(item.follows for item in found[1:] if isinstance(item, Reading))


def test_where_no_row_ever_fitted_its_names_it_is_no_later_column(path: Path) -> None:
    # Decimal commas between commas, and a first column that has no name, look like that.
    path.write_text("temp,volt\n21,5,3,3\n21,7,3,2\n")
    found = list(opened(path))
    assert rows_in(found) == []
    assert reasons(found) == ["expected 2 columns, got 4"] * 2


def test_new_names_in_the_middle_of_a_file_are_gone_by(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text("a,b\n1,2\nmore,b,a\n0,4,3\n0,6,5\nb,a\n8,7\n")
    found = list(opened(path))
    assert rows_in(found) == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert reasons(found) == []
    assert warnings(caplog) == [f"{path}, line 3: 'more' was not there before: ignored"]
    for place, item in enumerate(found):
        assert isinstance(item, Reading)
        assert list(opened(path, bookmark=item.bookmark)) == found[place + 1 :]


def test_keys_that_come_later_are_ignored_and_those_that_are_missing_cost_a_row(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    objects: list[dict[str, Any]] = [
        {"started": "now"}, {"a": 1, "b": 2}, {"b": 4, "a": 3, "c": 5}, {"a": 6},
        {"b": 9, "a": 8, "d": 1},
    ]  # fmt: skip
    path.write_text("".join(json.dumps(one) + "\n" for one in objects) + "{oops\n1,2\n")
    found = list(opened(path))
    assert rows_in(found) == [[1, 2], [3, 4], [8, 9]]
    assert "column 1 ('started'): 'now' is not a finite number" in reasons(found)[0]
    hint = "--missing hold keeps the last value"
    assert reasons(found)[1] == f"column 2 ('b'): the value is missing ({hint})"
    assert [reason.partition(" (")[0] for reason in reasons(found)[2:]] == ["not JSON"] * 2
    assert warnings(caplog) == [f"{path}, line 3: 'c' was not there before: ignored"]


def test_the_first_object_may_lack_what_a_state_has_learned(path: Path) -> None:
    path.write_text('{"a": 1, "x": 0}\n{"b": 3, "a": 2}\n')
    found = list(opened(path, features=["b", "a"]))
    assert rows_in(found) == [[3, 2]]
    hint = "--missing hold keeps the last value"
    assert reasons(found) == [f"column 3 ('b'): the value is missing ({hint})"]


# Missing values


def test_values_are_held_for_a_few_rows_over_restarts(path: Path) -> None:
    path.write_text("a,b\n1,2\n,3\n,4\n,5\n6,\n")
    read = opened(path, missing="hold", hold_rows=2)
    whole = list(read)
    assert rows_in(whole) == [[1, 2], [1, 3], [1, 4], [6, 4]]
    assert reasons(whole) == ["column 1 ('a'): the value is missing"]
    assert read.held == 3
    for place, item in enumerate(whole):
        if isinstance(item, Reading):
            bookmark = json.loads(json.dumps(item.bookmark))
            again = opened(path, missing="hold", hold_rows=2, bookmark=bookmark)
            assert list(again) == whole[place + 1 :]
