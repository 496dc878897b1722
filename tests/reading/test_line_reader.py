"""Lines as they come: rows, or why not."""

import json
from typing import Any

import pytest

from elmgrove import BadInput
from elmgrove.errors import WrongColumns
from elmgrove.reading.columns import Record
from elmgrove.reading.layout import Layout
from elmgrove.reading.line_reader import LineReader


def values(reader: LineReader, *lines: str) -> list[Any]:
    """The values of each line, None, or the text of its error."""
    found: list[Any] = []
    for line in lines:
        try:
            record = reader.read("x", line)
            found.append(None if record is None else record.values)
        except BadInput as error:
            found.append(str(error))
    return found


def test_the_first_row_says_which_column_is_the_time() -> None:
    reader = LineReader()
    assert reader.read("x", "when,a") is None
    assert reader.names is None
    assert reader.read("x", "2024-05-01T12:00:00Z,1") == Record([1.0], 1714564800.0)
    assert reader.names == ("a",)
    assert reader.findings == ["column 1 ('when') is the time of each row, and not learned"]
    with pytest.raises(BadInput, match="'noon' is no time"):
        reader.read("x", "noon,1")


def test_json_lines_are_read_by_their_keys() -> None:
    reader = LineReader(Layout(label="bad"))
    first = '{"ts": 1714564800, "a": 1, "on": true, "bad": 0}'
    assert reader.read("x", first) == Record([1.0, 1.0], 1714564800.0, False)
    later = '{"on": false, "bad": true, "a": 2.5, "ts": 1714564801, "new": 3}'
    assert reader.read("x", later) == Record([2.5, 0.0], 1714564801.0, True)
    assert reader.notes[-1] == "x: 'new' was not there before: ignored"
    found = values(reader, "{", '{"a": null, "on": 1, "bad": 0, "ts": 1}', "[1]")
    assert "not JSON" in found[0]
    assert "the value is missing" in found[1]
    assert "not a JSON object" in found[2]


def test_files_go_on_in_the_columns_of_the_first() -> None:
    reader = LineReader(Layout(drop=("c",)))
    assert values(reader, "a,b,c", "1,2,x") == [None, [1, 2]]
    reader.begin()
    assert values(reader, "b,z,a", "2,9,1") == [None, [1, 2]]
    reader.begin()
    assert values(reader, '{"b": 2, "a": 1}', '{"b": 4, "a": 3}') == [[1, 2], [3, 4]]
    reader.begin()
    assert values(reader, "1,2", '{"b": 4, "a": 3}')[0] == [1, 2]
    reader.begin()
    with pytest.raises(WrongColumns, match="no column 'a'"):
        reader.read("x", "b,d")


@pytest.mark.parametrize("lines", [["b,t,a", "2,2024-05-01,1"], ['{"b": 2, "t": 5, "a": 1}']])
def test_a_bookmark_leads_to_the_same_columns(lines: list[str]) -> None:
    reader = LineReader(features=("a", "b"))
    assert values(reader, *lines)[-1] == [1, 2]
    again = LineReader(features=("a", "b"), bookmark=reader.bookmark)
    again.begin(at_start=False)
    assert values(again, lines[-1]) == [[1, 2]]
    assert again.names == ("a", "b")


def times(reader: LineReader, *lines: str) -> list[Any]:
    """The time of each line that is a row, or the text of its error."""
    found: list[Any] = []
    for line in lines:
        try:
            record = reader.read("x", line)
            found += [] if record is None else [record.time]
        except BadInput as error:
            found.append(str(error).partition(";")[0])
    return found


def restarted(reader: LineReader) -> LineReader:
    again = LineReader(features=reader.names, bookmark=json.loads(json.dumps(reader.bookmark)))
    again.begin(at_start=False)
    return again


NAMED = ["time,a,b", "1700000000,1,2"]
BAD = "x, column 1 ('time'): {} is no time"


def test_a_bad_time_at_the_beginning_of_the_next_file_is_a_bad_row() -> None:
    reader = LineReader()
    times(reader, *NAMED)
    reader.begin()
    assert times(reader, "a,time,b", "1,?,2", "1,1700000060,2") == [
        BAD.format("'?'").replace("1", "2"), 1.7e9 + 60,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "bad", "good"),
    [
        (NAMED, ",1,2", "1700000060,1,2"),
        (["2023-11-14T22:13:20Z,1,2"], ",1,2", "2023-11-14T22:14:20Z,1,2"),
        (['{"ts": 1700000000, "a": 1}'], '{"a": 1}', '{"ts": 1700000060, "a": 1}'),
        (['{"ts": 1700000000, "a": 1}'], '{"ts": "?", "a": 1}', '{"ts": 1700000060, "a": 1}'),
    ],
    ids=["names", "no names", "no key", "objects"],
)
def test_a_bad_time_after_a_restart_is_a_bad_row(before: list[str], bad: str, good: str) -> None:
    reader = LineReader()
    assert times(reader, *before) == [1.7e9]
    # A second restart before any good row forgets nothing.
    for again in (restarted(reader), restarted(restarted(reader))):
        refused, time = times(again, bad, good)
        assert "is no time" in refused
        assert time == 1.7e9 + 60
        assert again.notes == []


def test_a_file_may_have_its_time_elsewhere_and_it_is_said_if_it_has_none() -> None:
    reader = LineReader()
    times(reader, *NAMED)
    reader.begin()
    assert times(reader, "ts,a,b", "1700000060,1,2", "nan,1,2")[0] == 1.7e9 + 60
    assert reader.notes == []
    reader.begin()
    assert times(reader, "a,b", "1,2", "3,4") == [None, None]
    assert reader.notes == ["x: no column 'ts' as before, rows have no time"]
