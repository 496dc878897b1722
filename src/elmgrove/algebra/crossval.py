"""The error to expect of a model on rows it has not seen, from sums alone."""

import numpy as np

from elmgrove.algebra.evidence import Evidence

# The share of what rows say that must be left beside the fit for their errors to be typical.
# With less, the estimate swings by orders of magnitude from one row to the next.
_LEAST_FREEDOM = 0.25


def typical_loss(evidence: Evidence, ridge: float) -> float:
    """Estimates the loss Σ (t − y)² of one more row like these.

    Generalized cross-validation (Golub, Heath and Wahba 1979) on the n rows:
    RSS / (n (1 − df/n)²), where df = tr(U (U + λI)⁻¹) is how far these rows decide the fit.
    Infinite while there are fewer than about a third more rows than units: too few to tell.
    """
    if evidence.count <= 0:
        return np.inf
    # Below this, an error is rounding.
    floor = 1e-12 * max(evidence.energy, 0.0) / evidence.count
    factor = evidence.factor(ridge)
    freedom = 1.0 - float(np.trace(factor.solve(evidence.U))) / evidence.count
    if freedom < _LEAST_FREEDOM:
        return np.inf
    residual = max(evidence.error_of(factor.solve(evidence.V)), 0.0)
    outputs = evidence.basis.outputs
    return max(outputs * (residual / (evidence.count * outputs * freedom**2)), floor)
