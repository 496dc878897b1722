"""The hidden layer: the same on every device, and told apart where it is not."""

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np
import pytest

from elmgrove import BadInput, HiddenLayer
from elmgrove.algebra.layer import (
    DISTRIBUTIONS,
    binary,
    differences,
    fingerprint,
    lfsr_bits,
    uniform,
)
from support import literal

ACTIVATIONS = ("identity", "sigmoid", "relu", "tanh")

# 2 inputs, 3 units: α row by row, b, and the fingerprint that travels with every message.
GOLDEN = {
    ("uniform", 7): (
        "0x1.00320d4f8f2a4p-2 0x1.96bf36f2bc99ap-1 0x1.1a4d597e502bep-1 "
        "-0x1.19634950aa578p-1 -0x1.99426b378e458p-2 0x1.7e84cb5d23e88p-1",
        "-0x1.fa9bbb6459796p-1 0x1.48f01a3dffc80p-1 0x1.3032f7e486986p-1",
        "3b6b73298739472bc9b80482f0ba8e5a",
    ),
    ("uniform", 20260101): (
        "-0x1.121fee7630bc6p-1 0x1.4ffaf2229b31cp-1 0x1.ca3ff483a2180p-5 "
        "0x1.9f565fd1e03c0p-1 -0x1.546a7bda72f0ap-1 0x1.e2d3f7825d374p-2",
        "0x1.9f02d7e00b4d8p-1 -0x1.27a5d810148f4p-2 0x1.4255beef7c1d6p-1",
        "248488dd5b24598671c021af10c48599",
    ),
    ("binary", 7): (
        "-0x1.0000000000000p+0 -0x1.0000000000000p+0 -0x1.0000000000000p+0 "
        "0x1.0000000000000p+0 -0x1.0000000000000p+0 -0x1.0000000000000p+0",
        "-0x1.0000000000000p+0 0x1.0000000000000p+0 0x1.0000000000000p+0",
        "9d5251da93d33a9a144f4b3b04231d25",
    ),
    ("binary", 20260101): (
        "-0x1.0000000000000p+0 0x1.0000000000000p+0 0x1.0000000000000p+0 "
        "-0x1.0000000000000p+0 -0x1.0000000000000p+0 0x1.0000000000000p+0",
        "-0x1.0000000000000p+0 -0x1.0000000000000p+0 0x1.0000000000000p+0",
        "01f8ed8a24372db591fa2f11407f6477",
    ),
}


