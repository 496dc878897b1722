"""What is written in one format reads equal from all."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove.reading.layout import Layout
from elmgrove.reading.table import read_table
from support.laws import law_examples

NAMES = ("flow", "heat", "noise")
numbers = st.floats(-1e19, 1e19) | st.decimals(-1000, 1000, allow_nan=False, places=3).map(float)
tables = st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=12)


def text(rows: list[list[float]], delimiter: str = ",", decimal: str = ".") -> bytes:
    lines = [delimiter.join(NAMES)]
    lines += [delimiter.join(repr(value) for value in row).replace(".", decimal) for row in rows]
    return ("\n".join(lines) + "\n").encode()


def json_lines(rows: list[list[float]]) -> bytes:
    return "".join(f"{json.dumps(dict(zip(NAMES, row, strict=True)))}\n" for row in rows).encode()


def parquet(rows: list[list[float]]) -> bytes:
    buffer = io.BytesIO()
    columns = dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def npy(rows: list[list[float]]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array(rows))
    return buffer.getvalue()


FORMATS: dict[str, Any] = {
    "csv": (text, {}),
    "tsv": (lambda rows: text(rows, "\t"), {}),
    "bars": (lambda rows: text(rows, "|"), {}),
    "decimal commas": (lambda rows: text(rows, ";", ","), {"decimal": ","}),
    "utf-16": (lambda rows: text(rows).decode().encode("utf-16"), {"encoding": "utf-16"}),
    "no line feeds": (lambda rows: text(rows).replace(b"\n", b"\r"), {}),
    "quoted": (lambda rows: text(rows).replace(b",", b'","').replace(b"\n", b'"\n"')[:-1], {}),
    "remarks": (lambda rows: b"# of a pump\nsep=,\n" + text(rows) + b"# the end\n", {}),
    "gzip": (lambda rows: gzip.compress(text(rows)), {}),
    "json lines": (json_lines, {}),
    "packed json lines": (lambda rows: gzip.compress(json_lines(rows)), {}),
    "parquet": (parquet, {}),
    "npy": (npy, {}),
}


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=law_examples(25), deadline=None)
@given(rows=tables)
def test_a_table_is_the_same_in_every_format(
    tmp_path_factory: pytest.TempPathFactory, name: str, rows: list[list[float]]
) -> None:
    write, layout = FORMATS[name]
    content = b'"' + write(rows) if name == "quoted" else write(rows)
    # By what is in it, and not by how it is called.
    path = tmp_path_factory.getbasetemp() / "table"
    path.write_bytes(content)
    read = read_table(path, Layout(**layout))
    assert read.rows.tolist() == rows
    assert read.names == (None if name == "npy" else NAMES)


@settings(max_examples=law_examples(25), deadline=None)
@given(rows=tables, chunk=st.integers(1, 40))
def test_a_table_is_the_same_however_many_bytes_are_read_at_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]], chunk: int
) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "table"
    path.write_bytes(text(rows).replace(b"\n", b"\r\n"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmgrove.reading.csv.CHUNK", len(text(rows)) // 2 + chunk)
        read = read_table(path)
    assert read.rows.tolist() == rows
    assert read.lines.tolist() == list(range(2, len(rows) + 2))
