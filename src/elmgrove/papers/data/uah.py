"""UAH-DriveSet: six drivers, three ways to drive, as tables of changes of speed (Romera 2016)."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.papers.data.source import Source

Array = NDArray[Any]
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
    """One drive: who, how, where, and its rows, each a table of LEVELS² probabilities."""

    driver: str
    pattern: str
    road: str
    rows: Array


def drives(folder: Path) -> list[Drive]:
    """All drives, by driver and time; those shorter than a window have no rows.

    A file has a line a second: time in s, speed in km/h, and columns that are not read. Seconds
    without a line are not filled in: the speeds before and after count as neighbours.
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
    lines = path.read_text().splitlines()
    cells = np.array([line.split()[:2] for line in lines if line.strip()], np.float64)
    if cells.ndim != 2 or cells.shape[1] != 2:
        raise ValueError("no columns of time and speed")
    time, speed = np.split(cells, 2, axis=1)
    if not np.isfinite(cells).all() or (np.diff(time, axis=0) <= 0).any() or (speed < 0).any():
        raise ValueError("times that do not grow, or speeds below 0")
    return speed[:, 0]


def tables(speeds: Array) -> Array:
    """For each window the probabilities of the next level (columns) at each level, as one row.

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
