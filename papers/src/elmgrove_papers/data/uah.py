"""UAH-DriveSet: six drivers, three ways to drive, as tables of changes of speed (Romera 2016)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.data.source import Source

FOLDER = "UAH-DRIVESET-v1"
SOURCE = Source(
    "UAH-DriveSet",
    "http://www.robesafe.com/personal/eduardo.romera/uah-driveset",
    f"the unpacked folder '{FOLDER}' "
    "(D1/20151110175712-16km-D1-NORMAL1-SECONDARY/RAW_GPS.txt and so on)",
)
#: 15 levels of 10 km/h; 140 km/h and more are the last one.
LEVELS, WIDTH = 15, 10.0
#: The papers state neither: a table covers two minutes at 1 Hz, and each begins 10 s later.
WINDOW, STEP = 120, 10
_NAME = re.compile(r"\d+-\d+km-(D\d+)-(NORMAL|AGGRESSIVE|DROWSY)\d*-(MOTORWAY|SECONDARY)")


#: Is told what a person should know of a data set, in a sentence.
Note = Callable[[str], None]


@dataclass(frozen=True)
class Drive:
    """One drive: driver, pattern, road, and its file, which is read when its rows are wanted."""

    driver: str
    pattern: str
    road: str
    path: Path

    def rows(self, note: Note) -> Array:
        """Reads the drive: each row a table of LEVELS² probabilities; none if it is too short.

        A file has a line a second: time in s, speed in km/h, and columns that are not read.
        Seconds without a line are not filled in: the speeds before and after count as neighbours.
        Left out in the same way are lines with a speed below 0, by which phones say that they do
        not know it, and lines that repeat a time, so that a second counts once: a phone may write
        a block of lines twice. How many were repeated is noted. A time that goes back in a line
        that was not there before is an error.
        """
        with SOURCE.reading(self.path):
            speeds, repeated = _speeds(self.path)
        if repeated:
            note(f"{self.path}: {repeated} lines repeat a time and are left out.")
        return tables(speeds)


def drives(folder: Path, note: Note) -> list[Drive]:
    """Lists all drives, by driver and time; no file is read.

    A folder whose name tells no driver, pattern and road is left out, and noted.
    """
    found = sorted((folder / FOLDER).glob("*/*/RAW_GPS.txt"))
    if not found:
        raise SOURCE.missing(folder)
    known = []
    for path in found:
        if named := _NAME.fullmatch(path.parent.name):
            driver, pattern, road = named.groups()
            known.append(Drive(driver, pattern.lower(), road.lower(), path))
        else:
            note(f"{path} is left out: its folder's name tells no driver, pattern and road.")
    return known


def _speeds(path: Path) -> tuple[Array, int]:
    """The known speeds in time order, and how many lines repeat a time."""
    known: dict[float, float] = {}
    lines = set[tuple[float, float]]()
    last, repeated = -inf, 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip():
            time, speed = _time_and_speed(number, line)
            again = (time, speed) in lines
            if time < last and not again:
                raise ValueError(f"line {number}: the time goes back")
            repeated += again or time in known
            lines.add((time, speed))
            last = max(last, time)
            if speed >= 0.0:
                known.setdefault(time, speed)
    if not lines:
        raise ValueError("no line of time and speed")
    return np.array(list(known.values())), repeated


def _time_and_speed(number: int, line: str) -> tuple[float, float]:
    try:
        time, speed = map(float, line.split()[:2])
    except ValueError as error:
        raise ValueError(f"line {number}: no time and speed") from error
    if not (isfinite(time) and isfinite(speed)):
        raise ValueError(f"line {number}: no finite number")
    return time, speed


def tables(speeds: Array) -> Array:
    """Makes a row of each window: the probabilities of the next level (columns) at each level.

    A level that is never left in a window has a row of zeros in its table.
    """
    levels = np.minimum(speeds // WIDTH, LEVELS - 1).astype(np.intp)
    changes = levels[:-1] * LEVELS + levels[1:]
    if len(changes) < WINDOW:
        return np.empty((0, LEVELS**2))
    windows = np.lib.stride_tricks.sliding_window_view(changes, WINDOW)[::STEP]
    counts = np.stack([np.bincount(one, minlength=LEVELS**2) for one in windows])
    square = counts.reshape(-1, LEVELS, LEVELS).astype(np.float64)
    square /= np.maximum(square.sum(axis=2, keepdims=True), 1.0)
    return square.reshape(len(windows), LEVELS**2)
