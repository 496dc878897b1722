"""The first lines of a text: what is read past, the delimiter, and the names of columns."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

from elmgrove.errors import BadInput
from elmgrove.reading.cells import is_decimal_comma, is_number, plain_name
from elmgrove.reading.layout import Layout
from elmgrove.reading.times import are_dates

_DELIMITERS = ",;\t|"
_SEPARATOR = re.compile(r"sep=(.)\s*", re.IGNORECASE)
# So few numbers in a row, like 1, 2, are more likely a row than names.
_LEAST_NUMBERED = 3


class Head(NamedTuple):
    """How the cells of a text are separated, and its names or else its first row's cells.

    ``lines`` counts the lines before the first row. ``doubt`` is what to say where it is not sure
    whether a first line of numbers is a row or holds names.
    """

    delimiter: str
    cells: list[str]
    named: bool
    lines: int = 0
    doubt: str | None = None

    @classmethod
    def of(
        cls, first: Sequence[str], layout: Layout, features: Sequence[str] | None = None
    ) -> Self:
        """Finds the head in the first lines of a text; ``features`` are names that it may hold.

        ``sep=;`` and lines that begin with ``#`` are read past; but of those, the last one holds
        the names if it has as many cells as the row right behind it, and that one has none.
        """
        delimiter, remark, place = layout.delimiter, "", 0
        while place < len(first) and is_read_past(first[place]):
            text = first[place].strip()
            if found := _SEPARATOR.fullmatch(text):
                delimiter = delimiter or found[1]
            remark = text.lstrip("# ") if text else ""
            place += 1
        if place == len(first):
            return cls(delimiter or ",", [], False, place)
        delimiter = delimiter or delimiter_of(first[place], layout.decimal)
        cells = split(first[place], delimiter)
        after = list(_rows(first[place + 1 :], delimiter))
        named, doubt = _is_named(cells, after, layout.decimal, features)
        said = split(remark, delimiter)
        if not named and len(said) == len(cells) > 1 and not any(map(is_number, said)):
            return cls(delimiter, list(map(plain_name, said)), True, place)
        names = list(map(plain_name, cells)) if named else cells
        return cls(delimiter, names, named, place + named, doubt)


def is_read_past(text: str) -> bool:
    """Says whether a line holds nothing to be read: blank, ``sep=;``, or a remark."""
    text = text.strip()
    return not text or text.startswith("#") or _SEPARATOR.fullmatch(text) is not None


def delimiter_of(line: str, decimal: str) -> str:
    """Finds what separates the cells of a line."""
    others = [one for one in _DELIMITERS[1:] if one in line]
    for one in others:
        # 1,5;2,5 has as many commas as it has numbers, and one ; less.
        cells = split(line, one)
        if all(is_number(cell) or is_decimal_comma(cell) for cell in cells):
            return one
    if decimal == "," and (others or "," not in line):
        return max(others, key=line.count, default=";")
    # A comma may also stand inside a name.
    return max(reversed(_DELIMITERS), key=line.count)


def split(line: str, delimiter: str) -> list[str]:
    """Gives the cells of a line, without the blanks around them."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error as error:
        raise BadInput(f"{error}; is this a CSV file?") from error


def _rows(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    """The cells of each line that has any; one that can't be split says nothing of the names."""
    for text in lines:
        if not is_read_past(text):
            with suppress(BadInput):
                yield split(text, delimiter)


def _is_named(
    cells: list[str], after: list[list[str]], decimal: str, features: Sequence[str] | None
) -> tuple[bool, str | None]:
    """Whether a first line holds names, and what to say if that is not sure."""
    numbers = [cell for cell in cells if is_number(cell, decimal) or is_decimal_comma(cell)]
    if not numbers:
        return bool(cells), None
    if features and set(features) <= set(cells):
        return True, None
    if not is_counted(numbers) or (len(numbers) == len(cells) and not after):
        return False, _unlike_rows(cells, after)
    # A row of 1, 2, 3, 4 is rare, and where no other row is whole it can be none.
    broken = any(is_number(cell) and not _whole(cell) for row in after for cell in row)
    texts = [cell for cell in cells if cell not in numbers]
    if texts:
        return not are_dates(texts), None
    if broken:
        return True, (
            f"the first line ({_some(cells)}) is taken as the names of the columns; if it is a "
            "row, put a line of names above it"
        )
    return False, (
        f"the first line ({_some(cells)}) was read as a row; if it holds the numbers of columns, "
        "give them names or delete it"
    )


def _unlike_rows(cells: list[str], after: list[list[str]]) -> str | None:
    """What to say of different whole numbers, such as years, above columns of broken ones."""
    below = [row for row in after if len(row) == len(cells)]
    names = len(cells) > 1 and len(set(cells)) == len(cells) and all(map(_whole, cells))
    columns = zip(*below, strict=True)
    if not below or not names or any(all(map(_whole, column)) for column in columns):
        return None
    return (
        f"the first line ({_some(cells)}) holds whole numbers, unlike the rows below, and was read "
        "as a row; if it holds names, put a letter before each, or delete it"
    )


def _some(cells: list[str]) -> str:
    return f"{', '.join(cells[:6])}{', …' * (len(cells) > 6)}"


def is_counted(numbers: list[str]) -> bool:
    """Says whether these are 0, 1, 2, … or 1, 2, 3, …: names that nobody chose."""
    size = len(numbers)
    counted = [[str(i) for i in range(first, first + size)] for first in (0, 1)]
    return size >= _LEAST_NUMBERED and numbers in counted


def _whole(cell: str) -> bool:
    return cell.lstrip("+-").isdecimal()