@pytest.mark.parametrize(("weights", "seed"), GOLDEN)
def test_alpha_b_and_fingerprint_are_the_pinned_ones_bit_for_bit(weights: str, seed: int) -> None:
    layer = HiddenLayer(inputs=2, units=3, activation="tanh", weights=weights, seed=seed)
    alpha, b, pinned = GOLDEN[weights, seed]
    assert [value.hex() for value in layer.alpha.ravel().tolist()] == alpha.split()
    assert [value.hex() for value in layer.b.tolist()] == b.split()
    assert fingerprint(layer.fields) == pinned


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("weights", DISTRIBUTIONS)
def test_a_call_gives_h_for_rows_and_for_one_row(activation: str, weights: str) -> None:
    layer = HiddenLayer(5, 4, activation, weights, seed=2)
    X = np.random.default_rng(0).normal(size=(6, 5))
    H = literal.hidden(X, layer.alpha, layer.b, activation)
    np.testing.assert_allclose(layer(X), H, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(layer(X[2].tolist()), H[2], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_far_out_rows_give_no_overflow_and_keep_the_bound(activation: str) -> None:
    layer = HiddenLayer(3, 8, activation, seed=5)
    H = layer(np.array([[1e8, -1e8, 1e8], [-1e8, 1e8, 1e8]]))
    assert np.isfinite(H).all()
    if layer.bound is not None:
        assert np.abs(H).max() == layer.bound


CHANGES: dict[str, Any] = {
    "inputs": 6,
    "units": 5,
    "activation": "tanh",
    "weights": "uniform",
    "seed": 8,
}


@pytest.mark.parametrize("field", CHANGES)
def test_each_field_changes_the_fingerprint_and_shows_in_the_difference(field: str) -> None:
    layer = HiddenLayer(5, 4, "sigmoid", "binary", seed=7)
    other = dataclasses.replace(layer, **{field: CHANGES[field]})
    assert layer != other
    assert fingerprint(layer.fields) != fingerprint(other.fields)
    assert differences(layer.fields, other.fields) == [
        f"{field}: {getattr(layer, field)!r} here, {CHANGES[field]!r} there"
    ]


def test_fields_survive_json() -> None:
    layer = HiddenLayer(5, 4, "relu", "binary", seed=2**70)
    assert HiddenLayer(**json.loads(json.dumps(layer.fields))) == layer


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("inputs", [0, -1, 2.0, "2", None, True]),
        ("units", [0, 1.5]),
        ("seed", [-1, None, 0.5, False]),
        ("activation", ["sin", None, "Tanh", ["tanh"]]),
        ("weights", ["gamma", "", 1]),
    ],
)
def test_a_bad_setting_is_refused_by_name(field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(BadInput, match=field):
            HiddenLayer(**{"inputs": 3, "units": 2, field: value})


# Random numbers that are the same everywhere: pinned values, and slow ways to the same numbers

# SHA-256 over 1000 values.
DIGESTS = {
    ("uniform", 7): "823bfd5f346e56939bf999d668ab9971f576dd57d509cb842f9afc2c8c87f9e7",
    ("uniform", 20260101): "88162f91bae26114e522fe9d5714fb28deeb6e2f23bfd855f2d431ff29a3c027",
    ("binary", 7): "d378724e95c96d7ddd2b5115a240ff069833897138007d4c914b6ab180e6d9fa",
    ("binary", 20260101): "f2a0483a633f4dbd3fcabdda6665079194ff52cf2c4d0212611ebd6e0a9e7039",
}


@pytest.mark.parametrize(("name", "seed"), DIGESTS)
def test_values_are_the_pinned_ones_bit_for_bit(name: str, seed: int) -> None:
    values = DISTRIBUTIONS[name](seed, 1000)
    digest = hashlib.sha256(values.astype("<f8").tobytes()).hexdigest()
    assert digest == DIGESTS[name, seed]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_longer_draw_starts_with_the_shorter_one(name: str) -> None:
    draw = DISTRIBUTIONS[name]
    assert draw(3, 500)[:33].tolist() == draw(3, 33).tolist()


def raw(seed: int, size: int) -> list[int]:
    """64 bits each, as Python's own integers."""
    return [int(word) for word in np.random.PCG64(seed).random_raw(size)]


def test_uniform_equals_exact_integer_arithmetic() -> None:
    exact = [((word >> 11) - 2**52) / 2**52 for word in raw(11, 200)]
    assert uniform(11, 200).tolist() == exact


def one_bit_at_a_time(seed: int, size: int) -> list[int]:
    """The register as hardware has it: 32 cells; out at one end, the sum of four in at the other.

    x^32 + x^22 + x^2 + x + 1 says: the new bit is the sum of the bits 22, 2, 1 and 0.
    """
    state = (seed % (2**32 - 1) + 1) * 2654435761 % 2**32
    bits = []
    for _ in range(size):
        bits.append(state & 1)
        new = (state >> 22 ^ state >> 2 ^ state >> 1 ^ state) & 1
        state = state >> 1 | new << 31
    return bits


@pytest.mark.parametrize("size", [1, 31, 32, 33, 42, 63, 64, 65, 1000, 20_000])
@pytest.mark.parametrize("seed", [0, 7, 2**31, 2**32 - 2, 2**32 - 1, 2**80 + 5])
def test_binary_equals_a_register_that_shifts_one_bit_at_a_time(seed: int, size: int) -> None:
    bits = one_bit_at_a_time(seed, size)
    assert lfsr_bits(seed, size).tolist() == bits
    assert binary(seed, size).tolist() == [2.0 * bit - 1.0 for bit in bits]
