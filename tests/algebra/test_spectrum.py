"""Frames of samples as log band powers, however the samples arrive."""

import json
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import BadInput
from elmgrove.algebra.layer import fingerprint
from elmgrove.algebra.rows import Array, Rows
from elmgrove.algebra.spectrum import Frames, Spectrum

KINDS = ("bands", "mel")
kinds = st.sampled_from(KINDS)


def noise(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(2.0, 3.0, shape)


def edges(name: str) -> tuple[float, float]:
    """The lowest and the highest frequency that a feature's name tells."""
    found = re.fullmatch(r".* ([\d.]+)-([\d.]+) Hz", name)
    assert found
    return float(found[1]), float(found[2])


def literal(spectrum: Spectrum, signal: Array) -> Array:
    """The band powers of one column by the definition: a sum over each sine, bin and triangle."""
    N, n = spectrum.length, np.arange(spectrum.length)
    window = np.sin(np.pi * n / N) ** 2
    x = (signal - signal.mean()) * window
    k = np.arange(-((N - 1) // 2), N // 2 + 1)
    powers = np.abs(np.exp(-2j * np.pi * np.outer(k, n) / N) @ x) ** 2 / (N * np.sum(window**2))
    f = np.abs(k) * spectrum.rate / N
    if spectrum.kind == "bands":
        width = spectrum.rate / 2 / spectrum.bands
        limits = [(b * width, (b + 1) * width) for b in range(spectrum.bands)]
        # half a millionth of a band for the rounding of an edge
        slack = width * 5e-7
        weights = [(f > low + slack) & (f <= high + slack) for low, high in limits]
    else:
        top = 2595 * np.log10(1 + spectrum.rate / 2 / 700)
        points = 700 * (10 ** (np.linspace(0, top, spectrum.bands + 2) / 2595) - 1)
        weights = [
            np.clip(np.minimum((f - a) / (b - a), (c - f) / (c - b)), 0, None)
            for a, b, c in zip(points, points[1:], points[2:], strict=False)
        ]
    return np.array([np.sum(weight * powers) for weight in weights])


# Features


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [100, 129])
@pytest.mark.parametrize("bands", [1, 7, 20])
def test_features_are_what_the_definition_says(kind: str, length: int, bands: int) -> None:
    spectrum = Spectrum(8000, length, bands, kind)
    samples = noise(length, 2)
    expected = np.log10([literal(spectrum, column) for column in samples.T]).ravel()
    np.testing.assert_allclose(spectrum(samples), expected, atol=1e-9)


def test_a_frame_has_the_same_features_among_others() -> None:
    spectrum = Spectrum(8000, 64, 4)
    samples = noise(5, 64, 3)
    assert spectrum(samples).shape == (5, 12)
    assert (spectrum(samples)[3] == spectrum(samples[3])).all()
    assert spectrum(samples[:0]).shape == (0, 12)


# Settings


def test_names_tell_the_edges_in_plain_figures() -> None:
    assert Spectrum(1280, 128, 16).names(["x", "y"])[14:18] == (
        "x 560-600 Hz",
        "x 600-640 Hz",
        "y 0-40 Hz",
        "y 40-80 Hz",
    )
    assert Spectrum(1000, 64, 32).names(["x"])[1] == "x 15.6-31.2 Hz"
    assert Spectrum(0.002, 64, 10).names(["x"])[9] == "x 0.0009-0.001 Hz"
    assert Spectrum(2e6, 64, 4).names(["x"])[3] == "x 750000-1000000 Hz"


@given(kinds, st.floats(1e-6, 1e12), st.integers(16, 600), st.data())
def test_every_band_that_is_allowed_holds_a_frequency_and_has_a_name(
    kind: str, rate: float, length: int, data: st.DataObject
) -> None:
    with pytest.raises(BadInput) as caught:
        Spectrum(rate, length, length, kind)
    most = int(re.findall(r"at most (\d+)", str(caught.value))[0])
    assert 1 <= most <= length // 2
    spectrum = Spectrum(rate, length, data.draw(st.just(most) | st.integers(1, most)), kind)
    # a click has every frequency
    click = np.zeros((length, 1))
    click[length // 2] = 1e6
    assert spectrum(click).min() > -20
    names = spectrum.names(["x"])
    assert len(set(names)) == len(names) == spectrum.bands
    assert all(low < high for low, high in map(edges, names))
    with pytest.raises(BadInput, match=f"{most + 1} bands are too many"):
        Spectrum(rate, length, most + 1, kind)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Spectrum(8000, 512, kind="bark"), "one of bands, mel, not 'bark'"),
        (lambda: Spectrum(0, 512), "rate must be"),
        (lambda: Spectrum(-8000, 512), "rate must be"),
        (lambda: Spectrum(float("nan"), 512), "rate must be.*not nan"),
        (lambda: Spectrum(float("inf"), 512), "rate must be.*not inf"),
        (lambda: Spectrum(10**400, 512), "rate must be"),
        (lambda: Spectrum("8000", 512), "rate must be.*not '8000'"),
        (lambda: Spectrum(True, 512), "rate must be.*not True"),
        (lambda: Spectrum(8000, 15), "length must be a whole number of at least 16, not 15"),
        (lambda: Spectrum(8000, 512.0), "length must be a whole number"),
        (lambda: Spectrum(8000, 512, 0), "bands must be a whole number of at least 1, not 0"),
        (lambda: Spectrum(8000, 512, 8.5), "bands must be a whole number"),
        (lambda: Spectrum(8000, 512, step=-1), "step must be a whole number of at least 0"),
        (lambda: Spectrum(8000, 512, step=513), "step must be at most the length 512, not 513"),
        (lambda: Spectrum(8000, 20, 11), "11 bands .* 20 samples at 8000 .* at most 10"),
        (lambda: Spectrum(16_000, 256, 100, "mel"), "100 bands .* at most 57"),
        (lambda: Spectrum(8000, 64, 4)(np.zeros((63, 2))), r"\(64, columns\), got \(63, 2\)"),
        (lambda: Spectrum(8000, 64, 4)(np.zeros(64)), r"\(64, columns\), got \(64,\)"),
    ],
)
def test_bad_settings_and_shapes_are_refused(make: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        make()


@given(kinds, st.floats(4000, 1e5), st.integers(200, 999), st.integers(1, 8), st.integers(0, 200))
def test_fields_survive_json_exactly(
    kind: str, rate: float, length: int, bands: int, step: int
) -> None:
    spectrum = Spectrum(rate, length, bands, kind, step)
    again = Spectrum.from_fields(json.loads(json.dumps(spectrum.fields)))
    assert again == spectrum
    assert fingerprint(again.fields) == fingerprint(spectrum.fields)


# Frames


@given(
    kinds,
    st.integers(1, 40),
    st.lists(st.integers(0, 150), max_size=12),
    st.integers(0, 300),
    st.booleans(),
)
def test_any_split_of_the_samples_gives_the_same_rows(
    kind: str, step: int, cuts: list[int], count: int, saved: bool
) -> None:
    spectrum = Spectrum(1000, 40, 5, kind, step)
    samples = noise(count, 2)
    starts = range(0, count - 39, step)
    expected = np.array([spectrum(samples[start : start + 40]) for start in starts])
    frames = Frames(spectrum, Rows(2))
    made = []
    for start, end in pairwise(sorted([0, *(min(cut, count) for cut in cuts), count])):
        # one sample by itself is a row, not rows
        made.append(frames.add(samples[start] if end - start == 1 else samples[start:end]))
        if saved:
            again = Frames(spectrum, Rows(2))
            assert not len(again.add(frames.pending))
            frames = again
    found = np.concatenate(made)
    assert found.shape == (len(starts), 10)
    assert (found == expected.reshape(-1, 10)).all()
    assert (frames.pending == samples[len(starts) * step :]).all()
    assert len(frames.pending) < 40


def test_restart_forgets_the_unfinished_frame() -> None:
    spectrum = Spectrum(1000, 40, 5, step=20)
    frames, samples = Frames(spectrum, Rows(1)), noise(100, 1)
    frames.add(samples[:59])
    frames.restart()
    assert frames.pending.shape == (0, 1)
    assert len(frames.add(samples[59:98])) == 0
    assert (frames.add(samples[98]) == spectrum(samples[59:99])).all()


def test_what_is_held_is_not_the_callers() -> None:
    frames, samples = Frames(Spectrum(1000, 40, 5), Rows(1)), noise(30, 1)
    before = samples.copy()
    frames.add(samples)
    samples[:] = 0
    frames.pending[:] = 0
    assert (frames.pending == before).all()


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([[1.0, 2.0], [3.0, float("nan")]], r"row 1, column 1 \('y'\): nan"),
        ([1.0, float("inf")], r"row 0, column 1 \('y'\): inf"),
        ([[1.0, 2.0], [3.0]], "row 1: expected 2 columns, got 1"),
        ([[1.0, "a"]], r"row 0, column 1 \('y'\): 'a' is not a number"),
        ([1.0, 2.0, 3.0], "expected a row of 2 columns, got 3"),
        (np.zeros((2, 2, 2)), "expected rows of 2 columns"),
    ],
)
def test_a_bad_sample_is_named_and_none_is_taken_in(samples: Any, words: str) -> None:
    frames = Frames(Spectrum(1000, 40, 5), Rows(2, ("x", "y")))
    frames.add([[5.0, 6.0]])
    with pytest.raises(BadInput, match=words):
        frames.add(samples)
    assert frames.pending.tolist() == [[5.0, 6.0]]


# As text


@pytest.mark.parametrize(
    ("text", "spectrum"),
    [
        ("2000:256", Spectrum(2000, 256)),
        (" 333.5:64:8 ", Spectrum(333.5, 64, 8)),
        ("16000:1024:mel", Spectrum(16_000, 1024, kind="mel")),
        ("1.6e4:1024:64:mel", Spectrum(16_000, 1024, 64, "mel")),
    ],
)
def test_a_text_says_it_too(text: str, spectrum: Spectrum) -> None:
    assert Spectrum.parsed(text) == spectrum


@pytest.mark.parametrize(
    "text",
    [
        *("", "2000", "2000:", ":256", "2000:256:", "2000:25.6", "a:256", "1.2.3:256", "2000,256"),
        *("2000:256:mel:64", "2000:256:bands", "2000:256:64:mel:1", "nan:256", "2000:-256"),
    ],
)
def test_another_text_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(BadInput, match=r"RATE:LENGTH\[:BANDS\]\[:mel\].*like 2000:256 or") as error:
        Spectrum.parsed(text)
    assert repr(text) in str(error.value)
