"""Spectra of fast signals: frames of raw samples become rows of log band powers."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from elmgrove.algebra.rows import Array, Rows
from elmgrove.errors import BadInput, require_whole

#: The ways to lay bands over the frequencies, by name.
SPECTRA = ("bands", "mel")
# RATE:LENGTH[:BANDS][:mel].
_TEXT = re.compile(r"([0-9.eE+-]+):([0-9]+)(?::([0-9]+))?(?::(mel))?")
# A stranger may have stated the length: no device is to make room for any that there is.
_LONGEST = 2**20


@dataclass(frozen=True)
class Spectrum:
    """Turns a frame of samples into log10 of the power in each band, column by column.

    ``rate`` is in samples a second, ``length`` and ``step`` (from one frame to the next; 0 is the
    length: no overlap) in samples. Bands reach from 0 to half the rate; a frame's mean is in none.
    The kind "bands" has equally wide ones, "mel" triangles that overlap by half, the narrowest
    first. Powers are shares of the mean square: a sine of amplitude 1 has 0.5 in all, at any
    length and rate (but less below the first triangle's peak and above the last one's).

    >>> spectrum = Spectrum(rate=1000, length=100, bands=5)
    >>> hum = np.sin(2 * np.pi * 250 * np.arange(100) / 1000)
    >>> spectrum(hum[:, np.newaxis]).round(1).tolist()
    [-20.0, -20.0, -0.3, -20.0, -20.0]
    >>> spectrum.names(["current"])[2]
    'current 200-300 Hz'
    """

    rate: float
    length: int
    bands: int = 32
    kind: str = "bands"
    step: int = 0

    def __post_init__(self) -> None:
        if self.kind not in SPECTRA:
            raise BadInput(f"spectrum must be one of {', '.join(SPECTRA)}, not {self.kind!r}")
        rate: Any = self.rate
        number = isinstance(rate, Real) and not isinstance(rate, bool)
        if not number or not 1e-6 <= rate <= 1e12:  # within which nothing overflows
            raise BadInput(f"rate must be 1e-6 to 1e12 samples a second, not {rate!r}")
        object.__setattr__(self, "rate", float(rate))
        for name, least in (("length", 16), ("bands", 1), ("step", 0)):
            object.__setattr__(self, name, require_whole(name, getattr(self, name), least))
        if self.length > _LONGEST:
            raise BadInput(f"length must be at most {_LONGEST} samples, not {self.length}")
        if self.step > self.length:
            raise BadInput(f"step must be at most the length {self.length}, not {self.step}")
        # What is equal has the same fingerprint.
        object.__setattr__(self, "step", self.step or self.length)
        if self.bands > self._most:
            raise BadInput(
                f"{self.bands} bands are too many for frames of {self.length} samples at "
                f"{self.rate:g} a second: have at most {self._most}, or longer frames"
            )

    @classmethod
    def parsed(cls, text: str) -> "Spectrum":
        """Reads ``RATE:LENGTH[:BANDS][:mel]``, as options and settings have it.

        >>> Spectrum.parsed("16000:1024:64:mel")
        Spectrum(rate=16000.0, length=1024, bands=64, kind='mel', step=1024)
        >>> Spectrum.parsed("2000:256") == Spectrum(rate=2000, length=256)
        True
        """
        found = _TEXT.fullmatch(text.strip())
        try:
            rate, length, bands, mel = found.groups() if found else ("", "", "", "")
            given = {"bands": int(bands)} if bands else {}
            made = float(rate), int(length)
        except ValueError as error:
            raise BadInput(
                "spectrum: RATE:LENGTH[:BANDS][:mel] (samples a second, samples a frame), like "
                f"2000:256 or 16000:1024:64:mel, not {text!r:.80}"
            ) from error
        return cls(*made, kind=mel or "bands", **given)

    def __call__(self, samples: Array) -> Array:
        """Computes the features of a frame (length × columns), or a row for each of many frames."""
        if samples.ndim not in (2, 3) or samples.shape[-2] != self.length:
            raise BadInput(f"expected frames of ({self.length}, columns), got {samples.shape}")
        made = np.empty((*samples.shape[:-2], samples.shape[-1] * self.bands))
        # One at a time: the rounding of a batch may depend on its size, a frame's features may not.
        for index in np.ndindex(samples.shape[:-2]):
            made[index] = self._features(samples[index])
        return made

    def rows_of(self, samples: Array) -> Array:
        """Computes a row for each whole frame of a stretch of samples."""
        return Frames(self, Rows(samples.shape[1])).add(samples)

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Names each feature by its column and the lowest and the highest frequency of its band."""
        edges = self._points * (self.rate / self.length)
        ranges = [_range(*pair) for pair in zip(edges, edges[-self.bands :], strict=False)]
        return tuple(f"{column} {one}" for column in columns for one in ranges)

    @property
    def fields(self) -> dict[str, Any]:
        """The spectrum as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Spectrum":
        """Makes a spectrum of what ``fields`` gave."""
        return cls(**fields)

    @property
    def _most(self) -> int:
        """The most bands of which each holds a frequency of the transform."""
        if self.kind == "bands":
            return self.length // 2
        # The first triangle is the narrowest: if it reaches beyond 1, each is wider and holds one.
        reach = 2 * _mel(self.rate / 2) / _mel(self.rate / self.length)
        return min(math.ceil(reach) - 2, self.length // 2)

    @cached_property
    def _points(self) -> Array:
        """Where bands begin, peak and end, counted in frequencies of the transform."""
        if self.kind == "bands":
            return np.arange(self.bands + 1) * self.length / (2 * self.bands)
        mels = np.linspace(0.0, _mel(self.rate / 2), self.bands + 2)
        points = 700 * np.expm1(mels) * (self.length / self.rate)
        # Rounding must not push the end below the highest frequency.
        return np.append(points[:-1], self.length / 2)

    @cached_property
    def _shares(self) -> tuple[Array, Array, Array]:
        """Which frequency goes into which band, and with which share; at most two bands each."""
        frequency = np.arange(1, self.length // 2 + 1)
        # The mirror image of each but the highest (of an even length) has the same power again.
        both = np.where(2 * frequency < self.length, 2.0, 1.0)
        if self.kind == "bands":
            # In whole numbers, so that one on an edge is in the band below on every platform.
            return frequency, -(-2 * frequency * self.bands // self.length) - 1, both
        after = np.searchsorted(self._points, frequency)
        low, high = self._points[after - 1], self._points[after]
        rising = (frequency - low) / (high - low)
        # Between two points one triangle rises and the one before it falls.
        band = np.append(after - 1, after - 2)
        share = np.append(both * rising, both * (1 - rising))
        inside = (band >= 0) & (band < self.bands)
        return np.tile(frequency, 2)[inside], band[inside], share[inside]

    @cached_property
    def _window(self) -> Array:
        """Hann's window, scaled so that the squares of the transform add up to the mean square."""
        hann: Array = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.length) / self.length)
        return hann / math.sqrt(self.length * (hann @ hann))

    def _features(self, frame: Array) -> Array:
        # Loaded here: it takes as long as all of this library's algebra, and few have samples.
        from scipy.fft import rfft

        columns = np.ascontiguousarray(frame.T, dtype=np.float64)
        # The window would spread the mean into the lowest band.
        waves = rfft((columns - columns.mean(axis=1, keepdims=True)) * self._window, axis=1)
        at, band, share = self._shares
        powers = [np.bincount(band, share * np.abs(wave[at]) ** 2, self.bands) for wave in waves]
        # The floor makes the logarithm of silence finite.
        return np.log10(np.maximum(np.concatenate(powers), 1e-20))


