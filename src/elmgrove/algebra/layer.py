"""The hidden layer: weights that are drawn from a seed, never learned, equal on every device.

First the ways to draw weights (``DISTRIBUTIONS``), bit for bit alike on every platform; then the
activations; then the layer, which is one of each with its sizes and its seed.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput, require_whole


def fingerprint(fields: Mapping[str, Any]) -> str:
    """Computes 32 hexadecimal digits that follow from the fields alone, on every platform."""
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def differences(mine: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> list[str]:
    """Lists each field that differs, a line each, down to the entry of a list or mapping."""
    lines: list[str] = []
    for name in sorted(mine.keys() | theirs.keys()):
        here, there = mine.get(name), theirs.get(name)
        if here != there:
            lines += _difference(f"{path}{name}", here, there)
    return lines


def _difference(path: str, here: Any, there: Any) -> list[str]:
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        return differences(here, there, f"{path}.")
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        at = [i for i, (a, b) in enumerate(zip(here, there, strict=True)) if a != b]
        more = f" (and {len(at) - 1} more)" if len(at) > 1 else ""
        return [f"{path}[{at[0]}]: {_short(here[at[0]])} here, {_short(there[at[0]])} there{more}"]
    return [f"{path}: {_short(here)} here, {_short(there)} there"]


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} values"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


Vector = NDArray[np.float64]

# x^32 + x^22 + x^2 + x + 1 over GF(2): primitive, so the register repeats after 2^32 - 1 bits.
LFSR_POLYNOMIAL = (32, 22, 2, 1, 0)


def uniform(seed: int, size: int) -> Vector:
    """Draws numbers uniform on [-1, 1), in steps of 2^-52.

    >>> uniform(7, 3).tolist()
    [0.25019093320933394, 0.794427601939151, 0.551371380490387]
    """
    raw = np.random.PCG64(seed).random_raw(size)
    values: Vector = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    return values


def binary(seed: int, size: int) -> Vector:
    """Draws -1 or +1 from a linear feedback shift register, as hardware does (Fed-ELMS, IV-C).

    The register starts as (seed mod (2^32 - 1) + 1) · 2654435761 mod 2^32, lowest bit first, which
    is never the dead state 0. Bit k + 32 is the exclusive or of bits k + 22, k + 2, k + 1, k.

    >>> binary(7, 8).tolist()
    [-1.0, -1.0, -1.0, 1.0, -1.0, -1.0, -1.0, 1.0]
    """
    return 2.0 * lfsr_bits(seed, size).astype(np.float64) - 1.0


def lfsr_bits(seed: int, size: int) -> NDArray[np.uint8]:
    """Computes the first ``size`` bits of the shift register that ``binary`` draws from.

    Over GF(2) the square of a polynomial has the same terms at twice the powers, so the
    recurrence also holds with every distance doubled: ever longer runs come from one addition.
    """
    degree, *powers = LFSR_POLYNOMIAL
    state = (seed % (2**degree - 1) + 1) * 2654435761 % 2**degree
    bits = np.zeros(max(size, degree), np.uint8)
    bits[:degree] = [state >> k & 1 for k in range(degree)]
    known = degree
    while known < size:
        step = 1 << (known // degree).bit_length() - 1
        taps = [known - (degree - power) * step for power in powers]
        run = min((degree - powers[0]) * step, size - known)
        bits[known : known + run] = np.bitwise_xor.reduce([bits[tap : tap + run] for tap in taps])
        known += run
    return bits[:size]


#: The ways to draw a layer's weights, by name.
DISTRIBUTIONS: dict[str, Callable[[int, int], Vector]] = {
    "uniform": uniform,
    "binary": binary,
}


def _sigmoid(H: Array) -> Array:
    # 1 / (1 + exp(-a)) = (1 + tanh(a / 2)) / 2, which can't overflow.
    H *= 0.5
    np.tanh(H, out=H)
    H += 1.0
    H *= 0.5
    return H


#: The activations G by name; each works in place.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda H: H,
    "sigmoid": _sigmoid,
    "relu": lambda H: np.maximum(H, 0.0, out=H),
    "tanh": lambda H: np.tanh(H, out=H),
}


def suggested_units(inputs: int, score: str = "distance", window: int = 1) -> int:
    """Suggests how many hidden units a detector needs.

    For the distance as many as inputs up to 64: then it is exact, and no seed matters. For more it
    is a dial of memory that hardly matters: half as many, at most 128, of windows 64. For the loss
    a quarter of many inputs, half of few, at most 128: with as many as inputs it could copy any
    row.
    """
    if score == "distance":
        return inputs if inputs <= 64 else min(128 if window == 1 else 64, inputs // 2)
    return max(1, min(128, inputs // 4 if inputs >= 16 else inputs // 2))


@dataclass(frozen=True)
class HiddenLayer:
    """The hidden layer H = G(xα + b), where α and b follow bit for bit from these five settings.

    So α and b are never sent: two devices with equal layers have equal hidden outputs, and
    what they learned can be added. With ``identity`` and fewer units than inputs the detector
    is a random projection with the best linear way back, which is what the papers use on most
    data sets. ``binary`` draws ±1 from a shift register, for hardware.

    >>> layer = HiddenLayer(inputs=4, units=2, activation="sigmoid", seed=7)
    >>> layer([[0.0, 1.0, 0.0, 1.0]]).round(6).tolist()
    [[0.538931, 0.507185]]
    """

    inputs: int
    units: int
    activation: str = "identity"
    weights: str = "uniform"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("inputs", "units", "seed"):
            least = 0 if name == "seed" else 1
            object.__setattr__(self, name, require_whole(name, getattr(self, name), least))
        for name, known in (("activation", ACTIVATIONS), ("weights", DISTRIBUTIONS)):
            if getattr(self, name) not in tuple(known):
                raise BadInput(
                    f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}"
                )

    @cached_property
    def alpha(self) -> NDArray[np.float64]:
        """The input weights α, inputs × units, read-only."""
        alpha: NDArray[np.float64] = self._drawn[: self.inputs]
        return alpha

    @cached_property
    def b(self) -> NDArray[np.float64]:
        """The bias of each unit, read-only."""
        bias: NDArray[np.float64] = self._drawn[self.inputs]
        return bias

    @cached_property
    def _drawn(self) -> NDArray[np.float64]:
        # α row by row, then b, from one stream.
        values = DISTRIBUTIONS[self.weights](self.seed, (self.inputs + 1) * self.units)
        drawn: NDArray[np.float64] = values.reshape(self.inputs + 1, self.units)
        drawn.setflags(write=False)
        return drawn

    def __reduce__(self) -> tuple[type["HiddenLayer"], tuple[Any, ...]]:
        # A copy or a pickle is the five settings; what follows from them need not travel.
        return HiddenLayer, tuple(self.fields.values())

    @property
    def bound(self) -> float | None:
        """The bound g of the activation, \\|G\\| ≤ g everywhere, or None."""
        return 1.0 if self.activation in ("sigmoid", "tanh") else None

    def activate(self, H: Array) -> Array:
        """Applies the activation G in place."""
        return ACTIVATIONS[self.activation](H)

    def __call__(self, X: Any) -> Array:
        """Computes H for one row or many."""
        # Equation (1), without β
        H = np.asarray(X, np.float64) @ self.alpha
        H += self.b
        return self.activate(H)

    @property
    def fields(self) -> dict[str, Any]:
        """The five settings, as JSON holds them."""
        return asdict(self)
