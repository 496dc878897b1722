"""OS-ELM: a network that learns row by row in closed form, and whose state is evidence."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.blas import Blas, one_thread
from elmgrove.algebra.cholesky import mirrored, require_ridge
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.layer import HiddenLayer
from elmgrove.algebra.rows import Array, Rows
from elmgrove.algebra.stream import Inverse, Sums, require_forgetting
from elmgrove.errors import BadInput

# Rows a product: large enough for BLAS to run at full speed, small enough for its caches.
_BLOCK = 1024


class Network:
    """The part of the model that never learns: the hidden layer, and the checks of its rows."""

    def __init__(self, basis: Basis, dtype: Any) -> None:
        if np.dtype(dtype) not in (np.float64, np.float32):
            raise BadInput(f"dtype must be float64 or float32, not {np.dtype(dtype)}")
        layer = basis.hidden
        self.basis = basis
        self.dtype = np.dtype(dtype)
        names = basis.features if basis.window == 1 else None
        self._inputs = Rows(basis.inputs, self.dtype, names)
        self._targets = Rows(basis.outputs, self.dtype)
        self._blas = Blas(self.dtype)
        self._alpha_t = layer.alpha.astype(self.dtype, copy=False).T
        self._b = layer.b.astype(self.dtype, copy=False)
        self._activate = layer.activate if layer.activation != "identity" else None

    def hidden_one(self, x: Array) -> Array:
        """Computes the hidden outputs h of a row that was checked."""
        h: Array = self._blas.gemv(1.0, self._alpha_t, x, beta=1.0, y=self._b)
        return h if self._activate is None else self._activate(h)

    def hidden_many(self, X: Array) -> Array:
        """Computes the hidden outputs H of rows that were checked."""
        # SciPy's BLAS throughout: NumPy brings another one, whose threads would get in its way.
        H: Array = self._blas.gemm(1.0, self._alpha_t, X.T).T
        H += self._b
        return H if self._activate is None else self._activate(H)

    def _pairs(self, X: Any, T: Any) -> tuple[Array, Array]:
        X, _ = self._inputs.many(X)
        T, _ = self._targets.many(T)
        if len(X) != len(T):
            raise BadInput(f"{len(X)} rows of inputs, but {len(T)} rows of targets")
        return X, T


class Guess(NamedTuple):
    """What a model makes of one row: its hidden outputs h, w = Ph, and its outputs y."""

    h: Array
    w: Array
    y: Array


class OSELM(Network):
    """Online sequential extreme learning machine (Ito 2021, §3) for targets of any width.

    The state is the evidence of the rows learned; P and β are computed from it when asked for.
    So it works from the very first row, ``learn_many`` equals a loop of ``learn_one``, and
    merging equals having learned the other's rows. It needs inputs of a sensible scale (around
    1) and a ridge above 0 until there are more rows than units. One row costs about
    (inputs + 2·outputs + 3·units)·units multiplications, and memory for
    (inputs + outputs + 2·units)·units numbers, whatever the number of rows. A ``basis`` names the
    features and their scaling in the evidence; rows come scaled.

    ``forgetting`` below 1 makes each row count that much less with every later one; since the
    ridge does not fade, directions that are no longer seen fall back to 0 instead of growing
    without bound. float32 halves the memory and resolves directions of 4e-6 of the largest.

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
        dtype: Any = np.float64,
        basis: Basis | None = None,
    ) -> None:
        super().__init__(Basis(layer, outputs) if basis is None else basis, dtype)
        if (self.basis.layer, self.basis.outputs) != (layer, outputs):
            raise BadInput("layer and outputs differ from those of the basis")
        require_ridge(ridge)
        require_forgetting(forgetting)
        self.ridge, self.forgetting = float(ridge), float(forgetting)
        self._sums = Sums(self.basis, self.forgetting, self.dtype)
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
                y: Array = self._blas.gemv(1.0, self._beta, h, trans=1)
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
        self._sums.rest_on(prior)
        self._expire()

    @property
    def total(self) -> Evidence:
        """Own evidence and prior together: what the model is solved from."""
        return self._sums.total

    def merge(self, other: Evidence) -> None:
        """Adds evidence as own, as if its rows had been learned here (§4.2)."""
        self.replace(None, other)

    def subtract(self, other: Evidence) -> None:
        """Takes evidence out, as if its rows had never been learned; refused if they were not."""
        self.replace(other, None)

    def replace(self, old: Evidence | None, new: Evidence | None) -> None:
        """Takes ``old`` out and puts ``new`` in, or does neither."""
        changed = self.evidence
        for part, what in ((old, "the evidence to take out"), (new, "the evidence to put in")):
            if part is not None:
                self.basis.require(part.basis)
                part.require_admissible(f"{what} is not admissible")
        if old is not None:
            changed = changed.without(old)
        self._sums.load(changed if new is None else changed + new)
        self._expire()

    # P and β on demand

    @property
    def P(self) -> Array:
        """The matrix P = (U + λI)⁻¹, computed from the evidence."""
        return mirrored(self.total.factor(self.ridge).inverse()).astype(self.dtype)

    @property
    def beta(self) -> Array:
        """The output weights, computed from the evidence when it has changed."""
        if self._beta is None:
            self._beta = self.total.solve(self.ridge).astype(self.dtype, copy=False)
            self._beta.setflags(write=False)
        return self._beta

    @property
    def refreshes(self) -> int:
        """How often P was computed from the sums: many times is a sign of bad numerical health."""
        return self._inverse.refreshes

    def leave_one_out(self, X: Any, T: Any) -> Array:
        """Computes the squared errors of the last rows learned, each by the model without that row.

        Exact and without training: the residual grows by 1 / (1 − hᵀPh·φ^age) (Allen's PRESS).
        """
        X, T = self._pairs(X, T)
        with _threads(len(X)):
            H = self.hidden_many(X)
            W = self.total.factor(self.ridge).solve(H.T.astype(np.float64))
            R = T - self.output_many(H)
        age = np.arange(len(X) - 1, -1, -1.0)
        leverage = np.einsum("ij,ji->i", H, W) * self.forgetting**age
        left = np.maximum(1.0 - leverage, np.sqrt(np.finfo(self.dtype).eps))
        errors: Array = _squares(R) / left**2
        return errors

    # The steps of one row, for callers that share them between scoring and learning

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
        Y: Array = self._blas.gemm(1.0, self.beta, H.T, trans_a=1).T
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

    def _expire(self) -> None:
        self._inverse.expire()
        self._beta = None


def _threads(rows: int) -> AbstractContextManager[None]:
    """One thread for what takes a few milliseconds: there, waiting for a second one costs more."""
    return one_thread if rows <= _BLOCK else nullcontext()


def _squares(R: Array) -> Array:
    squares: Array = np.einsum("ij,ij->i", R, R).astype(np.float64)
    return squares
