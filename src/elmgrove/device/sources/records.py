"""Lines of text as rows of numbers, over one file after another."""

import csv
from collections.abc import Sequence
from typing import Any, NamedTuple

from elmgrove.device.sources.lines import Line
from elmgrove.errors import BadInput
from elmgrove.storage import NOT_TEXT, Columns, Head

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Bad(NamedTuple):
    """A row, or a ``whole`` file, that can't be used, and why."""

    where: str
    reason: str
    whole: bool = False


class Records:
    """Reads lines by the rules of ``elmgrove.storage``, and remembers columns between files.

    The first line of each file may be a line of names. Where it is not, as in a log that was
    cut while its writer went on, the columns are those of the file before.
    """

    def __init__(
        self,
        features: Sequence[str] | None,
        drop: Sequence[str],
        bookmark: dict[str, Any] | None,
    ) -> None:
        self._features = features
        self._drop = drop
        self._columns: Columns | None = None
        self._at_start = True
        #: What a restart must know to read on in the same columns.
        self.bookmark: dict[str, Any] = {}
        if bookmark is not None:
            self._pin(bookmark["names"])
            self._choose("the bookmark", bookmark["head"])

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns' names in the order of the row; None where no file has names."""
        return None if self._columns is None else self._columns.names

    @property
    def width(self) -> int | None:
        """How many numbers a row has; None before the first line."""
        return None if self._columns is None else len(self._columns.kept)

    def begin(self, at_start: bool = True) -> None:
        """Tells that the next line is of another file, and its first one if ``at_start``."""
        self._at_start = at_start

    def row(self, where: str, line: Line) -> list[float] | Bad | None:
        """Gives the line's numbers, why it is bad, or None where it is blank or holds names.

        Raises ``BadInput`` when the names are not those that are wanted.
        """
        try:
            data = line.data.removeprefix(_BYTE_ORDER_MARK) if line.number == 1 else line.data
            text = data.decode()
        except UnicodeDecodeError as error:
            if self._at_start:
                raise BadInput(f"{where}: {NOT_TEXT}") from error
            return Bad(where, "not text in UTF-8")
        if self._at_start and text.strip():
            self._at_start = False
            if self._took_names(where, text):
                return None
        return self._numbers(where, text)

    def _numbers(self, where: str, text: str) -> list[float] | Bad | None:
        if self._columns is None:
            return None
        try:
            return self._columns.record(where, text)
        except BadInput as error:
            return Bad(where, str(error).removeprefix(where).lstrip(":, "))

    def _took_names(self, where: str, text: str) -> bool:
        """Settles the columns by the first line; says whether it holds names and no row."""
        try:
            head = Head.of(text)
            if head.named or self._columns is None:
                self._choose(where, text)
        except csv.Error as error:
            raise BadInput(f"{where}: {error}; is this a CSV file?") from error
        return head.named

    def _choose(self, where: str, text: str) -> None:
        columns = Columns(where, Head.of(text), self._features, self._drop)
        width = len(columns.kept)
        if self.width not in (None, width):
            raise BadInput(f"{where}: {width} columns, where there were {self.width} before")
        self._columns = columns
        self._pin(columns.names)
        self.bookmark = {"head": text, "names": columns.names and list(columns.names)}

    def _pin(self, names: Sequence[str] | None) -> None:
        """Lets columns be found by these names from now on, in whatever order a file has them."""
        if names is not None:
            self._features, self._drop = self._features or names, ()
