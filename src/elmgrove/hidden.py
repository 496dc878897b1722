"""The hidden layer: random, fixed, and the same on every device."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput
from elmgrove.fingerprint import differences, fingerprint
from elmgrove.weights import DISTRIBUTIONS

Array = NDArray[Any]


def _sigmoid(H: Array) -> Array:
    # 1 / (1 + exp(-a)) = (1 + tanh(a / 2)) / 2, which can't overflow.
    H *= 0.5
    np.tanh(H, out=H)
    H += 1.0
    H *= 0.5
    return H


# Each works in place. The bound is g in diag U <= count * g^2; None where G is unbounded.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda H: H,
    "sigmoid": _sigmoid,
    "relu": lambda H: np.maximum(H, 0.0, out=H),
    "tanh": lambda H: np.tanh(H, out=H),
}
BOUNDS: dict[str, float | None] = {"identity": None, "sigmoid": 1.0, "relu": None, "tanh": 1.0}


def whole_number(name: str, value: Any, least: int) -> int:
    """The value as an int, or ``BadInput``: a float or a bool here is a mistake."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BadInput(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def suggested_units(inputs: int) -> int:
    """Hidden units for a detector when nobody says: a quarter of many inputs, half of few.

    Fewer units than inputs is what makes a detector: with as many, it could copy any row.
    The papers use a quarter of 561 inputs, and less than a tenth of 225 and of 784.
    """
    return max(1, min(128, inputs // 4 if inputs >= 16 else inputs // 2))


@dataclass(frozen=True)
class HiddenLayer:
    """H = G(xα + b), where α and b follow bit for bit from these five numbers.

    So α and b are never sent: two devices with equal layers have equal hidden outputs, and
    what they learned can be added. With ``identity`` and fewer units than inputs the detector
    is a random projection with the best linear way back, which is what the papers use on most
    data sets. ``binary`` draws ±1 from a shift register, for hardware.

    >>> layer = HiddenLayer(inputs=4, units=2, activation="sigmoid", seed=7)
    >>> layer([[0.0, 1.0, 0.0, 1.0]]).round(6).tolist()
    [[0.538931, 0.507185]]
    >>> layer.difference(HiddenLayer(inputs=4, units=2, activation="sigmoid", seed=8))
    ['seed: 7 here, 8 there']
    """

    inputs: int
    units: int
    activation: str = "identity"
    weights: str = "uniform"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("inputs", "units", "seed"):
            least = 0 if name == "seed" else 1
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        for name, known in (("activation", ACTIVATIONS), ("weights", DISTRIBUTIONS)):
            if getattr(self, name) not in tuple(known):
                raise BadInput(
                    f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}"
                )

    @cached_property
    def alpha(self) -> NDArray[np.float64]:
        """α, inputs × units, read-only."""
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
        # A copy or a pickle is the five numbers; what follows from them need not travel.
        return HiddenLayer, tuple(self.fields.values())

    @property
    def bound(self) -> float | None:
        """g with \\|G\\| ≤ g everywhere, or None."""
        return BOUNDS[self.activation]

    def activate(self, H: Array) -> Array:
        """G, in place."""
        return ACTIVATIONS[self.activation](H)

    def __call__(self, X: Any) -> Array:
        """H for one row or many, in float32 where X is float32, else in float64."""
        X = np.asarray(X)
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        # Equation (1), without β
        H = X.astype(dtype, copy=False) @ self.alpha.astype(dtype, copy=False)
        H += self.b.astype(dtype, copy=False)
        return self.activate(H)

    @property
    def fields(self) -> dict[str, Any]:
        """The five numbers, as JSON holds them."""
        return asdict(self)

    @cached_property
    def fingerprint(self) -> str:
        """Equal exactly when the layers are."""
        return fingerprint(self.fields)

    def difference(self, other: "HiddenLayer") -> list[str]:
        """A line for each field in which the two differ; empty when they are equal."""
        return differences(self.fields, other.fields)
