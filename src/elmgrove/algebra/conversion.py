"""Converting what was learned to another basis: other units, another layer, another order."""

from dataclasses import replace

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.moments import Moments, mixing
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import OWN, Scaling
from elmgrove.errors import Mismatch


class Conversion:
    """What rows and their sums become in the units, the layer and the order of another basis.

    A value x' = (raw − shift')/scale' is a·x + b, so sums about a centre c become those about
    a·c + b, exactly but for rounding: C' = a C a, s' = a s, e' = a² e. Where C holds all products,
    those with another layer's mixtures follow from them; where it holds mixtures alone, only a
    common factor can be converted. ``Mismatch`` says what stands in the way.

    In own units, the target's are those in which the rows were learned.
    """

    def __init__(self, learned: Moments, target: Basis) -> None:
        source = learned.basis
        if target.scaling.lacks_numbers:
            target = replace(target, scaling=_own_units(learned, target))
        _require_alike(source, target)
        self.basis = target
        names, wanted = source.features or (), target.features or ()
        order = [names.index(name) for name in wanted] or range(source.layer.inputs)
        if source.spectrum is not None:
            # Each column is as many values as there are bands.
            bands = source.bands
            order = [place * bands + i for place in order for i in range(bands)]
        self._order = np.array(order)
        (shift, scale), (to_shift, to_scale) = _units(source), _units(target)
        shift, scale = shift[self._order], scale[self._order]
        self._a, self._b = scale / to_scale, (shift - to_shift) / to_scale
        in_order = bool((np.diff(self._order) == 1).all())
        self._mixed = mixing(source) is not None
        if self._mixed and not (
            source.layer == target.layer and in_order and (self._a == self._a[0]).all()
        ):
            raise Mismatch(
                f"it holds {source.layer.units} mixtures of {source.inputs} inputs, which have "
                "other units there"
            )

    def rows(self, X: Array) -> Array:
        """Converts rows, or inputs: windows of rows."""
        each = X.reshape(-1, len(self._order)).astype(np.float64)[:, self._order]
        made: Array = (each * self._a + self._b).astype(X.dtype).reshape(X.shape)
        return made

    def moments(self, learned: Moments) -> Moments:
        """Converts sums, as the same rows would have given them."""
        columns, window = len(self._order), self.basis.window
        places = np.concatenate([self._order + columns * i for i in range(window)])
        a, b = np.tile(self._a, window), np.tile(self._b, window)
        C = np.asarray(learned.C, np.float64)
        if self._mixed:
            C = C * self._a[0] ** 2
        else:
            C = C[np.ix_(places, places)] * np.outer(a, a)
            A = mixing(self.basis)
            C = C if A is None else A.T @ C
        made = Moments(
            self.basis,
            C.astype(learned.C.dtype),
            a * learned.s[places],
            a**2 * learned.e[places],
            learned.count,
            a * learned.centre[places] + b,
            learned.resolution,
        )
        return made if self.basis.scaling.kind == "none" else made.about(np.zeros(len(a)))


def _own_units(learned: Moments, target: Basis) -> Scaling:
    scaling = learned.basis.scaling
    if not scaling.shift:
        scaling = Scaling.of(OWN, learned.levels)
    return replace(scaling, kind=OWN, tails=target.scaling.tails)


def _units(basis: Basis) -> tuple[Array, Array]:
    """Shift and scale of each column."""
    columns, scaling = basis.layer.inputs, basis.scaling
    if scaling.kind == "none":
        return np.zeros(columns), np.ones(columns)
    return np.array(scaling.shift), np.array(scaling.scale)


def _require_alike(source: Basis, target: Basis) -> None:
    """Raises ``Mismatch`` with all that no conversion can make equal."""
    said = list[str]()
    here, there = ({*(one.features or ())} for one in (source, target))
    if here != there or source.layer.inputs != target.layer.inputs:
        only = [
            f"{' and '.join(map(repr, sorted(names)))} only {where}"
            for names, where in ((here - there, "here"), (there - here, "there"))
            if names
        ]
        counts = f"{source.columns} columns here, {target.columns} there"
        said.append(f"other columns: {', '.join(only) or counts}")
    for name in ("window", "score", "spectrum", "categories"):
        own, other = getattr(source, name), getattr(target, name)
        if own != other:
            said.append(f"{name}: {own or 'none'} here, {other or 'none'} there")
    if said:
        raise Mismatch("; ".join(said))
