"""Rows from every format, and the way back to each of them from a bookmark."""

import gzip
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from elmgrove import BadInput
from elmgrove.device.sources import open_source
from elmgrove.device.sources.text import Bad, Source
from elmgrove.reading.layout import Layout
from support.sources import read_now, rows_in

pytestmark = pytest.mark.usefixtures("unpaced")

#: Rows that every format holds to the last bit, with a name that is not plain ASCII.
NAMES = ["Wärme", "b"]
ROWS = [[n, n / 7] for n in range(300)]


def opened(path: Path, *, bookmark: Any = None, follow: bool = False, **layout: Any) -> Source:
    return open_source(str(path), follow=follow, layout=Layout(**layout), bookmark=bookmark)


def csv(delimiter: str = ",", decimal: str = ".") -> str:
    lines = [NAMES, *([repr(value) for value in row] for row in ROWS)]
    cells = ([cell.replace(".", decimal) for cell in line] for line in lines)
    return "".join(delimiter.join(line) + "\n" for line in cells)


def json_lines() -> str:
    return "".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in ROWS)


def write_npy(path: Path) -> None:
    np.save(path, np.array(ROWS))


def write_parquet(path: Path) -> None:
    pd.DataFrame(ROWS, columns=NAMES).to_parquet(path, row_group_size=70)


def write(text: str, encoding: str = "utf-8") -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(text.encode(encoding))


def write_packed(text: str, encoding: str = "utf-8") -> Callable[[Path], Any]:
    # Two packed files one after the other are one.
    half = len(text) // 2
    parts = (text[:half].encode(encoding), text[half:].encode(encoding))
    return lambda path: path.write_bytes(b"".join(map(gzip.compress, parts)))


