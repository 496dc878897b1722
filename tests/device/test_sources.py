"""Rows from files that grow, turn and break, from pipes and from folders."""

import errno
import json
import logging
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput
from elmgrove.device.sources import folder, text
from elmgrove.device.sources.text import Bad, Reading
from support.laws import law_examples
from support.sources import drop_file, open_rows, read_now, rows_in

pytestmark = pytest.mark.usefixtures("unpaced")


def bad(items: list[Any], *, whole: bool = False) -> list[tuple[str, str]]:
    """The bad rows, or the files that were refused as a whole."""
    found = [item for item in items if isinstance(item, Bad) and item.whole == whole]
    return [(item.where, item.reason) for item in found]


def saved(bookmark: Any) -> Any:
    """A bookmark as a restart finds it."""
    return json.loads(json.dumps(bookmark))


def append(path: Path, content: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "elmgrove.device"]


# A file


def test_a_file_is_read_to_its_end(path: Path) -> None:
    path.write_text("time,a,b\n0:00,1,2\n\n0:01,3,4")
    read = open_rows(path, drop=["time"])
    assert (read.names, read.width) == (None, None)
    items = list(read)
    assert rows_in(items) == [[1, 2], [3, 4]]
    assert [item.where for item in items] == [f"{path}, line 2", f"{path}, line 4"]
    assert (read.names, read.width) == (("a", "b"), 2)


@pytest.mark.parametrize(
    ("content", "options", "complaint"),
    [
        ("a,b\n1,2\n", {"features": ["z"]}, "fan.csv, line 1: no column 'z'"),
        ("1,2\n", {"drop": ["a"]}, "without a line of names"),
        ("a,a\n", {}, "more than one column"),
        ("°,b\n1,2\n".encode("latin-1"), {}, "not text in UTF-8"),
        ("x" * 200_000 + "\n", {}, "field larger"),
    ],
)
@pytest.mark.parametrize("follow", [True, False])
def test_a_file_of_other_columns_is_refused(
    path: Path, content: str | bytes, options: Any, complaint: str, follow: bool
) -> None:
    append(path, content)
    with pytest.raises(BadInput, match=complaint):
        read_now(iter(open_rows(path, follow=follow, **options)))


def test_a_line_without_an_end_is_cut_before_it_fills_the_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "LONGEST", 100_000)
    path.write_bytes(b"a,b\n1,2\n" + b"x" * 1_000_000 + b"\n3,4\n")
    items = list(open_rows(path))
    assert rows_in(items) == [[1, 2], [3, 4]]
    assert 5 <= len(bad(items)) <= 10


# A file that grows


def test_half_a_line_is_no_row_yet(path: Path) -> None:
    items = iter(open_rows(path, follow=True))
    for piece, expected in [
        ("a,", []), ("b\n1,2", []), ("5\n", [[1, 25]]), ("3,4\r", []), ("\n", [[3, 4]]),
        ("5,", []), ("6\n7,8\n9", [[5, 6], [7, 8]]),
    ]:  # fmt: skip
        append(path, piece)
        assert rows_in(read_now(items)) == expected


def test_a_renamed_file_is_finished_before_the_new_one(path: Path) -> None:
    path.write_text("a,b\n1,2\n")
    items = iter(open_rows(path, follow=True))
    assert rows_in(read_now(items)) == [[1, 2]]
    old = path.rename(path.with_suffix(".1"))
    append(old, "3,4\n")
    assert rows_in(read_now(items)) == [[3, 4]], "nothing has taken its place yet"
    append(old, "5,6\n")
    path.write_text("b,more,a\n8,0,7\n")
    append(old, "9,")
    found = read_now(items)
    assert rows_in(found) == [[5, 6], [7, 8]]
    assert bad(found) == [(f"{path}, line 5", "its end was never written")]
    append(path, "10,0,9\n")
    assert [(item.row, item.where) for item in read_now(items)] == [([9, 10], f"{path}, line 3")]


@pytest.mark.parametrize("header", ["", "t,a,b\n"])
def test_a_file_that_was_cut_is_read_from_its_start(path: Path, header: str) -> None:
    path.write_text("t,a,b\nx,1,2\ny,3,4\nz,5")
    items = iter(open_rows(path, follow=True, drop=["t"]))
    assert rows_in(read_now(items)) == [[1, 2], [3, 4]]
    path.write_text("")
    assert bad(read_now(items)) == [(f"{path}, line 4", "its end was never written")]
    append(path, header + "z,5,6\n")
    (item,) = read_now(items)
    assert item.row == [5, 6]
    assert item.where == f"{path}, line {2 if header else 1}"
    # The columns of a file that starts with numbers are known from the bookmark alone.
    append(path, "z,7,8\n")
    again = open_rows(path, follow=True, drop=["t"], bookmark=saved(item.bookmark))
    assert rows_in(read_now(iter(again))) == [[7, 8]]
    assert again.names == ("a", "b")


