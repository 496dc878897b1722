"""A stream's state: the sums over its rows, and the running inverse P that follows them.

``Sums`` is what was learned; ``Inverse`` solves with it, fast enough for every row and checked on
every row.
"""

from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.blas import Blas
from elmgrove.algebra.cholesky import Factor, epsilon, mirrored, regularized, visible
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput, SingularSystem

# Rows that wait for their addition to V: one row reads and writes all of it, sixteen do no more.
_WAITING = 16
# Corrections of one w before P is computed again: each makes the error smaller by P's own error.
_REFINEMENTS = 8
# Corrections in all after which a new P is the cheaper way, at least and per hidden unit.
_PATIENCE = (16.0, 0.5)
# The residual that rounding leaves at any rate, in machine epsilons.
_ROUNDING = 4.0


def require_forgetting(forgetting: float) -> None:
    """Raises ``BadInput`` unless a row can keep this weight with each later one."""
    if not 0.0 < forgetting <= 1.0:
        raise BadInput(f"forgetting must be above 0 and at most 1 (1 = none), not {forgetting!r}")


def weight_of(rows: int, forgetting: float) -> float:
    """Computes what so many rows weigh together, the newest of them 1: 1 + φ + … + φ^(rows − 1)."""
    return float(rows) if forgetting == 1.0 else (1.0 - forgetting**rows) / (1.0 - forgetting)


class Sums:
    """U, V, energy and count of the rows learned so far, and the prior that they rest on.

    With every row, the older ones count φ times less. What is stored is U / scale and V / scale
    with scale = φ^rows, so forgetting costs nothing: a new row is added with weight 1 / scale.
    Long before the weights leave the range of the dtype, the scale is multiplied in. Of U only
    the upper triangle is kept. The prior, evidence of others, stays apart and never fades.
    """

    def __init__(self, basis: Basis, forgetting: float, dtype: np.dtype[Any]) -> None:
        units = basis.layer.units
        self.basis = basis
        self.forgetting = forgetting
        self.U: Array = np.zeros((units, units), dtype, order="F")
        self._V: Array = np.zeros((units, basis.outputs), dtype, order="F")
        self._H: Array = np.empty((units, _WAITING), dtype, order="F")
        self._T: Array = np.empty((basis.outputs, _WAITING), dtype, order="F")
        self._waiting = 0
        self.scale = 1.0
        self.energy = 0.0
        self.count = 0.0
        self.resolution = epsilon(dtype)
        self.prior: Evidence | None = None
        self.prior_U: Array | None = None
        self._prior_V: Array | None = None
        self._smallest = float(np.sqrt(self.resolution))
        self._blas = Blas(dtype)

    def add_row(self, h: Array, t: Array, energy: float) -> None:
        """Adds one row: U ← φU + hᵀh, V ← φV + hᵀt."""
        if self.forgetting < 1.0:
            self._age(1)
        weight = 1.0 / self.scale
        self.U = self._blas.syr(weight, h, a=self.U, overwrite_a=1)
        self._H[:, self._waiting] = h if weight == 1.0 else weight * h
        self._T[:, self._waiting] = t
        self._waiting += 1
        if self._waiting == _WAITING:
            self._settle()
        self.energy += energy
        self.count += 1.0

    @property
    def V(self) -> Array:
        """The sum Σ hᵀt / scale over all rows; reading it changes nothing, from any thread."""
        if not self._waiting:
            return self._V
        H, T = self._H[:, : self._waiting], self._T[:, : self._waiting]
        V: Array = self._blas.gemm(1.0, H, T, trans_b=1, beta=1.0, c=self._V)
        return V

    def outputs(self, w: Array) -> Array:
        """Computes wᵀV, prior included, without adding the waiting rows to V first."""
        gemv, k = self._blas.gemv, self._waiting
        y: Array = gemv(1.0, self._V, w, trans=1)
        if k:
            shares = gemv(1.0, self._H[:, :k], w, trans=1)
            y = gemv(1.0, self._T[:, :k], shares, beta=1.0, y=y, overwrite_y=1)
        if self._prior_V is not None:
            y = gemv(1.0 / self.scale, self._prior_V, w, trans=1, beta=1.0, y=y, overwrite_y=1)
        return y

    def add_rows(self, H: Array, T: Array) -> None:
        """Adds many rows at once, as ``add_row`` would one after another."""
        rows = len(H)
        if self.forgetting < 1.0:
            # Row i of k is followed by k − 1 − i others; √φ on each side of both products.
            root = np.sqrt(self.forgetting ** np.arange(rows - 1, -1, -1.0)).astype(H.dtype)
            H, T = H * root[:, None], T * root[:, None]
            self._age(rows)
        weight = 1.0 / self.scale
        self.U = self._blas.syrk(weight, H.T, beta=1.0, c=self.U, overwrite_c=1)
        self._V = self._blas.gemm(weight, H.T, T.T, trans_b=1, beta=1.0, c=self._V, overwrite_c=1)
        flat = T.reshape(-1)
        self.energy += float(self._blas.dot(flat, flat))
        self.count += weight_of(rows, self.forgetting)

    def load(self, evidence: Evidence) -> None:
        """Puts this evidence in the place of all that was learned; the prior stays."""
        self.U, self._V = self._copied(evidence)
        self._waiting = 0
        self.scale, self.energy, self.count = 1.0, evidence.energy, evidence.count
        self.resolution = max(evidence.resolution, epsilon(self.U.dtype))

    def rest_on(self, prior: Evidence | None) -> None:
        """Puts this evidence of others, or none, in the place of the prior."""
        self.prior_U, self._prior_V = (None, None) if prior is None else self._copied(prior)
        self.prior = prior

    @property
    def evidence(self) -> Evidence:
        """What was learned, as a value that later rows do not change; without the prior."""
        return Evidence(
            self.basis,
            mirrored(self.U) * self.scale,
            self.V * self.scale,
            self.energy,
            self.count,
            self.resolution,
        )

    @property
    def total(self) -> Evidence:
        """What was learned and the prior together: what the model is solved from."""
        return self.evidence if self.prior is None else self.evidence + self.prior

    def _copied(self, evidence: Evidence) -> tuple[Array, Array]:
        """U and V in the layout that BLAS takes."""
        evidence.require_within(self.U.dtype)
        U, V = (np.array(part, self.U.dtype, order="F") for part in (evidence.U, evidence.V))
        return U, V

    def _age(self, rows: int) -> None:
        faded = self.forgetting**rows
        self.scale *= faded
        self.energy *= faded
        self.count *= faded
        if self.scale < self._smallest:
            self.U *= self.scale
            self._settle()
            self._V *= self.scale
            self.scale = 1.0

    def _settle(self) -> None:
        if self._waiting:
            H, T = self._H[:, : self._waiting], self._T[:, : self._waiting]
            self._V = self._blas.gemm(1.0, H, T, trans_b=1, beta=1.0, c=self._V, overwrite_c=1)
            self._waiting = 0


