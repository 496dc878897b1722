"""OS-ELM: a network that learns row by row in closed form, and whose state is evidence."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy, ddot, dgemm, dgemv, dsymv, dsyr, dsyrk

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.layer import HiddenLayer
from elmgrove.algebra.linalg import (
    EPSILON,
    Factor,
    mirrored,
    one_thread,
    regularized,
    require_ridge,
    visible,
)
from elmgrove.algebra.rows import Array, Rows
from elmgrove.errors import BadInput, SingularSystem

# Rows that wait for their addition to V: one row reads and writes all of it, sixteen do no more.
_WAITING = 16


def require_forgetting(forgetting: float) -> None:
    if not 0.0 < forgetting <= 1.0:
        raise BadInput(f"forgetting must be above 0 and at most 1 (1 = none), not {forgetting!r}")


def weight_of(rows: int, forgetting: float) -> float:
    """Computes what so many rows weigh together, the newest of them 1: 1 + φ + … + φ^(rows − 1)."""
    return float(rows) if forgetting == 1.0 else (1.0 - forgetting**rows) / (1.0 - forgetting)


class Sums:
    """U, V, energy and count of the rows learned so far, and the prior that they rest on.

    With every row, the older ones count φ times less. Stored are U / scale and V / scale with scale
    = φ^rows, so a new row is added with weight 1 / scale and forgetting costs nothing. Of U only
    the upper triangle is kept. The prior, evidence of others, stays apart and never fades.
    """

    def __init__(self, basis: Basis, forgetting: float) -> None:
        units = basis.layer.units
        self.basis = basis
        self.forgetting = forgetting
        self.U: Array = np.zeros((units, units), order="F")
        self._V: Array = np.zeros((units, basis.outputs), order="F")
        self._H: Array = np.empty((units, _WAITING), order="F")
        self._T: Array = np.empty((basis.outputs, _WAITING), order="F")
        self._waiting = 0
        self.scale = 1.0
        self.energy = 0.0
        self.count = 0.0
        self.resolution = EPSILON
        self.prior: Evidence | None = None
        self.prior_U: Array | None = None
        self._prior_V: Array | None = None
        self._smallest = math.sqrt(EPSILON)

    def add_row(self, h: Array, t: Array, energy: float) -> None:
        """Adds one row: U ← φU + hᵀh, V ← φV + hᵀt."""
        if self.forgetting < 1.0:
            self._age(1)
        weight = 1.0 / self.scale
        self.U = dsyr(weight, h, a=self.U, overwrite_a=1)
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
        V: Array = dgemm(1.0, H, T, trans_b=1, beta=1.0, c=self._V)
        return V

    def outputs(self, w: Array) -> Array:
        """Computes wᵀV, prior included, without adding the waiting rows to V first."""
        k = self._waiting
        y: Array = dgemv(1.0, self._V, w, trans=1)
        if k:
            shares = dgemv(1.0, self._H[:, :k], w, trans=1)
            y = dgemv(1.0, self._T[:, :k], shares, beta=1.0, y=y, overwrite_y=1)
        if self._prior_V is not None:
            y = dgemv(1.0 / self.scale, self._prior_V, w, trans=1, beta=1.0, y=y, overwrite_y=1)
        return y

    def add_rows(self, H: Array, T: Array) -> None:
        rows = len(H)
        if self.forgetting < 1.0:
            # Row i of k is followed by k − 1 − i others; √φ on each side of both products.
            root = np.sqrt(self.forgetting ** np.arange(rows - 1, -1, -1.0))
            H, T = H * root[:, None], T * root[:, None]
            self._age(rows)
        weight = 1.0 / self.scale
        self.U = dsyrk(weight, H.T, beta=1.0, c=self.U, overwrite_c=1)
        self._V = dgemm(weight, H.T, T.T, trans_b=1, beta=1.0, c=self._V, overwrite_c=1)
        flat = T.reshape(-1)
        self.energy += float(ddot(flat, flat))
        self.count += weight_of(rows, self.forgetting)

    def load(self, evidence: Evidence) -> None:
        self.U, self._V = self._copied(evidence)
        self._waiting = 0
        self.scale, self.energy, self.count = 1.0, evidence.energy, evidence.count
        self.resolution = max(evidence.resolution, EPSILON)

    def set_prior(self, prior: Evidence | None) -> None:
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
        evidence.require_in_range()
        U, V = (np.array(part, np.float64, order="F") for part in (evidence.U, evidence.V))
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
            self._V = dgemm(1.0, H, T, trans_b=1, beta=1.0, c=self._V, overwrite_c=1)
            self._waiting = 0


class Inverse:
    """Solves (U + λI) w = h, where U is the own sums plus the prior, one h after another.

    P follows the sums by rank-one updates, equation (12) for one row, and so drifts away from them.
    Therefore P only proposes: each w is put back into the equation, corrected by the residual while
    that is larger than rounding explains, and where a few corrections do not suffice P is computed
    again by Cholesky. So the answer depends on the sums alone, not on the way that led to them.
    """

    def __init__(self, sums: Sums, ridge: float) -> None:
        self._sums = sums
        self._ridge = ridge
        # The residual that rounding leaves at any rate.
        self._rounding = (4.0 * EPSILON) ** 2
        # A residual r changes the output by rᵀβ, as if h had been measured that much wrong.
        self._tolerance = EPSILON ** (4 / 3)
        self._P: Array | None = None
        self._raised = ridge
        self._trace = 0.0
        self._scale = 1.0
        self._corrections = 0
        # Corrections in all after which a new P is the cheaper way.
        self._patience = 16.0 + 0.5 * len(sums.U)
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
        w, small = self._refined(h, dsymv(1.0, self._P, h))
        return w if small else self._solved_again(h)

    def _refined(self, h: Array, w: Array) -> tuple[Array, bool]:
        """Corrects w while that helps; says whether rounding explains what is left."""
        best, least = w, np.inf
        # Each correction makes the error smaller by P's own error.
        for _ in range(8):
            r, size, small = self._residual(h, w)
            if small:
                return w, True
            if not size < least:
                # P is worse than none: w would grow until its own rounding covered the residual.
                break
            best, least = w, size
            self._corrections += 1
            w = dsymv(1.0, self._P, r, beta=1.0, y=w)
        return best, False

    def follow(self, h: Array, w: Array) -> None:
        """Updates P for the row that ``Sums.add_row`` added: (12), where the inverse is 1 / x."""
        pivot = self._sums.scale + ddot(h, w)
        # A scale that grew was multiplied into the sums: P and its trace are of another unit now.
        rescaled, self._scale = self._sums.scale > self._scale, self._sums.scale
        if not 0.0 < pivot < np.inf or self._P is None or rescaled:
            self._P = None
            return
        # P ← P − P hᵀ (1 + h P hᵀ)⁻¹ h P
        self._P = dsyr(-1.0 / pivot, w, a=self._P, overwrite_a=1)
        self._trace += ddot(h, h) / self._sums.scale
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

    def _residual(self, h: Array, w: Array) -> tuple[Array, float, bool]:
        """h − (U + λI) w, its square, and whether rounding explains it (NaN is never small)."""
        scale = self._sums.scale
        r = dsymv(-1.0, self._sums.U, w, beta=1.0, y=h)
        r = daxpy(w, r, a=-self._raised / scale)
        if self._sums.prior_U is not None:
            r = dsymv(-1.0 / scale, self._sums.prior_U, w, beta=1.0, y=r, overwrite_y=1)
        # ‖r‖² ≤ (ε^⅔ ‖h‖)², or the rounding of U w: about (ε ‖U‖ ‖w‖)², where trace U ≥ ‖U‖
        least = self._rounding * self._trace * self._trace * ddot(w, w)
        size = ddot(r, r)
        return r, size, size <= self._tolerance * ddot(h, h) + least

    def _solved_again(self, h: Array) -> Array:
        factor = self._refresh()
        # The factor's own answer: with an offset of 1e6 deviations P is too coarse to begin with.
        with np.errstate(over="ignore"):
            solved = factor.solve(h) * self._scale
        w, _ = self._refined(h, solved)
        if not np.isfinite(ddot(w, w)):
            self._P = None
            raise SingularSystem(
                f"no finite solution: the ridge {self._ridge:g} is too small "
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
            self._P = np.asfortranarray(factor.inverse() * sums.scale)
        self._raised = factor.ridge
        self._trace = (float(U.trace()) + len(U) * factor.ridge) / sums.scale
        self._scale = sums.scale
        self._corrections = 0
        self.refreshes += 1
        return factor


# Rows a product: large enough for BLAS to run at full speed, small enough for its caches.
_BLOCK = 1024


class Guess(NamedTuple):
    """What a model makes of one row: its hidden outputs h, w = Ph, and its outputs y."""

    h: Array
    w: Array
    y: Array


class OSELM:
    """Online sequential extreme learning machine (Ito 2021, §3) for targets of any width.

    The state is the evidence of the rows learned; P and β are computed from it when asked for.
    So it works from the very first row, ``learn_many`` equals a loop of ``learn_one``, and
    merging equals having learned the other's rows. It needs inputs of a sensible scale (around
    1) and a ridge above 0 until there are more rows than units; rows come scaled.

    ``forgetting`` below 1 makes each row count that much less with every later one; since the
    ridge does not fade, directions that are no longer seen fall back to 0.

    >>> layer = HiddenLayer(inputs=2, units=8, activation="tanh", seed=1)
    >>> xor = OSELM(layer, outputs=1, ridge=1e-6)
    >>> for x, t in [((0, 0), 0), ((0, 1), 1), ((1, 0), 1), ((1, 1), 0)]:
    ...     xor.learn_one(x, [t])
    >>> xor.predict_many([[0, 0], [0, 1], [1, 0], [1, 1]]).round(3).ravel().tolist()
    [0.0, 1.0, 1.0, 0.0]
    """

    def __init__(
        self,
        layer: HiddenLayer,
        outputs: int,
        *,
        ridge: float = 1e-3,
        forgetting: float = 1.0,
        basis: Basis | None = None,
    ) -> None:
        self.basis = Basis(layer, outputs) if basis is None else basis
        if (self.basis.layer, self.basis.outputs) != (layer, outputs):
            raise BadInput("layer and outputs differ from those of the basis")
        require_ridge(ridge)
        require_forgetting(forgetting)
        self.ridge, self.forgetting = float(ridge), float(forgetting)
        names = self.basis.features if self.basis.window == 1 else None
        self._inputs, self._targets = Rows(self.basis.inputs, names), Rows(outputs)
        self._layer = self.basis.hidden
        self._sums = Sums(self.basis, self.forgetting)
        self._inverse = Inverse(self._sums, self.ridge)
        self._beta: Array | None = None

    # Learning and predicting

    def learn_one(self, x: Any, t: Any) -> None:
        """Learns one row; on bad input raises ``BadInput`` and stays as it was."""
        x, _ = self._inputs.one(x)
        t, energy = self._targets.one(t)
        with one_thread:
            h = self.hidden_one(x)
            self.absorb(h, self.solve_one(h), t, energy)

    def learn_many(self, X: Any, T: Any) -> None:
        """Learns rows in their order, as ``learn_one`` would one by one, but much faster."""
        self.absorb_many(*self._pairs(X, T))

    def predict_one(self, x: Any) -> Array:
        """Computes the outputs for one row; never learns."""
        x, _ = self._inputs.one(x)
        with one_thread:
            h = self.hidden_one(x)
            if self._beta is not None:
                y: Array = dgemv(1.0, self._beta, h, trans=1)
                return y
            return self.output_one(self.solve_one(h))

    def predict_many(self, X: Any) -> Array:
        """Computes the outputs for each row; never learns."""
        X, _ = self._inputs.many(X)
        with _threads(len(X)):
            return self.output_many(self.hidden_many(X))

    # E²LM: evidence that is put in and taken out, and evidence of others that stays theirs

    @property
    def evidence(self) -> Evidence:
        """What was learned and merged here, as a value; without the prior."""
        return self._sums.evidence

    @property
    def prior(self) -> Evidence | None:
        """Evidence of others that the model rests on: not its own, and never forgotten."""
        return self._sums.prior

    @prior.setter
    def prior(self, prior: Evidence | None) -> None:
        if prior is not None:
            self.basis.require(prior.basis)
            prior.require_admissible("this evidence can't serve as a prior")
        self.use_prior(prior)

    def use_prior(self, prior: Evidence | None) -> None:
        """Sets the prior without a check, for sums and differences of what was admissible.

        A little that is left of a lot carries the rounding of the lot, and would not pass.
        """
        self._sums.set_prior(prior)
        self._expire()

    @property
    def total(self) -> Evidence:
        """Own evidence and prior together: what the model is solved from."""
        return self._sums.total

    def merge(self, other: Evidence) -> None:
        """Adds evidence as own, as if its rows had been learned here (§4.2)."""
        self.basis.require(other.basis)
        other.require_admissible("the evidence to put in is not admissible")
        self._put(self.evidence + other)

    def subtract(self, other: Evidence) -> None:
        """Takes evidence out, as if its rows had never been learned; refused if they were not."""
        self._put(self.evidence.without(other))

    def _put(self, evidence: Evidence) -> None:
        self._sums.load(evidence)
        self._expire()

    # P and β on demand

    @property
    def P(self) -> Array:
        """The matrix P = (U + λI)⁻¹, computed from the evidence."""
        return mirrored(self.total.factor(self.ridge).inverse())

    @property
    def beta(self) -> Array:
        """The output weights, computed from the evidence when it has changed."""
        if self._beta is None:
            self._beta = self.total.solve(self.ridge)
            self._beta.setflags(write=False)
        return self._beta

    def leave_one_out(self, X: Any, T: Any) -> Array:
        """Computes the squared errors of the last rows learned, each by the model without that row.

        Exact and without training: the residual grows by 1 / (1 − hᵀPh·φ^age) (Allen's PRESS).
        """
        X, T = self._pairs(X, T)
        with _threads(len(X)):
            H = self.hidden_many(X)
            W = self.total.factor(self.ridge).solve(H.T)
            R = T - self.output_many(H)
        age = np.arange(len(X) - 1, -1, -1.0)
        leverage = np.einsum("ij,ji->i", H, W) * self.forgetting**age
        left = np.maximum(1.0 - leverage, math.sqrt(EPSILON))
        errors: Array = np.einsum("ij,ij->i", R, R) / left**2
        return errors

    # The steps of one row, for callers that share them between scoring and learning

    def hidden_one(self, x: Array) -> Array:
        """Computes the hidden outputs h of a row that was checked."""
        layer = self._layer
        h: Array = dgemv(1.0, layer.alpha.T, x, beta=1.0, y=layer.b)
        return layer.activate(h)

    def hidden_many(self, X: Array) -> Array:
        """Computes the hidden outputs H of rows that were checked."""
        # SciPy's BLAS throughout: NumPy brings another one, whose threads would get in its way.
        H: Array = dgemm(1.0, self._layer.alpha.T, X.T).T
        H += self._layer.b
        return self._layer.activate(H)

    def guess(self, x: Array) -> Guess:
        """Computes what the model makes of a row that was checked."""
        h = self.hidden_one(x)
        w = self.solve_one(h)
        return Guess(h, w, self.output_one(w))

    def solve_one(self, h: Array) -> Array:
        """Computes w = Ph."""
        return self._inverse.solve(h)

    def output_one(self, w: Array) -> Array:
        """Computes the outputs y = hβ = wᵀV, without β."""
        return self._sums.outputs(w)

    def output_many(self, H: Array) -> Array:
        """Computes the outputs Y = Hβ: equation (1)."""
        Y: Array = dgemm(1.0, self.beta, H.T, trans_a=1).T
        return Y

    def absorb(self, h: Array, w: Array, t: Array, energy: float) -> None:
        """Adds a row to the sums, and updates P."""
        self._sums.add_row(h, t, energy)
        self._inverse.follow(h, w)
        self._beta = None

    def absorb_many(self, X: Array, T: Array) -> None:
        """Adds rows that were checked to the sums; P is computed when it is needed."""
        with _threads(len(X)):
            for start in range(0, len(X), _BLOCK):
                block = slice(start, start + _BLOCK)
                self._sums.add_rows(self.hidden_many(X[block]), T[block])
        self._expire()

    def _pairs(self, X: Any, T: Any) -> tuple[Array, Array]:
        X, _ = self._inputs.many(X)
        T, _ = self._targets.many(T)
        if len(X) != len(T):
            raise BadInput(f"{len(X)} rows of inputs, but {len(T)} rows of targets")
        return X, T

    def _expire(self) -> None:
        self._inverse.expire()
        self._beta = None


def _threads(rows: int) -> AbstractContextManager[None]:
    """One thread for what takes a few milliseconds: there, waiting for a second one costs more."""
    return one_thread if rows <= _BLOCK else nullcontext()
