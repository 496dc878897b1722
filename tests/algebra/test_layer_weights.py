"""Random numbers that are the same everywhere: pinned values, and slow ways to the same numbers."""

import hashlib

import numpy as np
import pytest

from elmgrove.algebra.layer import (
    DISTRIBUTIONS,
    binary,
    lfsr_bits,
    uniform,
)

# Two seeds each: the first four values to the last bit, and SHA-256 over 1000 of them.
GOLDEN = {
    ("uniform", 7): (
        "0x1.00320d4f8f2a4p-2 0x1.96bf36f2bc99ap-1 0x1.1a4d597e502bep-1 -0x1.19634950aa578p-1",
        "823bfd5f346e56939bf999d668ab9971f576dd57d509cb842f9afc2c8c87f9e7",
    ),
    ("uniform", 20260101): (
        "-0x1.121fee7630bc6p-1 0x1.4ffaf2229b31cp-1 0x1.ca3ff483a2180p-5 0x1.9f565fd1e03c0p-1",
        "88162f91bae26114e522fe9d5714fb28deeb6e2f23bfd855f2d431ff29a3c027",
    ),
    ("binary", 7): (
        "-0x1.0000000000000p+0 -0x1.0000000000000p+0 -0x1.0000000000000p+0 0x1.0000000000000p+0",
        "d378724e95c96d7ddd2b5115a240ff069833897138007d4c914b6ab180e6d9fa",
    ),
    ("binary", 20260101): (
        "-0x1.0000000000000p+0 0x1.0000000000000p+0 0x1.0000000000000p+0 -0x1.0000000000000p+0",
        "f2a0483a633f4dbd3fcabdda6665079194ff52cf2c4d0212611ebd6e0a9e7039",
    ),
}


@pytest.mark.parametrize(("name", "seed"), GOLDEN)
def test_values_are_the_pinned_ones_bit_for_bit(name: str, seed: int) -> None:
    values = DISTRIBUTIONS[name](seed, 1000)
    first, digest = GOLDEN[name, seed]
    assert [value.hex() for value in values[:4].tolist()] == first.split()
    assert hashlib.sha256(values.astype("<f8").tobytes()).hexdigest() == digest


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


def test_no_seed_starts_the_register_in_its_dead_state() -> None:
    for seed in (0, 1, 2**32 - 3, 2**32 - 2, 2**32 - 1, 2**33 - 3):
        assert lfsr_bits(seed, 32).any()
