"""Cells as numbers: decimal commas, booleans, and the ways in which a value is missing."""

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput

_BOOLEANS = {"true": 1.0, "yes": 1.0, "on": 1.0, "false": 0.0, "no": 0.0, "off": 0.0}
#: The message for a cell that holds no value.
MISSING = "the value is missing"
#: No sensor shows a number above this: it stands for a missing value, or is what an overflow left.
LARGEST = 1e19


def number(cell: Any, decimal: str = ".") -> float | None:
    """Reads a cell as a number; None if it is none. Not finite ones are numbers as well."""
    if isinstance(cell, str):
        if "_" in cell:
            # Python reads 1_000 as a number; in a table that is a name.
            return None
        if decimal != ".":
            cell = cell.replace(decimal, ".")
    elif cell is None:
        return None
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return None


def are_readings(rows: NDArray[np.float64]) -> bool:
    """Whether all values are finite, and no larger than what a sensor shows."""
    return not rows.size or bool(-LARGEST <= rows.min() <= rows.max() <= LARGEST)


def plain_name(text: str) -> str:
    """The name of a column with control characters written out: it reaches terminals.

    >>> print(plain_name("temp\\x1b[2J"))
    temp\\x1b[2J
    """
    if text.isprintable():
        return text
    # What would let a name write to a terminal, or end a line there.
    control = "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
    return re.sub(control, lambda found: found[0].encode("unicode_escape").decode(), text)


def is_number(cell: Any, decimal: str = ".") -> bool:
    return number(cell, decimal) is not None


def boolean(cell: Any) -> float | None:
    if isinstance(cell, bool):
        return float(cell)
    return _BOOLEANS.get(cell.strip().lower()) if isinstance(cell, str) else None


def is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip().lower() in {"", "nan", "na", "n/a", "null", "none", "?", "-"}
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def is_decimal_comma(cell: Any) -> bool:
    """Whether a cell would be a number if its comma were a point."""
    return isinstance(cell, str) and cell.count(",") == 1 and number(cell, ",") is not None


def label_of(cell: Any) -> bool:
    """Reads the label of a row: whether it was anomalous; ``ValueError`` if it does not say."""
    said = boolean(cell)
    value = number(cell) if said is None else said
    if value is not None and math.isfinite(value):
        return value != 0.0
    word = str(cell).strip().lower()
    if word in {"normal", "ok", "good", "benign", "nominal"}:
        return False
    if word in {
        "anomaly", "anomalous", "abnormal", "attack", "fault", "faulty", "bad", "outlier"
    }:  # fmt: skip
        return True
    raise ValueError(f"{cell!r} is no label: 1 or 0, yes or no, anomaly or normal, say")


def refusal(where: str, column: str, cell: Any, of_words: str | None = None) -> BadInput:
    """Makes the error for a cell that is no number, with the option that reads it.

    ``of_words`` is the column's name where it may hold words.
    """
    holding = f"{MISSING} (--missing hold keeps the last value)"
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return BadInput(f"{where}, {column}: {holding}")
    value = number(cell, ",")
    if value is not None and LARGEST < abs(value) < math.inf:
        return BadInput(
            f"{where}, {column}: {cell!r:.60} is larger than any reading (up to {LARGEST:g}), and "
            "may stand for a missing one; a reading has to come in a larger unit"
        )
    said = f"{where}, {column}: {cell!r:.60} is not a finite number"
    if is_missing(cell):
        return BadInput(f"{said}: {holding}")
    if is_decimal_comma(cell):
        return BadInput(f"{said} (decimal commas: --decimal ,)")
    if (delimiter := _delimiter_in(cell)) is not None:
        written = "tab" if delimiter == "\t" else f"'{delimiter}'"
        return BadInput(f"{said} (several numbers in one cell: --delimiter {written} parts them)")
    if isinstance(cell, str) and re.search(r"\d:\d\d|\d[./-]\d+[./-]\d", cell):
        return BadInput(f"{said} (a time? --time COLUMN=FORMAT, like {format_like(cell)})")
    if of_words is not None:
        ways = (
            f"--categories {of_words} of learn reads it as words, --drop {of_words} leaves it out"
        )
        return BadInput(f"{said} ({ways})")
    return BadInput(said)


def _delimiter_in(cell: Any) -> str | None:
    """What stands between the numbers of a cell that holds several; None if it does not."""
    for one in ",;\t|" if isinstance(cell, str) else "":
        parts = cell.split(one)
        if len(parts) > 1 and sum(is_number(part) for part in parts) > len(parts) // 2:
            return one
    return None


def format_like(cell: object) -> str:
    """A format of times as an example, with seconds if a cell has them.

    >>> format_like("24.10.2026 20:00")
    '%d.%m.%Y %H:%M'
    """
    return "%d.%m.%Y %H:%M" + ":%S" * (str(cell).count(":") > 1)
