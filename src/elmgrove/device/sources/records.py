"""Lines of text as rows of numbers, over one file after another."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from elmgrove.device.sources.lines import Line
from elmgrove.errors import BadInput
from elmgrove.reading import NOT_TEXT, Layout, LineReader, WrongColumns

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Bad(NamedTuple):
    """A row, or a ``whole`` file, that can't be used, and why."""

    where: str
    reason: str
    whole: bool = False


class Records:
    """Reads lines by the rules of ``elmgrove.reading``; what is no text is bad, too."""

    def __init__(
        self,
        features: Sequence[str] | None,
        drop: Sequence[str],
        bookmark: dict[str, Any] | None,
    ) -> None:
        self._lines = LineReader(Layout(drop=tuple(drop)), features, bookmark=bookmark)
        self._at_start = True

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns' names in the order of the row; None where no file has names."""
        return self._lines.names

    @property
    def width(self) -> int | None:
        """How many numbers a row has; None before the first line."""
        return self._lines.width

    @property
    def bookmark(self) -> dict[str, Any]:
        """What a restart must know to read on in the same columns."""
        return self._lines.bookmark

    def begin(self, at_start: bool = True) -> None:
        """Tells that the next line is of another file, and its first one if ``at_start``."""
        self._at_start = at_start
        self._lines.begin(at_start)

    def row(self, where: str, line: Line) -> list[float] | Bad | None:
        """Gives the line's numbers, why it is bad, or None where it is blank or holds names.

        Raises ``BadInput`` when the names are not those that are wanted.
        """
        at_start = self._at_start
        try:
            data = line.data.removeprefix(_BYTE_ORDER_MARK) if line.number == 1 else line.data
            text = data.decode()
            self._at_start = at_start and not text.strip()
            record = self._lines.read(where, text)
        except UnicodeDecodeError as error:
            if at_start:
                raise BadInput(f"{where}: {NOT_TEXT}") from error
            return Bad(where, "not text in UTF-8")
        except WrongColumns:
            raise
        except BadInput as error:
            return Bad(where, str(error).removeprefix(where).lstrip(":, "))
        return None if record is None else record.values