# Bookmarks


TABLE = "\ufefft;a;b\r\n" + "".join(f"x;{n};{n / 7}\r\n" + "\r\n" * (n % 2) for n in range(9))


@pytest.mark.parametrize("follow", [True, False])
def test_every_bookmark_leads_to_the_row_after_it(path: Path, follow: bool) -> None:
    path.write_text(TABLE, newline="")
    options: dict[str, Any] = {"follow": follow, "drop": ["t"]}
    whole = read_now(iter(open_rows(path, **options)))
    assert len(whole) == 9
    for n, item in enumerate(whole):
        again = open_rows(path, bookmark=saved(item.bookmark), **options)
        assert read_now(iter(again)) == whole[n + 1 :]
        assert again.names == ("a", "b")


@settings(max_examples=law_examples(60), deadline=None)
@given(cuts=st.lists(st.integers(1, 40), min_size=1), seed=st.integers(0, 2**32))
def test_any_growth_with_any_restarts_gives_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], seed: int
) -> None:
    luck = random.Random(seed)
    path = tmp_path_factory.mktemp("growth") / "fan.csv"
    content, pieces = TABLE.encode(), iter(cuts)
    read: list[Reading] = []
    kept, bookmark = 0, None
    items = iter(open_rows(path, follow=True, drop=["t"]))
    while content:
        size = next(pieces, len(content))
        append(path, content[:size])
        content = content[size:]
        # The agent reads some rows, or all, and saves after some of them or none.
        for item in islice(items, luck.randrange(1, 20)):
            read += [] if item is None else [item]
            if read and luck.random() < 0.3:
                bookmark, kept = saved(read[-1].bookmark), len(read)
        if luck.random() < 0.6 or not content:
            items = iter(open_rows(path, follow=True, drop=["t"], bookmark=bookmark))
            del read[kept:]
    read += read_now(items)
    assert rows_in(read) == [[n, n / 7] for n in range(9)]
    assert [item.where for item in read] == [item.where for item in open_rows(path, drop=["t"])]


def other_file(path: Path) -> None:
    path.rename(path.with_suffix(".1"))
    path.write_text("a,b\n1,2\n3,4\n5,6\n7,8\n")


@pytest.mark.parametrize(
    "change",
    [
        other_file,
        lambda path: path.write_text("a,b\n1,2\n"),
        lambda path: path.write_text("a,b\n9,9\n9,9\n9,9\n9,9\n"),
    ],
    ids=["another", "shorter", "rewritten"],
)
@pytest.mark.parametrize("follow", [True, False])
def test_a_bookmark_into_a_file_that_was_replaced_starts_over_with_a_warning(
    path: Path, change: Callable[[Path], Any], follow: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text("a,b\n1,2\n3,4\n5,6\n")
    bookmark = saved(list(open_rows(path))[1].bookmark)
    change(path)
    found = read_now(iter(open_rows(path, follow=follow, bookmark=bookmark)))
    assert rows_in(found) == rows_in(list(open_rows(path)))
    assert warned(caplog) == [f"{path} was replaced: reading it from the start"]


def test_a_file_that_is_not_there_yet_is_waited_for_and_that_is_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    items = iter(open_rows(path, follow=True))
    with caplog.at_level(logging.INFO):
        assert [next(items) for _ in range(3)] == [None] * 3
    assert caplog.messages == [f"{path} is not there: waiting for it"]
    path.write_text("a,b\n1,2\n")
    assert rows_in(read_now(items)) == [[1.0, 2.0]]


# Standard input


COPY = """
from elmgrove.device.sources import open_source
from elmgrove.device.sources.text import Reading
source = open_source("-", follow=False)
idle = False
for item in source:
    if item is None:
        if not idle:
            print("idle", flush=True)
        idle = True
    else:
        idle = False
        print(item, flush=True) if not isinstance(item, Reading) else print(item.row, flush=True)
print(source.names)
"""


@pytest.fixture
def copier() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", COPY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_standard_input_is_read_without_waiting_for_it(copier: subprocess.Popen[str]) -> None:
    assert copier.stdin is not None
    assert copier.stdout is not None
    assert copier.stdout.readline() == "idle\n"
    for written, expected in [("a,b\n1,2\n3", "[1.0, 2.0]\n"), (",4\n", "[3.0, 4.0]\n")]:
        copier.stdin.write(written)
        copier.stdin.flush()
        assert copier.stdout.readline() == expected
        assert copier.stdout.readline() == "idle\n"
    copier.stdin.write("x,5\n6,7")
    copier.stdin.close()
    rest = copier.stdout.read()
    assert "Bad(where='standard input, line 4', reason=\"column 1 ('a'): 'x' is not" in rest
    assert rest.endswith("[6.0, 7.0]\n('a', 'b')\n")
    assert copier.wait(300) == 0


# A folder


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "inbox").mkdir()
    return tmp_path / "inbox"