FORMATS: dict[str, tuple[Callable[[Path], Any], dict[str, Any]]] = {
    "fan.csv": (write(csv()), {}),
    "fan.tsv": (write(csv("\t")), {}),
    "fan.csv.gz": (write_packed(csv()), {}),
    "fan.jsonl": (write(json_lines()), {}),
    "fan.jsonl.gz": (write_packed(json_lines()), {}),
    "comma.csv": (write(csv(";", ",")), {"decimal": ","}),
    "latin.csv": (write(csv(), "latin-1"), {"encoding": "latin-1"}),
    "wide.tsv": (write(csv("\t"), "utf-16"), {"encoding": "utf-16"}),
    "wide.tsv.gz": (write_packed("\ufeff" + csv("\t"), "utf-16-le"), {"encoding": "utf-16-le"}),
    "fan.npy": (write_npy, {}),
    "fan.parquet": (write_parquet, {}),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    make, layout = FORMATS[name]
    make(tmp_path / name)
    read = opened(tmp_path / name, **layout)
    assert rows_in(list(read)) == ROWS
    assert read.names == (None if name == "fan.npy" else tuple(NAMES))


@pytest.mark.parametrize("name", FORMATS)
def test_every_bookmark_leads_to_the_row_after_it(tmp_path: Path, name: str) -> None:
    make, layout = FORMATS[name]
    make(tmp_path / name)
    whole = list(opened(tmp_path / name, **layout))
    for place in (0, 1, 150, 298, 299):
        bookmark = json.loads(json.dumps(whole[place].bookmark))
        again = list(opened(tmp_path / name, bookmark=bookmark, **layout))
        assert again == whole[place + 1 :]


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_was_replaced_is_read_from_its_start(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, layout = FORMATS[name]
    make(tmp_path / name)
    bookmark = list(opened(tmp_path / name, **layout))[150].bookmark
    assert bookmark is not None
    bookmark["last"] = [bookmark["last"][0], bookmark["last"][1] + 1]
    assert rows_in(list(opened(tmp_path / name, bookmark=bookmark, **layout))) == ROWS
    assert "was replaced" in caplog.text


@pytest.mark.parametrize("name", ["fan.csv", "fan.csv.gz", "fan.jsonl", "wide.tsv"])
def test_text_can_be_followed_whatever_it_is_packed_in(tmp_path: Path, name: str) -> None:
    make, layout = FORMATS[name]
    path = tmp_path / name
    make(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    path.write_bytes(content[: len(content) // 3])
    items = iter(opened(path, follow=True, **layout))
    first = read_now(items)
    with path.open("ab") as file:
        file.write(content[len(content) // 3 :])
    assert 0 < len(first) < len(ROWS)
    assert rows_in(first + read_now(items)) == ROWS
    again = opened(path, follow=True, bookmark=first[-1].bookmark, **layout)
    assert rows_in(first + read_now(iter(again))) == ROWS


@pytest.mark.parametrize("name", ["fan.csv", "fan.csv.gz", "fan.jsonl.gz", "wide.tsv"])
def test_standard_input_may_be_packed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, layout = FORMATS[name]
    make(tmp_path / name)
    with (tmp_path / name).open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        items = [item for item in open_source("-", follow=False, layout=Layout(**layout)) if item]
    assert rows_in(items) == ROWS


def test_where_a_packed_file_was_cut_a_log_and_a_folder_go_on(tmp_path: Path) -> None:
    cut, whole = gzip.compress(csv().encode())[:-200], csv().encode()
    log = tmp_path / "fan.csv"
    log.write_bytes(cut)
    items = iter(opened(log, follow=True))
    before = rows_in(read_now(items))
    log.rename(tmp_path / "fan.csv.1")
    log.write_bytes(whole)
    found = read_now(items)
    assert [item.where for item in found if isinstance(item, Bad)] == [str(log)]
    assert rows_in(found) == ROWS
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for name, content in (("1.csv.gz", cut), ("2.csv.gz", gzip.compress(whole))):
        (inbox / name).write_bytes(content)
        os.utime(inbox / name, (0, 0))
    source = opened(inbox)
    found = read_now(iter(source))
    assert rows_in(found) == before + ROWS
    assert [item.whole for item in found if isinstance(item, Bad)] == [False]
    assert not (inbox / "bad").exists(), "its rows were read, and are not saved yet"
    source.saved(found[-1].bookmark)
    assert len(list((inbox / "done").iterdir())) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04 xl/ \n", "this is an Excel workbook"),
        ("a,b\n1,2\n".encode("utf-16"), "this is text in UTF-16.*--encoding utf-16"),
    ],
)
@pytest.mark.parametrize("follow", [True, False])
def test_what_is_not_read_is_named(tmp_path: Path, content: bytes, said: str, follow: bool) -> None:
    path = tmp_path / "fan.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=said):
        read_now(iter(opened(path, follow=follow)))


@pytest.mark.parametrize("make", [write_npy, write_parquet])
def test_a_table_can_not_be_followed(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    make(tmp_path / "fan.npy")
    with pytest.raises(BadInput, match=r"this is (\.npy|Parquet), which is read as a file"):
        read_now(iter(opened(tmp_path / "fan.npy", follow=True)))


def test_a_folder_takes_every_format(tmp_path: Path) -> None:
    for number, name in enumerate(["fan.csv", "fan.csv.gz", "fan.jsonl", "fan.parquet", "fan.npy"]):
        FORMATS[name][0](tmp_path / f"{number}.{name}")
    (tmp_path / "5.csv").write_text("".join(f"{a!r},{b!r}\n" for a, b in ROWS))
    (tmp_path / "readme.txt").write_text("hello\n")
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))  # written long ago, so not being written now
    source = open_source(str(tmp_path), follow=False)
    found = read_now(iter(source))
    assert rows_in(found) == ROWS * 6
    source.saved(found[-1].bookmark)
    assert len(list((tmp_path / "done").iterdir())) == 6
    assert (tmp_path / "readme.txt").exists()
