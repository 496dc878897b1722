"""DCASE 2020 task 2: sounds of toy and real machines, one client for each machine.

A sound becomes rows: log-mel bands of some frames side by side.
"""

import re
import warnings
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.io import wavfile
from scipy.signal import ShortTimeFFT

from elmgrove.algebra import Array
from elmgrove_papers.data.source import Source

FOLDER = "dev_data"
SOURCE = Source(
    "DCASE 2020 task 2",
    "https://dcase.community/challenge2020 (task 2, development data)",
    f"{FOLDER}/ToyCar/train/normal_id_01_00000000.wav and so on",
)
_NAME = re.compile(r"(normal|anomaly)_(id_\d+)_\d+\.wav")

BANDS, FRAMES = 128, 5
_WINDOW, _HOP = 1024, 512


@dataclass(frozen=True)
class Machine:
    """One client: the files to learn from, and normal and anomalous ones to test with."""

    name: str
    train: tuple[Path, ...]
    normal: tuple[Path, ...]
    anomalous: tuple[Path, ...]


def machines(folder: Path) -> list[Machine]:
    """Lists all machines (23 in the published set), by type and number; no sound is read."""
    root = folder / FOLDER
    files = sorted(root.glob("*/*/*.wav"))
    if not files:
        raise SOURCE.missing(folder)
    found: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for path in files:
        if named := _NAME.fullmatch(path.name):
            state, number = named.groups()
            part = "train" if path.parent.name == "train" else state
            found[f"{path.parent.parent.name}-{number}"][part].append(path)
    return [
        Machine(name, *(tuple(parts[part]) for part in ("train", "normal", "anomaly")))
        for name, parts in sorted(found.items())
    ]


def sound(path: Path) -> Array:
    """Reads a recording as rows of five frames of 128 log-mel bands, like the task's baseline."""
    with SOURCE.reading(path), warnings.catch_warnings():
        # SciPy only warns where a recording breaks off; here that is a damaged file.
        warnings.filterwarnings("error", "Reached EOF", wavfile.WavFileWarning)
        rate, samples = wavfile.read(path)
        return stacked_log_mel(samples, rate)


def stacked_log_mel(samples: Array, rate: int) -> Array:
    """Makes rows of ``FRAMES`` frames of ``BANDS`` values in dB, one for each place of the window.

    Window, hop, bands and frames are those of the baseline of DCASE 2020 task 2; its mel scale is
    Slaney's, this one is 2595 log₁₀(1 + f / 700). Integers count as shares of their largest
    value; of several channels the first is taken.
    """
    if np.issubdtype(samples.dtype, np.integer):
        samples = samples / np.iinfo(samples.dtype).max
    mono = samples if samples.ndim == 1 else samples[:, 0]
    if len(mono) < _WINDOW + (FRAMES - 1) * _HOP:
        raise ValueError(f"only {len(mono)} samples")
    window = np.hanning(_WINDOW + 1)[:-1]
    power = ShortTimeFFT(window, _HOP, rate).spectrogram(mono, padding="even")
    decibels = 10.0 * np.log10(np.maximum(filters(rate) @ power, np.finfo(float).eps))
    frames: Array = np.lib.stride_tricks.sliding_window_view(decibels.T, FRAMES, axis=0)
    return frames.transpose(0, 2, 1).reshape(len(frames), FRAMES * BANDS)


def filters(rate: int) -> Array:
    """Makes triangles of equal area, evenly spaced on the mel scale, over the spectrum's bins."""
    edges = _hertz(np.linspace(0.0, _mel(rate / 2), BANDS + 2))
    bins = np.linspace(0.0, rate / 2, _WINDOW // 2 + 1)
    low, middle, high = (edges[i : i + BANDS, np.newaxis] for i in range(3))
    triangles = np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle))
    heights: Array = np.maximum(triangles, 0.0) * 2.0 / (high - low)
    return heights


def _mel(hertz: float) -> float:
    return float(2595.0 * np.log10(1.0 + hertz / 700.0))


def _hertz(mel: Array) -> Array:
    values: Array = 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    return values
