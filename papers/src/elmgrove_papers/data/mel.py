"""Sound as rows: log-mel bands of some frames side by side."""

import numpy as np
from scipy.signal import ShortTimeFFT

from elmgrove.algebra import Array

BANDS, FRAMES = 128, 5
_WINDOW, _HOP = 1024, 512


def stacked_log_mel(samples: Array, rate: int) -> Array:
    """Rows of ``FRAMES`` frames of ``BANDS`` values in dB; one for each place of the window.

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
    """Triangles of equal area, evenly spaced on the mel scale, over the bins of the spectrum."""
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