def names(path: Path) -> list[str]:
    return sorted(found.name for found in path.iterdir()) if path.exists() else []


def test_files_are_read_by_name_and_moved_once_that_is_saved(inbox: Path) -> None:
    drop_file(inbox / "b.csv", "b,a\n4,3\n6,5")
    drop_file(inbox / "a.csv", "a,b\n1,2\n")
    drop_file(inbox / "other.txt", "0,0\n")
    drop_file(inbox / ".c.csv", "0,0\n")
    (inbox / "folder.csv").mkdir()
    read = open_rows(inbox)
    found = read_now(items := iter(read))
    assert rows_in(found) == [[1, 2], [3, 4], [5, 6]]
    assert found[0].where == f"{inbox / 'a.csv'}, line 2"
    assert names(inbox / "done") == []
    read.saved(saved(found[1].bookmark))
    assert names(inbox / "done") == ["a.csv"]
    assert read_now(items) == []
    read.saved(saved(found[2].bookmark))
    assert names(inbox / "done") == ["a.csv", "b.csv"]
    assert names(inbox) == [".c.csv", "done", "folder.csv", "other.txt"]


def test_a_file_is_left_alone_while_it_is_written(
    inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = iter(open_rows(inbox))
    monkeypatch.setattr(folder, "SETTLE", 1800.0)
    for name, age in [("now", 0), ("old", 3600), ("ahead", -3600)]:
        (inbox / f"{name}.csv").write_text(f"{age},0\n")
        os.utime(inbox / f"{name}.csv", (time.time() - age,) * 2)
    assert rows_in(read_now(items)) == [[-3600, 0], [3600, 0]]
    monkeypatch.setattr(folder, "SETTLE", 0.0)
    assert rows_in(read_now(items)) == [[0, 0]]


def test_nothing_in_done_is_overwritten(inbox: Path) -> None:
    read = open_rows(inbox)
    items = iter(read)
    for n in range(3):
        drop_file(inbox / "a.b.csv", f"{n},{n}\n")
        (item,) = read_now(items)
        read.saved(item.bookmark)
    assert names(inbox / "done") == ["a.b.1.csv", "a.b.2.csv", "a.b.csv"]
    assert (inbox / "done" / "a.b.2.csv").read_text() == "2,2\n"


def test_what_can_not_be_read_goes_to_bad_and_is_told(inbox: Path) -> None:
    drop_file(inbox / "1.csv", "a,b\n1,2\n")
    drop_file(inbox / "2.csv", b"\xff\xfe\x00")
    drop_file(inbox / "3.csv", "a,c\n1,2\n")
    drop_file(inbox / "4.csv", "a,b\nx,y\n1\n")
    drop_file(inbox / "5.csv", "a,b\nx,y\n3,4\n")
    drop_file(inbox / "6.csv", "a,b\n")
    read = open_rows(inbox)
    found = read_now(iter(read))
    assert rows_in(found) == [[1, 2], [3, 4]]
    assert len(bad(found)) == 3
    assert names(inbox / "bad") == ["2.csv", "3.csv", "4.csv"]
    assert names(inbox / "done") == ["6.csv"]
    reasons = ("not text in UTF-8", "no column 'b'", "not one good row: expected 2 columns, got 1")
    for number, (refused, reason) in enumerate(
        zip(bad(found, whole=True), reasons, strict=True), 2
    ):
        assert refused[0] == str(inbox / f"{number}.csv")
        assert reason in refused[1]
        assert refused[1].endswith(f"; moved to {inbox / 'bad' / f'{number}.csv'}")
    read.saved(found[-1].bookmark)
    assert names(inbox / "done") == ["1.csv", "5.csv", "6.csv"]


@pytest.mark.parametrize("early", [True, False])
def test_a_new_file_of_the_same_name_is_read_and_not_taken_for_the_old_one(
    inbox: Path, early: bool
) -> None:
    drop_file(inbox / "a.csv", "1,2\n")
    read = open_rows(inbox)
    items = iter(read)
    (first,) = read_now(items)
    drop_file(inbox / "new", "3,4\n")
    (inbox / "new").rename(inbox / "a.csv")
    if early:
        read.saved(first.bookmark)
    (second,) = read_now(items)
    assert second.row == [3, 4]
    read.saved(first.bookmark)
    assert names(inbox) == ["a.csv"], "its own row is not saved yet"
    read.saved(second.bookmark)
    assert names(inbox / "done") == ["a.csv"]


@settings(max_examples=law_examples(60), deadline=None)
@given(seed=st.integers(0, 2**32), files=st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_any_restarts_in_a_folder_read_each_row_once(
    tmp_path_factory: pytest.TempPathFactory, seed: int, files: list[int]
) -> None:
    luck = random.Random(seed)
    inbox = tmp_path_factory.mktemp("inbox")
    waiting = [(f"{luck.random()}.csv", n, count) for n, count in enumerate(files)]
    kept: list[list[float]] = []
    bookmark: Any = None
    for last in [False] * 8 + [True]:
        read, unsaved = open_rows(inbox, bookmark=bookmark), []
        items = iter(read)
        for name, n, count in waiting if last else waiting[: luck.randrange(3)]:
            rows_of = "".join(f"{n},{row}\n" for row in range(count))
            drop_file(inbox / name, "file,row\n" + rows_of + "x,x\n" * (count % 2))
            waiting = waiting[1:]
        for item in read_now(items) if last else islice(items, luck.randrange(12)):
            if isinstance(item, Reading):
                unsaved.append(item)
            if unsaved and (luck.random() < 0.3 or (last and item is not None)):
                bookmark = saved(unsaved[-1].bookmark)
                kept += rows_in(unsaved)
                unsaved = []
                if luck.random() < 0.7:  # else killed after saving, before this was heard
                    read.saved(bookmark)
        del items
    read.saved(bookmark or {"inode": 0, "offset": 0, "finished": {}})
    wanted = [[n, row] for n, count in enumerate(files) for row in range(count)]
    assert sorted(kept) == wanted
    assert [name for name in names(inbox) if name.endswith(".csv")] == []


# A disk that is not as it should be


def test_a_file_that_can_not_be_moved_is_not_read_again(
    inbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (inbox / "done").write_text("in the way")
    (inbox / "bad").write_text("in the way")
    drop_file(inbox / "a.csv", "1,2\n3,4\n")
    drop_file(inbox / "b.csv", "no,good\nrow,here\n")
    drop_file(inbox / "c.csv", "5,6\n")
    read = open_rows(inbox)
    items = iter(read)
    found = read_now(items)
    assert rows_in(found) == [[1, 2], [3, 4], [5, 6]]
    assert bad(found, whole=True)[0][1].endswith("left where it is")
    read.saved(saved(found[-1].bookmark))
    assert read_now(items) == []
    assert names(inbox) == ["a.csv", "b.csv", "bad", "c.csv", "done"]
    assert len(warned(caplog)) == 1
    drop_file(inbox / "d.csv", "7,8\n")
    last = read_now(items)
    assert rows_in(last) == [[7, 8]]
    again = iter(open_rows(inbox, bookmark=saved(last[-1].bookmark)))
    assert rows_in(read_now(again)) == [], "nor after a restart"
    (inbox / "done").unlink()
    (inbox / "bad").unlink()
    read_now(items)
    assert names(inbox / "done") == ["a.csv", "c.csv"]
    assert names(inbox / "bad") == ["b.csv"]


def test_a_folder_that_is_away_for_a_while_is_looked_at_again(
    inbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    items = iter(open_rows(inbox))
    read_now(items)
    inbox.rename(inbox.with_name("away"))
    assert read_now(items) == []
    inbox.with_name("away").rename(inbox)
    drop_file(inbox / "a.csv", "1,2\n")
    assert rows_in(read_now(items)) == [[1, 2]]
    assert warned(caplog) == [
        f"{inbox} can't be read: No such file or directory; that is tried again",
        f"{inbox} can be read again",
    ]


def test_a_file_that_can_not_be_read_for_a_while_is_read_on(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text("1,2\n3,4\n")
    items = iter(open_rows(path, follow=True))
    assert rows_in(read_now(items)) == [[1, 2], [3, 4]]
    with path.open("a") as file:
        file.write("5,6\n")
    # What is read from a disk that breaks, or from a server that is away.
    broken = OSError(errno.EIO, "Input/output error")
    with monkeypatch.context() as patched:
        patched.setattr(text.TextFile, "lines", lambda self: raising(broken))
        assert read_now(items) == []
    assert rows_in(read_now(items)) == [[5, 6]]
    assert warned(caplog) == [
        f"{path} can't be read: Input/output error; that is tried again",
        f"{path} can be read again",
    ]


def raising(error: Exception) -> Any:
    raise error
