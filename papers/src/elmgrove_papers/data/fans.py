"""Vibration of cooling fans (Sunaga, Kondo and Matsutani, IEEE Micro 2023).

Published are 42 zips, DATA/<size>_<speed>_<type>_<environment>[_n].zip, each with 300 or 235 CSV
files of one spectrum. They are not read here: no zip was at hand, and its README tells neither
how the CSV files are called, which gives their order, nor which columns they have. What is read is
one archive that has to be put together from them, with these arrays:

- ``X``: a row of 512 bins (1 to 512 Hz) for each spectrum, in time order within a recording;
- ``rec_id``: for each row the number of its recording, from 0;
- ``rec_name``, ``rec_size``, ``rec_speed``, ``rec_type``, ``rec_env``: for each recording its
  zip's name without the ending, and the parts of that name.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.data.source import Source

ARCHIVE = "cooling_fan.npz"
SOURCE = Source(
    "cooling-fan",
    "https://github.com/matutani/cooling-fan",
    f"{ARCHIVE}, which has to be put together from the zips in DATA: arrays X (a row of 512 bins "
    "for each spectrum, in time order), rec_id (for each row the number of its recording, from "
    "0), and for each recording rec_name (as its zip is called), rec_size, rec_speed, rec_type, "
    "rec_env (the parts of that name)",
    made=ARCHIVE,
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
        """The device: fans of one size in one room."""
        return f"{self.size}-{self.room}"


def recordings(folder: Path) -> list[Recording]:
    """Lists all recordings in which the fan runs."""
    path = folder / ARCHIVE
    if not path.exists():
        raise SOURCE.missing(folder)
    X, index = SOURCE.arrays(path, "X", "rec_id")
    names = ("rec_name", "rec_size", "rec_speed", "rec_type", "rec_env")
    columns = SOURCE.arrays(path, *names)
    with SOURCE.reading(path):
        _require_fit(X, index, columns)
        found = [
            _recording(X[index == number].astype(np.float64), *map(str, fields))
            for number, fields in enumerate(zip(*columns, strict=True))
        ]
    return [recording for recording in found if len(recording.rows)]


def _require_fit(X: Array, index: Array, columns: list[Array]) -> None:
    """People make the archive by hand: ``ValueError`` says what does not fit."""
    if X.ndim != 2 or not np.isfinite(X).all():
        raise ValueError("X is no table of finite numbers")
    if len(X) != len(index) or len({len(column) for column in columns}) != 1:
        raise ValueError("columns of different lengths")
    if not np.isin(index, np.arange(len(columns[0]))).all():
        raise ValueError("rows of no recording in rec_id")


def _recording(rows: Array, name: str, size: str, speed: str, damage: str, room: str) -> Recording:
    running = {"o": 0, "hmlo": OFF_FROM}.get(speed, len(rows))
    kept = rows[:running]
    return Recording(name, size, speed, damage, room, kept, len(rows) - len(kept))
