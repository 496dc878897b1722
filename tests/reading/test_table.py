"""Rows from files, or an error that names file, line and column."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput
from elmgrove.reading.csv import Head
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import Table, read_label_spans, read_table, within
from support.laws import law_examples


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Writes a file with this content, and reads it as a table."""

    def read(content: str | bytes, name: str = "data.csv", **options: Any) -> Table:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_table(path, layout_of(options), **options)

    return read


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def layout_of(options: dict[str, Any]) -> Layout:
    """Takes what belongs to a layout out of the options."""
    return Layout(**{name: options.pop(name) for name in [*options] if hasattr(Layout(), name)})


# Text


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["no mark", "byte order mark"])
@pytest.mark.parametrize("named", [True, False])
def test_every_way_to_write_a_table(
    table: Any, delimiter: str, ending: str, mark: bytes, named: bool
) -> None:
    lines = ["Wärme,b,c"] * named + ["1,2.5,-3e2", "", '"4", 5 ,6', ""]
    text = ending.join(lines).replace(",", delimiter)
    read = table(mark + text.encode())
    assert read.names == (("Wärme", "b", "c") if named else None)
    assert read.rows.tolist() == [[1, 2.5, -300], [4, 5, 6]]
    assert read.rows.dtype == np.float64
    assert read.lines.tolist() == ([2, 4] if named else [1, 3])
    assert read.skipped == []


@settings(max_examples=law_examples(40), deadline=None)
@given(
    st.lists(
        st.lists(st.floats(-1e19, 1e19), min_size=2, max_size=2),
        min_size=1,
        max_size=5,
    )
)
def test_numbers_come_back_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]]
) -> None:
    path = tmp_path_factory.mktemp("tables") / "data.csv"
    path.write_text("".join(f"{a!r},{b!r}\n" for a, b in rows))
    assert read_table(path).rows.tolist() == rows


@pytest.mark.parametrize(
    ("text", "names", "rows", "lines"),
    [
        ("\n\na,b\n1,2\n", ("a", "b"), [[1, 2]], [4]),
        ("\n1,2\n3,4\n", None, [[1, 2], [3, 4]], [2, 3]),
        ("a,b\n   \n1,2\n\t\n", ("a", "b"), [[1, 2]], [3]),
        ("a,b\n1,2", ("a", "b"), [[1, 2]], [2]),
        ("x\n1\n\n2\n", ("x",), [[1], [2]], [2, 4]),
        ("1\n2\n", None, [[1], [2]], [1, 2]),
        (" a , b \n1,2\n", ("a", "b"), [[1, 2]], [2]),
        ('"a,b",c\n1,2\n', ("a,b", "c"), [[1, 2]], [2]),
        ('a,b\n"1\n",2\n3,4\n', ("a", "b"), [[1, 2], [3, 4]], [3, 4]),
        ("a,b\n", ("a", "b"), [], []),
        ("", None, [], []),
        ("\n\n", None, [], []),
    ],
)
def test_blank_lines_blanks_and_quotes(
    table: Any, text: str, names: Any, rows: list[Any], lines: list[int]
) -> None:
    read = table(text)
    assert read.names == names
    assert read.rows.tolist() == rows
    assert read.rows.ndim == 2
    assert read.lines.tolist() == lines


# Columns


def test_columns_are_picked_and_ordered_by_name(table: Any) -> None:
    read = table("a,b,c\n1,2,3\n4,x,6\n", features=["c", "a"])
    assert read.names == ("c", "a")
    assert read.rows.tolist() == [[3, 1], [6, 4]]


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        ("a,b\n1,2\n", {"features": ["a", "z"]}, r"no column 'z' among \['a', 'b'\]"),
        ("a,b\n1,2\n", {"drop": ["z"]}, r"no column 'z' among \['a', 'b'\]"),
        ("1,2\n", {"drop": ["a"]}, "without a line of names"),
        ("a,b,a\n1,2,3\n", {}, "more than one column is called 'a'"),
        ("a,b,a\n1,2,3\n", {"features": ["b", "a"]}, "more than one column is called 'a'"),
        (",\n1,2\n", {}, "more than one column is called ''"),
    ],
)
def test_columns_that_can_not_be_told_are_refused(
    table: Any, text: str, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadInput, match=rf"data\.csv: .*{complaint}"):
        table(text, **options)


# Bad cells and rows

