"""UAH-DriveSet: six drivers, three ways to drive, as tables of changes of speed (Romera 2016)."""

import re
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


@dataclass(frozen=True)
class Drive:
    """One drive: driver, pattern, road, and its rows, each a table of LEVELS² probabilities."""

    driver: str
    pattern: str
    road: str
    rows: Array


def drives(folder: Path) -> list[Drive]:
    """Reads all drives, by driver and time; those shorter than a window have no rows.

    A file has a line a second: time in s, speed in km/h, and columns that are not read. Seconds
    without a line are not filled in: the speeds before and after count as neighbours. Left out
    in the same way are lines with a speed below 0, by which phones say that they do not know it,
    and of lines with the same time all but the first, so that a second counts once. A time that
    goes back is an error.
    """
    found = sorted((folder / FOLDER).glob("*/*/RAW_GPS.txt"))
    if not found:
        raise SOURCE.missing(folder)
    return [_drive(path) for path in found]


def _drive(path: Path) -> Drive:
    with SOURCE.reading(path):
        named = _NAME.fullmatch(path.parent.name)
        if named is None:
            raise ValueError("its folder's name tells no driver, pattern and road")
        driver, pattern, road = named.groups()
        return Drive(driver, pattern.lower(), road.lower(), tables(_speeds(path)))


def _speeds(path: Path) -> Array:
    known: dict[float, float] = {}
    last = -inf
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip():
            time, speed = _time_and_speed(number, line)
            if time < last:
                raise ValueError(f"line {number}: the time goes back")
            last = time
            if speed >= 0.0:
                known.setdefault(time, speed)
    if last == -inf:
        raise ValueError("no line of time and speed")
    return np.array(list(known.values()))


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