class Frames:
    """Cuts a stream of samples into frames and gives their features; holds less than one frame.

    However the samples are split over calls of ``add``, the features are the same, bit for bit.
    ``rows`` is what samples must be like.
    """

    def __init__(self, spectrum: Spectrum, rows: Rows) -> None:
        self.spectrum = spectrum
        self.rows = rows
        self._buffer = np.empty((spectrum.length, rows.width))
        self._held = 0

    @property
    def pending(self) -> Array:
        return self._buffer[: self._held].copy()

    def restart(self) -> None:
        """Drops the unfinished frame, which nothing continues after a gap or a bad row."""
        self._held = 0

    def add(self, samples: Any) -> Array:
        """Takes in samples, or one, or none if any is bad; gives a row for each finished frame."""
        left = _checked(self.rows, samples)
        made = []
        while len(left):
            room = self._buffer[self._held :][: len(left)]
            room[:], left = left[: len(room)], left[len(room) :]
            self._held += len(room)
            if self._held == self.spectrum.length:
                made.append(self.spectrum(self._buffer))
                self._held -= self.spectrum.step
                self._buffer[: self._held] = self._buffer[self.spectrum.step :]
        return np.array(made).reshape(-1, self.rows.width * self.spectrum.bands)


def _checked(rows: Rows, samples: Any) -> Array:
    try:
        one = np.ndim(samples) == 1
    except ValueError:
        one = False  # rows of several lengths: the check says which
    return rows.one(samples)[0][np.newaxis] if one else rows.many(samples)[0]


def _mel(frequency: float) -> float:
    # The usual factor (2595, of a logarithm to base 10) would cancel out everywhere.
    return math.log1p(frequency / 700)


def _range(low: float, high: float) -> str:
    # As many decimals as three figures of the width have: neighbours never look alike.
    decimals = max(0, 2 - math.floor(math.log10(high - low)))
    edges = (np.format_float_positional(edge, decimals, trim="-") for edge in (low, high))
    return "-".join(edges) + " Hz"
