"""Two fans for tests of the commands: their rows, their files and their states."""

from pathlib import Path

import numpy as np
import pytest

from elmgrove import Spectrum
from support.commands import Elmgrove, made_once
from support.factories import write_rows

NAMES = ["heat", "load [%]", "speed [m/s]", "current", "hum", "draft"]
MIXING = np.random.default_rng(0).normal(size=(2, 6))


def fan_rows(seed: int, count: int, shift: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made = rng.normal(size=(count, 2)) @ MIXING + 0.1 * rng.normal(size=(count, 6))
    made[:, 0] += shift
    return made


def fan_series(seed: int, count: int) -> np.ndarray:
    """Rows like those above whose neighbours are alike."""
    rng = np.random.default_rng(seed)
    level = np.zeros((count, 2))
    for index in range(1, count):
        level[index] = 0.8 * level[index - 1] + 0.6 * rng.normal(size=2)
    return level @ MIXING + 0.1 * rng.normal(size=(count, 6))


def write_fan_rows(path: str, X: np.ndarray, names: list[str] | None = NAMES) -> str:
    return str(write_rows(Path(path), X, names))


@pytest.fixture(name="fan_1")
def fan_1_fixture(elmgrove: Elmgrove) -> Path:
    """A device that learned 300 rows and watches; a file of its evidence is beside it."""

    def make() -> None:
        write_fan_rows("normal-1.csv", fan_rows(1, 300))
        soon = ["--watch-now"]
        assert elmgrove("learn", "normal-1.csv", "--state", "fan-1.elm", *soon).code == 0
        assert elmgrove("share", "--state", "fan-1.elm", "-o", "fan-1.evidence").code == 0

    made_once("fan-1", make)
    return Path("fan-1.elm")


@pytest.fixture(name="fan_2")
def fan_2_fixture(elmgrove: Elmgrove, fan_1: Path) -> Path:
    """A device that learned other rows, with the layer and scaling of the first one."""

    def make() -> None:
        write_fan_rows("normal-2.csv", fan_rows(2, 200))
        like = ["--like", "fan-1.evidence", "--watch-now"]
        assert elmgrove("learn", "normal-2.csv", "--state", "fan-2.elm", *like).code == 0

    made_once("fan-2", make)
    return Path("fan-2.elm")


#: Fast signals: two columns of samples, and what their frames become.
SIGNALS = ["vibration", "current"]
SPECTRUM = Spectrum(rate=200, length=32, bands=8)
#: The same as options and settings have it.
TEXT = "200:32:8"


def samples(seed: int, frames: int, more: int = 0) -> np.ndarray:
    """A hum in noise: so many frames of samples, and a few more that complete none."""
    rng = np.random.default_rng(seed)
    count = frames * SPECTRUM.length + more
    time = np.arange(count)[:, np.newaxis] / SPECTRUM.rate
    hum = np.sin(2 * np.pi * np.array([30.0, 50.0]) * time + rng.uniform(0, 6, 2))
    return hum + 0.3 * rng.normal(size=(count, 2))


def whistling(made: np.ndarray, frame: int) -> np.ndarray:
    """The same, with a tone of 80 Hz in one column of one frame."""
    made, place = made.copy(), slice(frame * SPECTRUM.length, (frame + 1) * SPECTRUM.length)
    made[place, 0] += 9.0 * np.sin(2 * np.pi * 80.0 * np.arange(SPECTRUM.length) / SPECTRUM.rate)
    return made
