"""Fast signals for tests: two columns of samples, and what their frames become."""

import numpy as np

from elmgrove import Spectrum

NAMES = ["vibration", "current"]
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
