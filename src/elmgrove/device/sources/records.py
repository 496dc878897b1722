"""Lines of text, and rows of tables, as rows of numbers, over one file after another."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from elmgrove.algebra import Categories
from elmgrove.device.sources.lines import Line, Text
from elmgrove.errors import BadInput
from elmgrove.reading import (
    NOT_TEXT,
    NPY,
    PARQUET,
    Blocks,
    Layout,
    LineReader,
    Record,
    WrongColumns,
    format_of,
    found_words,
    words_in,
)

log = logging.getLogger("elmgrove.device")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Bad(NamedTuple):
    """A row, or a ``whole`` file, that can't be used, and why."""

    where: str
    reason: str
    whole: bool = False


class Records:
    """Reads lines by the rules of ``elmgrove.reading``, and logs what there is to tell of them.

    A new device that has ``categories`` finds their words in its ``first_rows`` rows, or in its
    first file if that has fewer: until then, lines are held back.
    """

    def __init__(
        self,
        layout: Layout,
        features: Sequence[str] | None,
        categories: Categories | None,
        bookmark: dict[str, Any] | None,
        first_rows: int,
    ) -> None:
        self._layout, self._features = layout, features
        self._first_rows = first_rows
        self._held_back: list[Line] | None = (
            [] if layout.categories and categories is None else None
        )
        #: The words of columns of words.
        self.categories = categories
        self._lines = self._reader(bookmark)
        self._at_start = True

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the values in a row; None where no file has names."""
        return self._lines.names

    @property
    def width(self) -> int | None:
        """How many numbers a row has; None before the first line."""
        return self._lines.width

    @property
    def held(self) -> int:
        """How many missing values were filled with the last ones."""
        return self._lines.held

    @property
    def bookmark(self) -> dict[str, Any]:
        """What a restart must know to read on in the same columns."""
        return self._lines.bookmark

    def begin(self, at_start: bool = True, name: str = "") -> None:
        """Tells that the next line is of another file, and its first one if ``at_start``."""
        self._at_start = at_start
        self._lines.begin(at_start, name)

    def go_back(self, bookmark: dict[str, Any] | None) -> None:
        """Goes on as right after a bookmark, or as at the beginning, whatever was read since."""
        self._lines = self._reader(bookmark)
        self.begin(at_start=bookmark is None)

    @property
    def waits(self) -> bool:
        """Whether lines are held back, until there are enough of them."""
        return bool(self._held_back)

    def begin_table(self, table: Blocks) -> None:
        """Tells that the next line is a row of this table."""
        if self._held_back is not None:
            self._learn_words(found_words(table, self._layout))
        self._lines.begin_table(table.header)
        self._tell()

    def ready(self, text: Text, lines: Iterable[Line]) -> Iterator[Line]:
        """Gives lines on, and holds the first ones back where they tell the words."""
        for line in lines:
            if self._held_back is None or line.cells is not None:
                yield line
            else:
                self._held_back.append(line)
                # One line more than rows, for the names.
                if len(self._held_back) > self._first_rows:
                    yield from self.held_back(text)

    def held_back(self, text: Text) -> list[Line]:
        """Gives the lines that were held back: there are enough, or no more."""
        lines, self._held_back = self._held_back, None
        if not lines:
            # A file without a line tells no words: the next one does.
            self._held_back = lines
            return []
        layout = replace(self._layout, encoding=text.encoding)
        self._learn_words(words_in(text.name, [line.data for line in lines], layout))
        return lines

    def record(self, where: str, line: Line, encoding: str) -> Record | Bad | None:
        """Gives what a line says, why it is bad, or None where it is blank or holds names.

        Raises ``BadInput`` when the names are not those that are wanted.
        """
        try:
            record = self._read(where, line, encoding)
        except WrongColumns:
            raise
        except BadInput as error:
            return Bad(where, str(error).removeprefix(where).lstrip(":, "))
        self._tell()
        return record

    def _read(self, where: str, line: Line, encoding: str) -> Record | None:
        if line.cells is not None:
            return self._lines.read_cells(where, line.cells)
        data = line.data.removeprefix(_BYTE_ORDER_MARK) if line.number == 1 else line.data
        if self._at_start:
            _require_text(where, data, encoding)
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            if self._at_start:
                raise WrongColumns(f"{where}: {NOT_TEXT}") from error
            raise BadInput(f"{where}: not text in {encoding.upper()}") from error
        self._at_start = self._at_start and not text.strip()
        return self._lines.read(where, text)

    def _reader(self, bookmark: dict[str, Any] | None) -> LineReader:
        unknown = self._held_back is not None
        known = replace(self._layout, categories=()) if unknown else self._layout
        return LineReader(known, self._features, self.categories, bookmark)

    def _learn_words(self, categories: Categories) -> None:
        self._held_back, self.categories = None, categories
        self._lines = LineReader(self._layout, None, categories)

    def _tell(self) -> None:
        for level, said in (
            (logging.INFO, self._lines.findings),
            (logging.WARNING, self._lines.notes),
        ):
            while said:
                log.log(level, "%s", said.pop(0))


def _require_text(where: str, first: bytes, encoding: str) -> None:
    """Raises ``WrongColumns`` with its name where a first line is none of a text."""
    try:
        form = format_of(where, first, encoding)
    except BadInput as error:
        raise WrongColumns(str(error)) from error
    if form in (NPY, PARQUET):
        raise WrongColumns(f"{where}: this is {form}, which is read as a file that is complete")
