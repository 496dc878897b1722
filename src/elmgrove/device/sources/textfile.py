"""A file read line by line, from its start or from a bookmark on."""

import logging
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from elmgrove.device.sources.text import Line, Text

logger = logging.getLogger("elmgrove.device")
_CHUNK = 1 << 16


class TextFile(Text):
    """An open file, and bookmarks into it.

    A bookmark fits if the file is the same (by inode) and the line before the bookmark is still
    there. Where it does not fit, the file was replaced: it is read from its start, with a warning.
    """

    def __init__(self, path: Path, bookmark: dict[str, Any] | None = None) -> None:
        self._path = path
        self._file = path.open("rb")
        self.inode = os.fstat(self._file.fileno()).st_ino
        fits = bookmark is not None and self._fits(bookmark)
        offset, number = (bookmark["offset"], bookmark["line"]) if bookmark and fits else (0, 0)
        super().__init__(str(path), offset, number)
        #: Where reading began.
        self.began = self._file.seek(offset)
        if bookmark is not None and not fits:
            logger.warning("%s is not the file it was: read from its start", path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def lines(self) -> Iterator[Line]:
        """The complete lines from here to the present end."""
        while data := self._file.read(_CHUNK):
            yield from self.feed(data)

    def position(self, line: Line) -> dict[str, Any]:
        return {
            "file": self._path.name,
            "inode": self.inode,
            "offset": line.end,
            "line": line.number,
            "last": [len(line.data), zlib.crc32(line.data)],
        }

    @property
    def read(self) -> int:
        """How many bytes were read so far."""
        return self._file.tell()

    @property
    def cut(self) -> bool:
        """Whether the file is shorter now than what was read of it.

        A file that was cut and has grown past that point since can't be told from one that grew.
        """
        return os.fstat(self._file.fileno()).st_size < self.read

    @property
    def replaced(self) -> bool:
        """Whether another file stands in its place; not while there is none."""
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def _fits(self, bookmark: dict[str, Any]) -> bool:
        if bookmark["inode"] != self.inode:
            return False
        length, checksum = bookmark["last"]
        self._file.seek(bookmark["offset"] - length)
        data = self._file.read(length)
        return (len(data), zlib.crc32(data)) == (length, checksum)
