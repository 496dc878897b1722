"""Columns that are no sensors: labels, numbers of rows, clocks; left out where sure, else said."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.reading.cells import boolean, number
from elmgrove.reading.times import are_dates, are_epochs, is_named_like_a_time

# Names that tables give to the numbers of their rows.
_NO_NAMES = ("", "unnamed: 0")
# What columns are called that say which rows were anomalous, and what may stand beside that.
_LABELS = {
    "abnormal", "anomalies", "anomalous", "anomaly", "attack", "class", "fault", "faulty",
    "failure", "label", "labels", "outlier", "target", "truth"
}  # fmt: skip
_BESIDE = {"flag", "ground", "has", "is", "machine", "normal"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
# A label has at most so many different words.
_MOST_CLASSES = 8
# Rows from which on it is no chance that a column counts or grows.
_LEAST, _LEAST_GROWING = 5, 100


def is_index(name: str, cells: Sequence[Any]) -> bool:
    """Says whether a column is the number of each row, as pandas writes it: nobody named it."""
    return name.strip().lower() in _NO_NAMES and _is_counting(cells)


def is_label(name: str, cells: Sequence[Any]) -> bool:
    """Says whether a column is called like a label, and holds 0 and 1, yes and no, or few words.

    >>> is_label("is_anomaly", ["0", "1"]), is_label("is_anomaly", ["0.3"]), is_label("rpm", ["0"])
    (True, False, False)
    """
    words = {word.lower() for word in _WORD.findall(name)}
    if not (words & _LABELS and words <= _LABELS | _BESIDE):
        return False
    found = {cell.strip() if isinstance(cell, str) else cell for cell in cells}
    values = {number(cell) if boolean(cell) is None else 1.0 for cell in found}
    return values <= {-1.0, 0.0, 1.0} or (values == {None} and len(found) <= _MOST_CLASSES)


def label_left_out(told: str, name: str) -> str:
    """Says that a column was taken for a label, and what to do."""
    return (
        f"{told} looks like a label and is left out; --label {name} reads it as one, --columns "
        "names the columns to learn"
    )


def is_time(name: str | None, cells: Sequence[Any]) -> bool:
    """Says whether a column is obviously the time: written dates, or epochs named like a time."""
    if are_dates(cells):
        return True
    return name is not None and is_named_like_a_time(name) and are_epochs(cells)


def doubts_about(names: Sequence[str], rows: NDArray[np.float64]) -> list[str]:
    """Says which columns of the first rows may be no sensors, and what to do."""
    if len(rows) < _LEAST:
        return []
    # What overflows neither counts nor grows by steps that anybody looks at.
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.diff(rows, axis=0)
        whole = (steps[0] != 0.0) & (steps[0] % 1.0 == 0.0)
    counting = whole & np.all(steps == steps[0], axis=0)
    growing: NDArray[np.bool_] = np.all(steps > 0.0, axis=0)
    found = []
    for name, column, counts, grows in zip(names, rows.T, counting, growing, strict=True):
        grows = grows and len(rows) >= _LEAST_GROWING
        if (grows or counts) and are_epochs(column.tolist()):
            what, way_out = "is a clock (seconds since 1970)", f"--time {name}"
        elif counts:
            what, way_out = f"counts ({column[0]:g}, {column[1]:g}, …)", f"--drop {name}"
        elif grows:
            what, way_out = "only grows: a clock or a counter?", f"--drop {name}"
        else:
            continue
        found.append(f"column {name!r} {what} and is learned as a sensor; if it is none: {way_out}")
    return found


def _is_counting(cells: Sequence[Any]) -> bool:
    found = [number(cell) for cell in cells]
    # Of a stream one row is known, and only the first number of all.
    first = found[0] if len(found) > 1 or found[:1] in ([0.0], [1.0]) else None
    return first is not None and found == [first + i for i in range(len(found))]


def some_of(names: Sequence[str], most: int = 8) -> str:
    """Names the first of some columns, however many and however long their names.

    >>> some_of(["temp", "flow", "rpm"], 2)
    "'temp', 'flow' and 1 more"
    """
    shown = ", ".join(f"{name!r:.60}" for name in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown
