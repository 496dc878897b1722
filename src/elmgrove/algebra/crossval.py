"""The error to expect of a model on rows it has not seen, from sums alone."""

import numpy as np

from elmgrove.algebra.evidence import Evidence

# The share of what rows say that must be left beside the fit for their errors to be typical.
# With less, the estimate swings by orders of magnitude from one row to the next.
_LEAST_FREEDOM = 0.25


def expected_error(own: Evidence, others: Evidence | None, ridge: float) -> float:
    """Estimates the squared error a value, on own rows, of a model that uses ``others`` as well.

    Generalized cross-validation (Golub, Heath and Wahba 1979) on the own n rows:
    RSS / (n (1 − df/n)²), where df = tr(U_own (U + λI)⁻¹) is how far these rows decide the fit.
    Infinite where they decide it entirely: n rows that n parameters remember.
    """
    # Half a row's worth: below that, nothing is left to tell fitting from remembering.
    return _validated(own, others, ridge, 0.5 / own.count) if own.count > 0 else np.inf


def typical_loss(evidence: Evidence, ridge: float) -> float:
    """Estimates the loss Σ (t − y)² of one more row like these.

    Infinite while there are fewer than about a third more rows than units: too few to tell.
    """
    if evidence.count <= 0:
        return np.inf
    # Below this, an error is rounding.
    floor = 1e-12 * max(evidence.energy, 0.0) / evidence.count
    error = _validated(evidence, None, ridge, _LEAST_FREEDOM)
    return max(evidence.basis.outputs * error, floor)


def _validated(own: Evidence, others: Evidence | None, ridge: float, least: float) -> float:
    whole = own if others is None else own + others
    factor = whole.factor(ridge)
    freedom = 1.0 - float(np.trace(factor.solve(own.U))) / own.count
    if freedom < least:
        return np.inf
    residual = max(own.error_of(factor.solve(whole.V)), 0.0)
    return residual / (own.count * own.basis.outputs * freedom**2)
