"""What a file is, by its bytes; what is not read is named with what to do."""

import gzip
import io
import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elmgrove import BadInput
from elmgrove.errors import MissingExtra
from elmgrove.reading.columns import MOST_COLUMNS
from elmgrove.reading.csv import LONGEST_LINE
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import read_table


def refused(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read_table(path)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04\x14\x00\x06\x00[Content_Types].xml", "an Excel workbook; save it as CSV"),
        (b"PK\x03\x04\x14\x00\x06\x00fans.csv", "a zip archive; unpack it"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an Excel workbook; save it as CSV"),
        (b"BZh91AY", "bzip2; unpack it"),
        (b"\xfd7zXZ\x00", "xz; unpack it"),
        (b"\x89HDF\r\n", "HDF5; save its table as CSV"),
        (b"SQLite format 3\x00", "an SQLite data base; export a table"),
        (b"<?xml version='1.0'?>", "XML or HTML; save its table as CSV"),
        ("a,b\n1,2\n".encode("utf-16"), "text in UTF-16, not text in UTF-8; --encoding utf-16"),
        ("a,b\n1,2\n".encode("utf-16-le"), "text in UTF-16, without a mark; --encoding utf-16-le"),
        ("a,b\n1,2\n".encode("utf-16-be"), "text in UTF-16, without a mark; --encoding utf-16-be"),
    ],
    ids=lambda one: one[:12] if isinstance(one, str) else "",
)
def test_what_is_not_read_is_named_with_what_to_do(
    tmp_path: Path, content: bytes, message: str
) -> None:
    assert refused(tmp_path, content).startswith(f"this is {message}")
    assert refused(tmp_path, gzip.compress(content)).startswith(f"this is {message}")


def test_gzip_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 5000)
    assert refused(tmp_path, whole[:-8]).startswith("this is gzip, but damaged or cut short")
    assert "damaged" in refused(tmp_path, whole[:20] + b"\x00\xff" * 20 + whole[60:])


def test_standard_input_is_read_as_a_file_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blob = io.BytesIO()
    np.save(blob, np.eye(2))
    for content in (b"a,b\n1,0\n0,1\n", gzip.compress(b"a;b\n1;0\n0;1\n"), blob.getvalue()):
        path = tmp_path / "piped"
        path.write_bytes(content)
        with path.open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            assert read_table("-").rows.tolist() == [[1, 0], [0, 1]]


def test_parquet_needs_an_extra_which_is_told_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fans"
    path.write_bytes(b"PAR1....PAR1")
    with pytest.raises(BadInput, match="a damaged Parquet file"):
        read_table(path)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    both = r"pip install 'elmgrove\[parquet\]' \(from a checkout: pip install '\.\[parquet\]'\)"
    with pytest.raises(MissingExtra, match=both):
        read_table(path)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8"])
def test_a_stated_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes("Wärme °C,b\n1,2\n".encode(encoding))
    assert read_table(path, Layout(encoding=encoding)).names == ("Wärme °C", "b")


def test_another_encoding_than_stated_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"a,b\n1,2\n\x81,3\n")
    with pytest.raises(BadInput, match="not text in cp1252"):
        read_table(path, Layout(encoding="cp1252"))


def test_a_parquet_time_that_no_calendar_has_is_a_bad_row(tmp_path: Path) -> None:
    count, path = 50, tmp_path / "fan.parquet"
    times = [1_700_000_000_000_000 + 1_000_000 * i for i in range(count)]
    times[3] = times[40] = 2**62
    columns = {"t": pa.array(times, pa.timestamp("us")), "a": np.arange(count) % 7.0}
    pq.write_table(pa.table(columns), path)
    with pytest.raises(BadInput, match=r"row 3, .*is no time"):
        read_table(path)
    table = read_table(path, skip_bad=True)
    assert (len(table.rows), table.names) == (count - 2, ("a",))


def test_a_line_without_an_end_is_refused_before_it_is_read(tmp_path: Path) -> None:
    # 64 MB of zeros, in 64 kB.
    packed = gzip.compress(b"a,b\n1,2\n" + b"0" * (1 << 26))
    tracemalloc.start()
    assert refused(tmp_path, packed).startswith("a line of more than 16 MB")
    assert tracemalloc.get_traced_memory()[1] < 4 * LONGEST_LINE
    tracemalloc.stop()


@pytest.mark.parametrize("columns", [MOST_COLUMNS + 1, 200_000])
def test_more_columns_than_a_table_has_are_refused(tmp_path: Path, columns: int) -> None:
    names = ",".join(f"s{number}" for number in range(columns))
    text = f"{names}\n{','.join('1' * columns)}\n"
    assert f"{columns:,} columns, where a table may have 16,384" in refused(tmp_path, text.encode())


DANGEROUS = "temp\x1b]0-owned\x07\x9b31m\u202e"


@pytest.mark.parametrize("form", ["csv", "remark", "jsonl", "parquet", "lp"])
def test_control_characters_in_names_are_written_out(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"data.{form}"
    content = {
        "csv": f"{DANGEROUS},b\n1,2\n3,4\n",
        "remark": f"# {DANGEROUS},b\n1,2\n3,4\n",
        "jsonl": f"{json.dumps({DANGEROUS: 1, 'b': 2})}\n{json.dumps({DANGEROUS: 3, 'b': 4})}\n",
        "lp": f"pump {DANGEROUS}=1,b=2\npump {DANGEROUS}=3,b=4\n",
    }
    if form == "parquet":
        pq.write_table(pa.table({DANGEROUS: [1, 3], "b": [2, 4]}), path)
    else:
        path.write_text(content[form])
    found = read_table(path)
    assert found.names == (r"temp\x1b]0-owned\x07\x9b31m\u202e", "b")
    assert found.rows.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert read_table(path, features=found.names).rows.tolist() == found.rows.tolist()
