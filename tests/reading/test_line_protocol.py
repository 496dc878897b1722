"""InfluxDB line protocol: read as an independent parser reads it, and written so that it can."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from line_protocol_parser import parse_line

from elmgrove.errors import BadInput
from elmgrove.reading.layout import Layout
from elmgrove.reading.line_protocol import Measurement, Point, point_of, series_of
from elmgrove.reading.line_reader import LineReader
from elmgrove.reading.table import read_table

NAMES = st.text(st.sampled_from('aZ9_-. ,="äµ→'), min_size=1, max_size=8)
TEXTS = st.text(st.sampled_from('aZ9 ,="\\#äµ→'), max_size=12)
# The other parser refuses numbers below 1e-307.
FLOATS = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
WHOLE = st.integers(-(2**63), 2**63 - 1)
FIELDS = st.dictionaries(NAMES, st.one_of(FLOATS, WHOLE, st.booleans(), TEXTS), min_size=1)
TAGS = st.dictionaries(NAMES, NAMES, max_size=3)
TIMES = st.none() | st.integers(0, 2**62)


def escaped(text: str, special: str = ",= ") -> str:
    """As the specification says, and in no other way than it does."""
    return re.sub(f"([{special}])", r"\\\1", text)


def written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return f"{value}i"
    if isinstance(value, float):
        return repr(value)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def line(measurement: str, tags: dict[str, str], fields: dict[str, Any], time: int | None) -> str:
    begin = escaped(measurement, ", ")
    begin += "".join(f",{escaped(key)}={escaped(value)}" for key, value in tags.items())
    said = ",".join(f"{escaped(key)}={written(value)}" for key, value in fields.items())
    return f"{begin} {said}" + ("" if time is None else f" {time}")


@given(NAMES, TAGS, FIELDS, TIMES)
def test_a_line_says_what_an_independent_parser_finds_in_it(
    measurement: str, tags: dict[str, str], fields: dict[str, Any], time: int | None
) -> None:
    text = line(measurement, tags, fields, time)
    mine, theirs = point_of("x", text + "\n"), parse_line(text)
    assert mine is not None
    assert mine.measurement == theirs["measurement"] == measurement
    assert mine.tags == theirs["tags"] == tags
    assert mine.fields == theirs["fields"] == fields
    assert [type(value) for value in mine.fields.values()] == [*map(type, fields.values())]
    assert mine.time == (None if time is None else str(time))
    assert theirs["time"] == time


@given(
    NAMES, TAGS, FIELDS, TIMES, st.dictionaries(st.sampled_from(["state", "text", "kind"]), TEXTS)
)
def test_a_point_about_a_point_has_its_tags_and_its_time(
    measurement: str,
    tags: dict[str, str],
    fields: dict[str, Any],
    time: int | None,
    said: dict[str, str],
) -> None:
    point = point_of("x", line(measurement, tags, fields, time))
    assert point is not None
    every = {
        **said,
        "score": 1e-7,
        "event": 3,
        "anomalous": True,
        "known": ["a b", 'c"'],
        "no": None,
    }
    theirs = parse_line(point.line("elmgrove", every).rstrip("\n"))
    assert (theirs["measurement"], theirs["tags"], theirs["time"]) == ("elmgrove", tags, time)
    expected = {**said, "score": 1e-7, "event": 3, "anomalous": True, "known": '["a b", "c\\""]'}
    assert theirs["fields"] == expected


@given(st.text(max_size=40))
def test_no_text_is_more_than_bad(text: str) -> None:
    try:
        found = point_of("x", text)
    except BadInput:
        return
    assert found is None or found.fields


def test_what_is_not_finite_empty_or_unknown_is_not_written() -> None:
    point = Point("m", {}, {"a": 1.0}, "5")
    assert point.line("e", {"a": math.inf, "b": math.nan, "c": None, "d": [], "e": 1.0}) == (
        "e e=1.0 5\n"
    )
    assert point.line("e", {"a": None}) == ""
    assert point.line("e", {"a": "two\nlines"}) == 'e a="two lines" 5\n'


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("1", 1.0),
        ("-1.5e3", -1500.0),
        (".5", 0.5),
        ("7u", 7),
        ("18446744073709551615u", 2**64 - 1),
        *[(word, True) for word in ("t", "T", "true", "True", "TRUE")],
        *[(word, False) for word in ("f", "F", "false", "False", "FALSE")],
        (r'"a \"b\" \\ c\d"', r'a "b" \ c\d'),
        ('""', ""),
    ],
)
def test_values(value: str, found: Any) -> None:
    point = point_of("x", f"m a={value}")
    assert point is not None
    assert point.fields == {"a": found}


@pytest.mark.parametrize(
    "text",
    [
        "m",
        "m a",
        "m a=",
        ",t=1 a=1",
        "m,t a=1",
        "m,t= a=1",
        "m a=1,",
        "m a=1 x",
        "m a=1 1.5",
        "m a=nan",
        "m a=inf",
        "m a=1_0",
        "m a=-1u",
        "m a=9223372036854775808i",
        "m a=" + "9" * 5000 + "i",
        'm a="open',
        'm a="two"words',
        "m a=hello",
    ],
)
def test_what_is_no_point_is_named_with_its_place(text: str) -> None:
    with pytest.raises(BadInput, match=r"f\.lp, line 3.*InfluxDB line protocol"):
        point_of("f.lp, line 3", text)


def test_a_measurement_with_tags_chooses_points() -> None:
    measured = Measurement(r"my\ cpu,cpu=total")
    assert measured("x", r"my\ cpu,cpu=0 a=1") is None
    assert measured("x", "cpu,cpu=total a=1") is None
    assert measured("x", r"my\ cpu,host=h,cpu=total a=1 5") == {"a": 1.0, "time": "5"}
    with pytest.raises(BadInput, match="measurement: a name"):
        series_of("two words")


def test_the_first_point_decides_or_the_first_with_known_columns() -> None:
    measured = Measurement(None)
    assert measured("x", "b a=1") == {"a": 1.0}
    assert measured("x, line 2", "c a=1") is None
    assert measured.notes == [
        "x, line 2: rows are the lines of 'b', and those of 'c' are none; --measurement chooses"
    ]
    known = Measurement(None, lambda: ["temp"])
    assert known("x", "b a=1") is None
    assert known("x", "c temp=1") == {"temp": 1.0}


def test_lines_with_other_tags_are_told_once() -> None:
    measured = Measurement("cpu")
    for core in "0123":
        measured(f"x, line {core}", f"cpu,cpu={core} a=1")
    (note,) = measured.notes
    assert note.startswith("x, line 1: lines with other tags (cpu=1)")
    assert note.endswith("--measurement cpu,cpu=0 chooses")


FILE = """# what a plant wrote
cpu,host=a usage=90 1714564800000000000
machine,host=a speed=1500i,temp=21.5,on=true,boot_time=5i 1714564800000000000

