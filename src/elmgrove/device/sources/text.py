"""Bytes cut into lines, each with the place where it ends."""

from collections.abc import Iterator
from typing import Any, NamedTuple

#: Longer than any row: what has no line break for so long is cut, or it would fill the memory.
LONGEST = 1 << 22


class Line(NamedTuple):
    """A line with its ending, its number from 1, and the offset of the byte after it."""

    data: bytes
    number: int
    end: int

    @property
    def complete(self) -> bool:
        """Whether its ending was written."""
        return self.data.endswith((b"\n", b"\r"))


class Text:
    """A text that arrives in pieces. Lines end with a line feed, a carriage return or both."""

    def __init__(self, name: str, offset: int = 0, number: int = 0) -> None:
        self.name = name
        self._offset = offset
        self._number = number
        self._rest = b""

    def position(self, line: Line) -> dict[str, Any] | None:
        """How to find the place after this line again; None where there is no way back."""
        return None

    def feed(self, data: bytes) -> Iterator[Line]:
        """The lines that this piece completes."""
        pieces = (self._rest + data).splitlines(keepends=True)
        # A carriage return at the very end may be the first half of a line ending.
        whole = not pieces or pieces[-1].endswith(b"\n") or len(pieces[-1]) > LONGEST
        self._rest = b"" if whole else pieces.pop()
        return map(self._line, pieces)

    def rest(self) -> Iterator[Line]:
        """The last line, where it has no ending."""
        rest, self._rest = self._rest, b""
        return map(self._line, [rest] if rest else [])

    def _line(self, data: bytes) -> Line:
        self._number += 1
        self._offset += len(data)
        return Line(data, self._number, self._offset)
