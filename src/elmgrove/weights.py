"""Random numbers that come out the same, bit for bit, on every platform and NumPy version.

NumPy promises to keep the raw stream of a bit generator, but not what the methods of
``Generator`` make of it, and libraries of mathematical functions round differently. So only
the raw stream is used, with integer arithmetic and exactly rounded operations on it.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# x^32 + x^22 + x^2 + x + 1 over GF(2): primitive, so the register repeats after 2^32 - 1 bits.
LFSR_POLYNOMIAL = (32, 22, 2, 1, 0)
_DEGREE = LFSR_POLYNOMIAL[0]
# The prime next to 2^32 divided by the golden ratio: neighbours end up far apart.
_SPREAD = 2654435761


def uniform(seed: int, size: int) -> Vector:
    """Uniform on [-1, 1), in steps of 2^-52.

    >>> uniform(7, 3).tolist()
    [0.25019093320933394, 0.794427601939151, 0.551371380490387]
    """
    raw = np.random.PCG64(seed).random_raw(size)
    values: Vector = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    return values


def normal(seed: int, size: int) -> Vector:
    """Mean 0, variance 1: the sum of twelve uniform integers, centred (Irwin-Hall).

    A sum of integers is exact, where a logarithm or a cosine would depend on the platform.
    The distribution function is within 0.003 of the normal one, and no value lies beyond 6.
    """
    raw = np.random.PCG64(seed).random_raw(12 * size).reshape(size, 12)
    total = (raw >> np.uint64(16)).sum(axis=1, dtype=np.uint64)
    values: Vector = total.astype(np.float64) * 2.0**-48 - 6.0
    return values


def binary(seed: int, size: int) -> Vector:
    """-1 or +1 from a linear feedback shift register, as hardware draws them (Fed-ELMS, IV-C).

    The register starts as (seed mod (2^32 - 1) + 1) · 2654435761 mod 2^32, lowest bit first. The
    factor is odd, so this is never the dead state 0; without it small seeds would start with
    long runs of one sign. Bit k + 32 is the sum (exclusive or) of bits k + 22, k + 2, k + 1, k.

    >>> binary(7, 8).tolist()
    [-1.0, -1.0, -1.0, 1.0, -1.0, -1.0, -1.0, 1.0]
    """
    return 2.0 * lfsr_bits(seed, size).astype(np.float64) - 1.0


def lfsr_bits(seed: int, size: int) -> NDArray[np.uint8]:
    """The first ``size`` bits of the register.

    Over GF(2) the square of a polynomial has the same terms at twice the powers, so the
    recurrence also holds with every distance doubled: ever longer runs come from one addition.
    """
    state = (seed % (2**_DEGREE - 1) + 1) * _SPREAD % 2**_DEGREE
    bits = np.zeros(max(size, _DEGREE), np.uint8)
    bits[:_DEGREE] = [state >> k & 1 for k in range(_DEGREE)]
    known = _DEGREE
    while known < size:
        step = 1 << (known // _DEGREE).bit_length() - 1
        taps = [known - (_DEGREE - power) * step for power in LFSR_POLYNOMIAL[1:]]
        run = min((_DEGREE - LFSR_POLYNOMIAL[1]) * step, size - known)
        bits[known : known + run] = np.bitwise_xor.reduce([bits[tap : tap + run] for tap in taps])
        known += run
    return bits[:size]


DISTRIBUTIONS: dict[str, Callable[[int, int], Vector]] = {
    "uniform": uniform,
    "normal": normal,
    "binary": binary,
}
