"""How far a classifier in whole numbers is from the float model, for rows within its range."""

from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove.rounds import CompactClassifier


def tolerance(small: CompactClassifier, X: Any) -> Array:
    """Bounds how far each output can be off; a bound for the worst case, which is never near."""
    step, shift, layer = small.step, small.shift, small.basis.layer
    # Half a step for each input and the bias, and what the shift rounds away.
    hidden_off = step * ((layer.inputs + 1) / 2 + ((1 << shift) >> 1))
    hidden = _hidden(small, _activations(small, X)).sum(axis=1)
    total = hidden + layer.units * hidden_off
    weight_off = float(small.beta.scale[0, 0]) / 2
    bound: Array = (
        hidden_off * np.abs(small.beta.matrix).sum(axis=0) + weight_off * total[:, np.newaxis]
    )
    return bound


def deviation(small: CompactClassifier, X: Any) -> Array:
    """Estimates how far each output is off: a standard deviation.

    Rounding to multiples of s is off by s/√12 in the mean square, and roundings are taken to be
    independent. For measured numbers they are; if many inputs are alike their errors add up, and
    only ``tolerance`` holds. Otherwise 1 output in 10,000 is off by more than 4 deviations.
    """
    step, layer, beta = small.step, small.basis.layer, small.beta.matrix
    Z = _activations(small, X)
    active = (Z > 0).astype(np.float64)
    # An input's error reaches the output through all units that are active, at once.
    through = (np.square((active * column) @ layer.alpha.T).sum(axis=1) for column in beta.T)
    inputs = np.stack(list(through), axis=1)
    # Units that rounding may switch, within 4 deviations, and what the shift rounds away.
    near = np.abs(Z) <= 4.0 * np.sqrt((layer.inputs + 1) / 12)
    shifted = 4.0**small.shift if small.shift else 0.0
    units = ((layer.inputs + 1) * near + shifted * active) @ np.square(beta)
    # A rounded weight multiplies the hidden value together with its error.
    own = step**2 * (layer.inputs + 1 + shifted) / 12 * (near | (Z > 0))
    hidden = _hidden(small, Z)
    weights = small.beta.scale[0, 0] ** 2 * (hidden**2 + own).sum(axis=1, keepdims=True)
    # All biases are ±1 and are off by the same amount: that is not chance.
    bias = active @ ((step * np.rint(layer.b / step) - layer.b)[:, np.newaxis] * beta)
    found: Array = np.sqrt((step**2 * (inputs + units) + weights) / 12 + np.square(bias))
    return found


def _activations(small: CompactClassifier, X: Any) -> Array:
    layer = small.basis.layer
    x = np.clip(np.rint(np.asarray(X) / small.step), -127, 127)
    Z: Array = x @ layer.alpha + np.rint(layer.b / small.step)
    return Z


def _hidden(small: CompactClassifier, Z: Array) -> Array:
    """Hidden values as the classifier has them, in the inputs' unit."""
    unit = 2**small.shift
    hidden: Array = np.floor(np.maximum(Z, 0.0) / unit + 0.5 * (unit > 1)) * unit * small.step
    return hidden
