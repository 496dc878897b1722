"""Rows from files that are dropped into a folder."""

import time
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import count
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

from elmgrove.device.input_health import Outage
from elmgrove.device.sources.text import Bad, Bookmark, Item, Line, Source, Text, open_file
from elmgrove.errors import BadInput

#: Seconds for which a file must not have changed: its writer is then taken to be done.
SETTLE = 1.0


class _Finished(NamedTuple):
    """A file that was read, and the end of its last good row."""

    inode: int
    last: int


class Folder(Source):
    """Files in the order of their names, each read once; the iteration never ends.

    Hidden files are left alone, and files still being written. A file that was read goes to
    ``done/`` when ``saved`` is called with a bookmark past its rows, not before: after a crash,
    rows that the state does not have are still there. A file without one good row goes to ``bad/``.
    Nothing in there is overwritten. One that can't be moved stays, and is not read again.
    """

    def __init__(self, path: Path, pattern: str, *reading: Any) -> None:
        super().__init__(*reading)
        self._path = path
        every = "*.csv *.tsv *.jsonl *.ndjson *.lp *.influx *.npy *.parquet *.gz"
        self._patterns = (pattern or every).split()
        self._finished: dict[str, _Finished] = {}
        # Files that could not be moved, and where they belong.
        self._stuck: dict[str, tuple[int, str]] = {}
        self._away = Outage(str(path), "can't be read", "that is tried again", "can be read again")
        stay = "they stay, and are not read again"
        self._unmoved = Outage(f"files in {path}", "can't be moved", stay, "can be moved again")

    def __iter__(self) -> Iterator[Item]:
        if self._bookmark is not None:
            yield from self._resumed(self._bookmark)
        while True:
            for path in self._settled():
                yield from self._read(path)
            self._idle()
            yield None

    def saved(self, bookmark: Bookmark) -> None:
        for name, (inode, last) in list(self._finished.items()):
            here = bookmark["inode"] == inode and bookmark["offset"] >= last
            if here or bookmark["finished"].get(name) == inode:
                del self._finished[name]
                self._move_read(name, inode)

    def _bookmark_after(self, text: Text, line: Line) -> Bookmark | None:
        bookmark = super()._bookmark_after(text, line)
        finished = {name: file.inode for name, file in self._finished.items()}
        finished |= {name: inode for name, (inode, where) in self._stuck.items() if where == "done"}
        return None if bookmark is None else {**bookmark, "finished": finished}

    def _resumed(self, bookmark: Bookmark) -> Iterator[Item]:
        """Moves the files that the bookmark says are read, and reads the rest of its own file."""
        # A bookmark into a single file, from before the agent was given a folder, has no such list.
        for name, inode in bookmark.get("finished", {}).items():
            self._move_read(name, inode)
        path = self._path / bookmark["file"]
        # Another file of that name takes its turn among the others.
        if _inode(path) == bookmark["inode"]:
            yield from self._read(path, bookmark)
        else:
            # It was read to its end, and moved: the next file goes on from there.
            self._gap = False

    def _settled(self) -> list[Path]:
        try:
            self._move_stuck()
            found = [path for path in sorted(self._path.iterdir()) if self._is_settled(path)]
        except OSError as error:
            self._away.begin(error)
            return []
        self._away.end()
        return found

    def _move_stuck(self) -> None:
        for name, (inode, where) in list(self._stuck.items()):
            del self._stuck[name]
            if _inode(self._path / name) == inode:
                self._move(self._path / name, where)

    def _is_settled(self, path: Path) -> bool:
        wanted = any(fnmatch(path.name, pattern) for pattern in self._patterns)
        if path.name.startswith(".") or not wanted:
            return False
        try:
            found = path.stat()
        except OSError:
            return False
        read = [self._finished.get(path.name), self._stuck.get(path.name)]
        unread = found.st_ino not in [file[0] for file in read if file is not None]
        # A time in the future, as on a device without a clock, is not a time just now.
        settled = abs(time.time() - found.st_mtime) >= SETTLE
        return S_ISREG(found.st_mode) and unread and settled

    def _read(self, path: Path, bookmark: Bookmark | None = None) -> Iterator[Item]:
        last, reason = 0, ""
        try:
            with open_file(path, bookmark, self._layout) as text:
                for item in self._whole(text):
                    yield item
                    if isinstance(item, Bad):
                        reason = item.reason
                    elif item.bookmark is not None:
                        last = item.bookmark["offset"]
        except FileNotFoundError:
            return
        except (BadInput, OSError) as error:
            if not last:
                yield self._refused(path, str(error))
                return
            self._gap = True
            yield Bad(str(path), f"its rest can't be read: {error}")
        if last:
            self._finished[path.name] = _Finished(text.inode, last)
        elif reason and not text.began:
            yield self._refused(path, f"not one good row: {reason}")
        else:
            self._move(path, "done")

    def _refused(self, path: Path, reason: str) -> Bad:
        self._gap = True
        where = self._move(path, "bad")
        left = "left where it is" if where == path else f"moved to {where}"
        return Bad(str(path), f"{reason}; {left}", whole=True)

    def _move_read(self, name: str, inode: int) -> None:
        path = self._path / name
        if _inode(path) == inode:
            self._move(path, "done")

    def _move(self, path: Path, where: str) -> Path:
        folder = self._path / where
        try:
            folder.mkdir(exist_ok=True)
            target, numbers = folder / path.name, count(1)
            while target.exists():
                target = folder / f"{path.stem}.{next(numbers)}{path.suffix}"
            moved = path.rename(target)
        except OSError as error:
            inode = _inode(path)
            if inode is not None:
                self._stuck[path.name] = inode, where
                self._unmoved.begin(error)
            return path
        self._unmoved.end()
        return moved


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