BAD = {
    "a,b\n1,2\n3,\n": r"line 3, column 2 \('b'\): the value is missing",
    "a,b\n1,2\n  ,4\n": r"line 3, column 1 \('a'\): the value is missing",
    "1,2\n3,\n": r"line 2, column 2: the value is missing",
    "a,b\n1,hot\n": r"line 2, column 2 \('b'\): 'hot' is not a finite number",
    "a,b\n1,inf\n": r"line 2, column 2 \('b'\): 'inf' is not a finite number",
    "a,b\n1,-Infinity\n": r"line 2, column 2 \('b'\): '-Infinity' is not a finite number",
    "a,b\nnan,2\n": r"line 2, column 1 \('a'\): 'nan' is not a finite number",
    "a,b\n1e999,2\n": r"line 2, column 1 \('a'\): '1e999' is not a finite number",
    "a,b\n1_000,2\n": r"line 2, column 1 \('a'\): '1_000' is not a finite number",
    "a;b\n1,5;2\n": r"line 2, column 1 \('a'\): '1,5' is not a finite number",
    "a,b\n\n1,2,3\n": "line 3: expected 2 columns, got 3",
    "a,b\n1\n": "line 2: expected 2 columns, got 1",
    "1,2\n3\n": "line 2: expected 2 columns, got 1",
    "time,1\n2,3\n": "line 1, column 1: 'time' is not a finite number",
    'a,b\n1,"2\n3,4\n': r"line 3, column 2 \('b'\): .* is not a finite number",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_cell_is_named_by_file_line_and_column(table: Any, text: str) -> None:
    with pytest.raises(BadInput, match=rf"data\.csv, {BAD[text]}"):
        table(text)


@pytest.mark.parametrize(
    ("bad", "place"),
    [("{", 0), ('{"a":' * 5000, 0), ("[" * 100000, 1), ('{"a":' * 5000, 150), ("[1]", 150)],
    ids=["cut at first", "deep at first", "deep", "deep and late", "list"],
)
def test_a_bad_line_among_objects_is_a_bad_row(table: Any, bad: str, place: int) -> None:
    lines = [f'{{"a": {n}}}' for n in range(200)]
    lines[place] = bad
    text = "\n".join(lines)
    with pytest.raises(BadInput, match=rf"line {place + 1}: .*JSON.*--skip-bad a row"):
        table(text)
    read = table(text, skip_bad=True)
    assert read.rows[:].ravel().tolist() == [n for n in range(200) if n != place]
    assert len(read.skipped) == 1


@pytest.mark.parametrize("cell", ["x", "0"])
@pytest.mark.parametrize("place", [0, 1, 150])
@pytest.mark.parametrize("options", [{}, {"drop": ("b",)}])
def test_a_cell_that_is_too_long_is_a_bad_row(
    table: Any, cell: str, place: int, options: Any
) -> None:
    lines = [f"{n},0.5,2" for n in range(200)]
    lines[place] = f"1,{cell * 140000},2"
    text = "\n".join(["a,b,c", *lines])
    with pytest.raises(BadInput, match=rf"line {place + 2}: field larger .*--skip-bad a row"):
        table(text, **options)
    read = table(text, skip_bad=True, **options)
    assert read.rows[:][:, 0].tolist() == [n for n in range(200) if n != place]
    assert read.lines[[0, -1]].tolist() == ([3, 201] if place == 0 else [2, 201])
    assert len(read.skipped) == 1


def test_a_quotation_mark_without_its_pair_swallows_no_rows_silently(table: Any) -> None:
    text = 'a,b\n1,"2\n' + "3,4\n" * 40000
    with pytest.raises(BadInput, match="quotation mark without its pair"):
        table(text, skip_bad=True)


# No table at all


@pytest.mark.parametrize(
    "content",
    [
        "temp °C,b\n1,2\n".encode("latin-1"),
        b"a,b\n" + b"1,2\n" * 9000 + "°,3\n".encode("latin-1"),
        "a,b\n1,2\n".encode("utf-16"),
    ],
    ids=["latin-1", "latin-1 far down", "utf-16"],
)
def test_what_is_no_text_in_utf8_is_refused_with_a_way_out(table: Any, content: bytes) -> None:
    with pytest.raises(BadInput, match=r"data\.csv: .*not text in UTF-8; --encoding "):
        table(content)


def test_a_quote_that_never_ends_is_refused(table: Any) -> None:
    with pytest.raises(BadInput, match=r"data\.csv: .*quotation mark"):
        table('a,b\n1,"2\n' + "3,4\n" * 50_000)


@settings(max_examples=law_examples(200), deadline=None)
@given(st.binary(max_size=80) | st.text(alphabet='01.,;\t"\n\r e-x_', max_size=80))
def test_any_content_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes | str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    try:
        read = read_table(path)
    except BadInput:
        return
    assert np.isfinite(read.rows).all()
    assert len(read.rows) == len(read.lines)


def test_progress_is_told_and_grows(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmgrove.reading.csv.CHUNK", 1000)
    heard: list[int] = []
    text = "a,b\n" + "1,2\n" * 2000
    table(text, progress=heard.append)
    assert heard == sorted(heard)
    assert len(set(heard)) > 3
    assert heard[-1] <= len(text)


# NumPy's own format


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int16, np.uint8, bool])
def test_numpy_files_of_any_real_dtype_are_read(table: Any, dtype: Any) -> None:
    read = table(npy(np.array([[0, 1, 1], [1, 0, 1]], dtype)), "data.npy")
    assert read.names is None
    assert read.rows.tolist() == [[0, 1, 1], [1, 0, 1]]
    assert read.rows.dtype == np.float64
    assert read.lines.tolist() == [0, 1]


