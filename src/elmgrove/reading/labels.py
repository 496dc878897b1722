"""Labels as times: a file that says from when to when something was wrong, a line each."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput
from elmgrove.reading.formats import NOT_TEXT
from elmgrove.reading.times import Clock

_WAY_OUT = "FILE=FORMAT says how times are written, like labels.csv=%m/%d/%Y %H:%M"


def read_label_spans(said: str) -> list[tuple[float, float]]:
    """Reads the spans in which something was wrong: begin and end, in the first two columns.

    ``said`` is a CSV file, or ``FILE=FORMAT`` (as for ``strptime``). A first line without times
    holds names; further columns are not looked at.
    """
    name, _, form = (said, "", "") if Path(said).exists() else said.partition("=")
    try:
        with Path(name).open(encoding="utf-8-sig", newline="") as file:
            return list(_spans(name, file, Clock(form or None)))
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}: {NOT_TEXT}") from error
    except csv.Error as error:
        raise BadInput(f"{name}: this is no CSV ({error})") from error


def within(times: NDArray[np.float64], spans: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Says of each time whether it is in one of the spans; both ends belong to them.

    >>> within(np.array([1.0, 2.0, 5.0]), [(2.0, 3.0), (5.0, 9.0)]).tolist()
    [False, True, True]
    """
    found = np.zeros(len(times), bool)
    for begin, end in spans:
        found |= (times >= begin) & (times <= end)
    return found


def _spans(name: str, lines: Iterator[str], clock: Clock) -> Iterator[tuple[float, float]]:
    for number, cells in enumerate(csv.reader(lines), 1):
        if not any(cell.strip() for cell in cells):
            continue
        if number == 1 and not any(map(str.isdecimal, "".join(cells))):
            continue  # names
        begin, end = (_time(clock, cell) for cell in (*cells, "", "")[:2])
        if begin is None or end is None:
            raise BadInput(f"{name}, line {number}: {cells[:2]} are no begin and end; {_WAY_OUT}")
        if end < begin:
            raise BadInput(f"{name}, line {number}: ends before it begins")
        yield begin, end


def _time(clock: Clock, cell: str) -> float | None:
    try:
        return clock(cell)
    except (ValueError, OverflowError):
        return None