class Inverse:
    """Solves (U + λI) w = h, where U is the own sums plus the prior, one h after another.

    P follows the sums by rank-one updates, equation (12) for one row, and so drifts away from
    them; with forgetting or a prior it also can't follow exactly. Therefore P only proposes:
    each w is put back into the equation, corrected by the residual while that is larger than
    rounding explains, and where a few corrections do not suffice P is computed again by Cholesky.
    So the answer depends on the sums alone, not on the way that led to them.
    """

    def __init__(self, sums: Sums, ridge: float) -> None:
        self._sums = sums
        self._ridge = ridge
        self._dtype = sums.U.dtype
        self._blas = Blas(self._dtype)
        self._rounding = (_ROUNDING * epsilon(self._dtype)) ** 2
        # A residual r changes the output by rᵀβ, as if h had been measured that much wrong.
        self._tolerance = epsilon(self._dtype) ** (4 / 3)
        self._P: Array | None = None
        self._raised = ridge
        self._trace = 0.0
        self._scale = 1.0
        self._corrections = 0
        self._patience = _PATIENCE[0] + _PATIENCE[1] * len(sums.U)
        self._resolution = sums.resolution
        #: How often P was computed from the sums: many times is a sign of bad numerical health.
        self.refreshes = 0

    def expire(self) -> None:
        """Drops P, after the sums changed by more than one row or rest on another prior."""
        prior = self._sums.prior
        self._resolution = max(self._sums.resolution, 0.0 if prior is None else prior.resolution)
        self._P = None

    def solve(self, h: Array) -> Array:
        """Computes w = (U + λI)⁻¹ h · scale, to rounding."""
        if self._P is None or self._corrections > self._patience:
            return self._solved_again(h)
        w, small = self._refined(h, self._proposed(h))
        return w if small else self._solved_again(h)

    def _refined(self, h: Array, w: Array) -> tuple[Array, bool]:
        """Corrects w while that helps; says whether rounding explains what is left."""
        best, least = w, np.inf
        for _ in range(_REFINEMENTS):
            r, size, small = self._residual(h, w)
            if small:
                return w, True
            if not size < least:
                # P is worse than none: w would grow until its own rounding covered the residual.
                break
            best, least = w, size
            w = self._corrected(w, r)
        return best, False

    def follow(self, h: Array, w: Array) -> None:
        """Updates P for the row that ``Sums.add_row`` added: (12), where the inverse is 1 / x."""
        pivot = self._sums.scale + self._blas.dot(h, w)
        # A scale that grew was multiplied into the sums: P and its trace are of another unit now.
        rescaled, self._scale = self._sums.scale > self._scale, self._sums.scale
        if not 0.0 < pivot < np.inf or self._P is None or rescaled:
            self._P = None
            return
        # P ← P − P hᵀ (1 + h P hᵀ)⁻¹ h P
        self._P = self._blas.syr(-1.0 / pivot, w, a=self._P, overwrite_a=1)
        self._trace += self._blas.dot(h, h) / self._sums.scale
        if self._outgrown():
            self._P = None

    def _outgrown(self) -> bool:
        """Whether the sums have grown so much that λ, raised to be visible, no longer is.

        Then P holds 1 / λ beside entries that its rounding covers, and no residual shows it.
        """
        limit, scale = 2.0 * self._raised, self._sums.scale
        # trace U ≥ the largest entry, and mostly that is enough to know
        if limit == 0.0 or visible(self._trace * scale, self._resolution) <= limit:
            return False
        return visible(float(self._sums.U.diagonal().max()) * scale, self._resolution) > limit

    def _proposed(self, h: Array) -> Array:
        w: Array = self._blas.symv(1.0, self._P, h)
        return w

    def _corrected(self, w: Array, r: Array) -> Array:
        self._corrections += 1
        better: Array = self._blas.symv(1.0, self._P, r, beta=1.0, y=w)
        return better

    def _residual(self, h: Array, w: Array) -> tuple[Array, float, bool]:
        """h − (U + λI) w, its square, and whether rounding explains it (NaN is never small)."""
        call, scale = self._blas, self._sums.scale
        r = call.symv(-1.0, self._sums.U, w, beta=1.0, y=h)
        r = call.axpy(w, r, a=-self._raised / scale)
        if self._sums.prior_U is not None:
            r = call.symv(-1.0 / scale, self._sums.prior_U, w, beta=1.0, y=r, overwrite_y=1)
        # ‖r‖² ≤ (ε^⅔ ‖h‖)², or the rounding of U w: about (ε ‖U‖ ‖w‖)², where trace U ≥ ‖U‖
        least = self._rounding * self._trace * self._trace * call.dot(w, w)
        size = call.dot(r, r)
        return r, size, size <= self._tolerance * call.dot(h, h) + least

    def _solved_again(self, h: Array) -> Array:
        factor = self._refresh()
        # The factor's own answer: with an offset of 1e6 deviations P is too coarse to begin with.
        with np.errstate(over="ignore"):
            solved = (factor.solve(h) * self._scale).astype(self._dtype)
        w, _ = self._refined(h, solved)
        if not np.isfinite(self._blas.dot(w, w)):
            self._P = None
            raise SingularSystem(
                f"no finite solution in {self._dtype}: the ridge {self._ridge:g} is too small "
                "for sums of this size, or the inputs need scaling"
            )
        return w

    def _refresh(self) -> Factor:
        """P ← (U + λI)⁻¹ from the sums, in their scale; gives the factor that it is made of."""
        sums = self._sums
        U = sums.U * sums.scale
        if sums.prior_U is not None:
            U += sums.prior_U
        factor = regularized(U, self._ridge, self._resolution)
        # P only proposes: one that overflows is noticed by its residual, like any other bad one.
        with np.errstate(over="ignore"):
            self._P = np.asfortranarray(factor.inverse() * sums.scale, self._dtype)
        self._raised = factor.ridge
        self._trace = (float(U.trace()) + len(U) * factor.ridge) / sums.scale
        self._scale = sums.scale
        self._corrections = 0
        self.refreshes += 1
        return factor