@pytest.mark.parametrize(
    "array",
    [
        np.ones(3),
        np.array(1.0),
        np.ones((1, 2, 3)),
        np.ones((2, 2), complex),
        np.array([["a", "b"]]),
        np.array([[1, {}]], object),
        np.zeros((2, 2), [("a", float)]),
        np.zeros((2, 2), "M8[s]"),
    ],
    ids=["1-d", "0-d", "3-d", "complex", "text", "pickle", "records", "dates"],
)
def test_numpy_files_of_anything_else_are_refused(table: Any, array: Any) -> None:
    with pytest.raises(BadInput, match=r"data\.npy: .*numbers"):
        table(npy(array), "data.npy")


def stated(shape: str) -> bytes:
    """A .npy file that says it has this shape, and holds 480 bytes."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(480)


def an_archive() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.ones((2, 2)))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a,b\n1,2\n",
        an_archive(),
        an_archive()[:50],
        stated("(1000000000000, 3)"),
        stated("(99999999999999999999999, 3)"),
        stated("(-1, 3)"),
        stated("(True, 3)"),
        stated("(20, 3, "),
        stated("(61, 1)"),
        b"\x93NUMPY\x09\x00" + stated("(20, 3)")[8:],
    ],
    ids=[
        "empty", "text", "archive", "half an archive", "huge", "beyond any size", "negative",
        "no number", "no end", "one too many", "newer version",
    ],
)  # fmt: skip
def test_damaged_numpy_files_are_refused(table: Any, content: bytes) -> None:
    with pytest.raises(BadInput, match=r"data\.npy: not a \.npy file of numbers"):
        table(content, "data.npy")


def test_every_truncation_of_a_numpy_file_is_refused(table: Any) -> None:
    blob = npy(np.ones((20, 3)))
    for length in range(0, len(blob), 7):
        with pytest.raises(BadInput):
            table(blob[:length], "data.npy")


def test_bad_values_in_numpy_files_are_named_or_left_out(table: Any) -> None:
    rows = np.array([[1.0, 2.0], [3.0, np.nan], [np.inf, np.nan], [5.0, 6.0]])
    with pytest.raises(BadInput, match=r"data\.npy, row 1, column 2: nan is not a finite number"):
        table(npy(rows), "data.npy")
    read = table(npy(rows), "data.npy", skip_bad=True)
    assert read.rows.tolist() == [[1, 2], [5, 6]]
    assert read.lines.tolist() == [0, 3]
    assert [text.partition(", ")[2][:15] for text in read.skipped] == [
        "row 1, column 2",
        "row 2, column 1",
    ]


def timed(times: list[int]) -> str:
    moments = [f"2024-05-01T{one // 60:02}:{one % 60:02}:00" for one in times]
    return "\n".join(["ts,heat", *(f"{one},{n % 7}.5" for n, one in enumerate(moments))])


def test_a_table_with_the_newest_row_first_is_refused_with_what_to_do(table: Any) -> None:
    complaint = (
        r"data\.csv: times run backwards from line 3 on: sort the rows by time, oldest first"
    )
    with pytest.raises(BadInput, match=complaint):
        table(timed([*range(300, 0, -1)]))
    rows = "\n".join(f"{1500 + (n * 37) % 11},{n % 5}" for n in range(100))
    with pytest.raises(BadInput, match=r"if column 1 \('rpm'\) is their time; else --time COLUMN"):
        table(f"rpm,heat\n{rows}", time="rpm")


def test_a_jump_back_in_time_is_a_gap_and_told_as_one(table: Any) -> None:
    read = table(timed([*range(100), *range(50, 100), *range(200, 300)]))
    assert read.gaps == [100, 150]
    assert read.notes[-1] == (
        "1 gap in time, up to 6060 s where 60 s are usual and 1 jump back in time, by up to "
        "2940 s: windows begin again there"
    )


# The first lines: what is read past, delimiters, and names


def head(text: str, **layout: str) -> Head:
    return Head.of(text.split("\n"), Layout(**layout))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "delimiter", "names", "lines"),
    [
        ("sep=;\na;b\n1;2", ";", ["a", "b"], 2),
        ("# made by a logger\n# on Monday\n\na,b\n1,2", ",", ["a", "b"], 4),
        ("# a, b\n1,2\n3,4.5", ",", ["a", "b"], 1),
        ("# two, names, too many\n1,2", ",", None, 1),
        ("a\tb\n1\t2", "\t", ["a", "b"], 1),
        ("a|b\n1|2", "|", ["a", "b"], 1),
        ("1,5;2,5\n3;4", ";", None, 0),
        ("a;b, in l/min\n1;2", ";", ["a", "b, in l/min"], 1),
        ("", ",", None, 1),
    ],
)
def test_what_stands_before_the_rows(
    text: str, delimiter: str, names: list[str] | None, lines: int
) -> None:
    found = head(text)
    assert (found.delimiter, found.lines) == (delimiter, lines)
    assert (found.cells if found.named else None) == names


def test_with_decimal_commas_a_comma_separates_only_where_nothing_else_does() -> None:
    assert head("a;b\n1,5;2", decimal=",").delimiter == ";"
    assert head("x\n1,5", decimal=",").delimiter == ";"
    assert head("a,b\n1.5,2", decimal=",").delimiter == ","
    assert head("a b\n1 2", delimiter=" ").cells == ["a", "b"]


@pytest.mark.parametrize("first", ["1,2,3,4", "0,1,2,3", "01,1,2,3", ",0,1,2", "time,1,2,3"])
def test_numbers_that_count_columns_are_names_as_pandas_writes_them(first: str) -> None:
    for rows in ("1.5,2,3,4\n2.5,3,4,5", "5,6,7,8"):
        assert head(f"{first}\n{rows}").named == (first != "01,1,2,3")


# Columns that are no sensors: left out where it is sure, else said

RNG = np.random.default_rng(0)
SENSOR = RNG.normal(50.0, 1.0, 200).round(3)
FIRST = {
    "counts": np.arange(200),
    "epoch": 1714564800 + 10 * np.arange(200),
    "grows": np.cumsum(RNG.uniform(0.1, 0.9, 200)).round(3),
    "sensor": RNG.normal(0.0, 1.0, 200).round(3),
}


@pytest.fixture
def with_first(tmp_path: Path) -> Any:
    """Reads a table whose first column is called and filled like this."""

    def read(name: str, kind: str, layout: Layout | None = None, **options: Any) -> Table:
        lines = [f"{a},{b}" for a, b in zip(FIRST[kind], SENSOR, strict=True)]
        (tmp_path / "data.csv").write_text("\n".join([f"{name},heat", *lines]))
        return read_table(tmp_path / "data.csv", layout, **options)

    return read


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_the_index_of_pandas_is_left_out_and_that_is_said(with_first: Any, name: str) -> None:
    read = with_first(name, "counts")
    assert read.names == ("heat",)
    assert read.notes == [f"column 1 ({name!r}) counts the rows, and is left out"]
    assert with_first("", "sensor").names == ("", "heat")


def test_seconds_since_1970_in_a_column_called_like_a_time_are_the_time(with_first: Any) -> None:
    read = with_first("timestamp", "epoch")
    assert read.names == ("heat",)
    assert read.times.tolist() == FIRST["epoch"].tolist()
    assert read.notes == ["column 1 ('timestamp') is the time of each row, and not learned"]
    assert with_first("timestamp", "sensor").times is None


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("id", "counts", "column 'id' counts (0, 1, …) .* --drop id"),
        ("reading", "epoch", "column 'reading' is a clock .* --time reading"),
        ("uptime", "grows", "column 'uptime' only grows.* --drop uptime"),
    ],
)
def test_what_may_be_no_sensor_is_learned_and_said(
    with_first: Any, name: str, kind: str, said: str
) -> None:
    read = with_first(name, kind)
    assert read.names == (name, "heat")
    [note] = read.notes
    first, way_out = said.split(" .* " if " .* " in said else ".* ")
    assert note.startswith(first)
    assert note.endswith(way_out)


# Labels as spans of time

NOON = 1772452800.0  # 2026-03-02 12:00 UTC


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ("2026-03-02T12:00:00,2026-03-02T13:00:00\n", ""),
        ("start,end\n2026-03-02 12:00,2026-03-02 13:00\n", ""),
        ('begin,end,code\n\n2026-03-02 12:00,2026-03-02 13:00,"valve, stuck"\n', ""),
        (f"{NOON},{NOON + 3600}\n", ""),
        ("3/2/2026 12:00,3/2/2026 13:00\n", "=%m/%d/%Y %H:%M"),
        ("\ufeff2/3/2026 12:00,2/3/2026 13:00\n", "=%d/%m/%Y %H:%M"),
    ],
)
def test_begin_and_end_are_the_first_two_columns(tmp_path: Path, content: str, form: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(content)
    assert read_label_spans(f"{path}{form}") == [(NOON, NOON + 3600.0)]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"3/2/2026 12:00,3/2/2026 13:00\n", "line 1: ['3/2/2026 12:00', '3/2/2026 13:00'] are no"),
        (b"2026-03-02\n", "line 1: ['2026-03-02'] are no begin and end; FILE=FORMAT says"),
        (b"start,end\n2026-03-03,2026-03-02\n", "line 2: ends before it begins"),
        (b"\xff\xfe1", "not text in UTF-8"),
        (b'"' + b"a" * 200_000, "this is no CSV"),
    ],
)
def test_what_is_no_span_is_refused_with_its_line(
    tmp_path: Path, content: bytes, text: str
) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput) as error:
        read_label_spans(str(path))
    assert text in str(error.value)


def test_both_ends_belong_to_a_span() -> None:
    times = np.arange(6.0)
    assert within(times, [(1.0, 2.0), (4.5, 9.0)]).tolist() == [
        False,
        True,
        True,
        False,
        False,
        True,
    ]
    assert not within(times, []).any()


# A column that is read beside the rows

PAIRED = "a,mode,b\n1,auto,2\n\n3, manual ,4\n5,,6\n7,auto,8\n"


def beside(path: Path, text: str, name: str = "mode", **more: Any) -> Table:
    path.write_text(text)
    return read_table(path, Layout(beside=name, **more), skip_bad=True)


def test_cells_beside_stand_as_they_are_written(tmp_path: Path) -> None:
    found = beside(tmp_path / "rows.csv", PAIRED)
    assert found.names == ("a", "b")
    assert found.beside is not None
    assert found.beside.cells.tolist() == ["auto", " manual ", "auto"]
    assert found.beside.lines.tolist() == found.lines.tolist() == [2, 4, 6]
    assert found.beside.at([2]).where(0).endswith("rows.csv, line 6, column 2 ('mode')")
    assert "line 5, column 2 ('mode'): the value is missing" in found.skipped[0]


def test_a_missing_cell_beside_is_named_and_never_held(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(PAIRED)
    with pytest.raises(BadInput, match=r"line 5, column 2 \('mode'\): the value is missing"):
        read_table(path, Layout(beside="mode", missing="hold"))
    remembered = Layout(beside="mode", remembered=frozenset({"beside"}))
    assert read_table(path, remembered).rows.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_other_formats_have_a_column_beside_too(tmp_path: Path) -> None:
    objects = beside(tmp_path / "rows.jsonl", '{"a": 1, "mode": true}\n{"a": 2, "mode": 3.0}\n')
    assert objects.beside is not None
    assert objects.beside.cells.tolist() == [True, 3.0]
    plain = beside(tmp_path / "plain.csv", "1;2,5\n3;4,5\n", "2", decimal=",")
    assert plain.beside is not None
    assert plain.beside.cells.tolist() == ["2,5", "4,5"]
    assert plain.rows.tolist() == [[1], [3]]
    np.save(tmp_path / "rows.npy", np.array([[1.0, 2.0], [3.0, 4.0]]))
    array = read_table(tmp_path / "rows.npy", Layout(beside="1"))
    assert array.beside is not None
    assert (array.beside.cells.tolist(), array.rows.tolist()) == ([1.0, 3.0], [[2], [4]])