machine,host=a temp=22.5,speed=1501i,on=false,boot_time=5i 1714564801000000000
machine,host=a temp=23.5 1714564802000000000
machine,host=a temp=nan,speed=1501i,on=false,boot_time=5i 1714564803000000000
"""


def test_files_and_lines_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "plant.lp"
    path.write_text(FILE)
    layout = Layout(measurement="machine", drop=("boot_time",))
    table = read_table(path, layout, skip_bad=True)
    assert table.names == ("speed", "temp", "on")
    assert table.rows.tolist() == [[1500.0, 21.5, 1.0], [1501.0, 22.5, 0.0]]
    assert table.times is not None
    assert table.times.tolist() == [1714564800.0, 1714564801.0]
    assert table.left_out == 2
    reader, rows, bad = LineReader(layout), list[list[float]](), 0
    for number, text in enumerate(FILE.splitlines(), 1):
        try:
            record = reader.read(f"line {number}", text)
        except BadInput:
            bad += 1
        else:
            rows += [] if record is None else [record.values]
    assert (reader.names, rows, bad) == (table.names, table.rows.tolist(), table.left_out)


def test_a_measurement_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = tmp_path / "plant.lp"
    path.write_text("cpu,host=a usage=90 1714564800000000000\n")
    with pytest.raises(BadInput, match="none of the first lines is a row, as cpu,host=a is none"):
        read_table(path, Layout(measurement="pump"))


def test_the_format_is_found_by_name_or_stated() -> None:
    assert [Layout().is_influx(name) for name in ("", "a.csv", "a.lp", "b/A.INFLUX.gz")] == [
        *(False, False, True, True)
    ]
    assert Layout(format="influx").is_influx("a.csv")
    remembered = Layout().after(Layout(measurement="m").fields)
    assert [remembered.is_influx(name) for name in ("", "a.txt", "a.csv")] == [True, True, False]
    with pytest.raises(BadInput, match="format: influx"):
        Layout(format="csv")
