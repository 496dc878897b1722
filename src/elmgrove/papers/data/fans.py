"""Vibration of cooling fans (Sunaga, Kondo and Matsutani, IEEE Micro 2023)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.papers.data.source import Source

Array = NDArray[Any]
ARCHIVE = "cooling_fan.npz"
SOURCE = Source(
    "The cooling fans",
    "https://github.com/matutani/cooling-fan",
    f"{ARCHIVE} (arrays X, rec_id, and rec_name, rec_size, rec_speed, rec_type, rec_env)",
)
NORMAL = "normal"
#: A run through high, medium, low and off is off from about row 176; some rows before are between.
OFF_FROM = 172


@dataclass(frozen=True)
class Recording:
    """One recording of a fan: spectra of 512 bins in time order, without those of a fan at rest.

    When it is off, a damaged fan looks like a normal one: such rows say nothing, and are left
    out; ``left_out`` says how many.
    """

    name: str
    size: str
    speed: str
    damage: str
    room: str
    rows: Array
    left_out: int

    @property
    def device(self) -> str:
        """Fans of one size in one room are one device."""
        return f"{self.size}-{self.room}"


def recordings(folder: Path) -> list[Recording]:
    """All recordings in which the fan runs."""
    path = folder / ARCHIVE
    if not path.exists():
        raise SOURCE.missing(folder)
    X, index = SOURCE.arrays(path, "X", "rec_id")
    names = ("rec_name", "rec_size", "rec_speed", "rec_type", "rec_env")
    columns = SOURCE.arrays(path, *names)
    with SOURCE.reading(path):
        if len(X) != len(index) or len({len(column) for column in columns}) != 1:
            raise ValueError("columns of different lengths")
        found = [
            _recording(X[index == number].astype(np.float64), *map(str, fields))
            for number, fields in enumerate(zip(*columns, strict=True))
        ]
    return [recording for recording in found if len(recording.rows)]


def _recording(rows: Array, name: str, size: str, speed: str, damage: str, room: str) -> Recording:
    running = {"o": 0, "hmlo": OFF_FROM}.get(speed, len(rows))
    kept = rows[:running]
    return Recording(name, size, speed, damage, room, kept, len(rows) - len(kept))
