"""Drives in the layout of UAH-DriveSet."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

FOLDER = "UAH-DRIVESET-v1"


SPEEDS = {"NORMAL1": (70.0, 10.0), "AGGRESSIVE": (110.0, 25.0), "DROWSY": (50.0, 5.0)}


def write_drive(
    folder: Path, driver: str, pattern: str, speeds: Sequence[float], road: str = "SECONDARY"
) -> Path:
    """A drive as published: nine columns a second, of which only time and speed count."""
    name = f"20151110175712-16km-{driver}-{pattern}-{road}"
    path = folder / FOLDER / driver / name / "RAW_GPS.txt"
    path.parent.mkdir(parents=True)
    rest = "40.51 -3.35 700.2 5 8 120.5 0.1"
    lines = [f"{time + 5.23:.2f} {speed:.1f} {rest} \n" for time, speed in enumerate(speeds)]
    path.write_text("".join(lines))
    return path


def write_driveset(
    folder: Path, drivers: int = 2, seconds: int = 900, road: str = "SECONDARY"
) -> None:
    """Drivers whose speed wanders about a mean that is their way to drive."""
    rng = np.random.default_rng(0)
    for number in range(1, drivers + 1):
        for pattern, (mean, spread) in SPEEDS.items():
            steps = rng.normal(size=(seconds, 8)).mean(axis=1) * np.sqrt(8)
            wave = np.sin(np.arange(seconds) / 20.0)
            speeds = np.clip(mean + spread * wave + 3.0 * steps, 0.0, None)
            write_drive(folder, f"D{number}", pattern, speeds.tolist(), road)
