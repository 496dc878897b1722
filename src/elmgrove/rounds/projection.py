"""Projections: from many columns to the few principal components in which rows vary (PCA)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Categories, Words, fixed_words
from elmgrove.algebra.moments import Packed
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import Scaling
from elmgrove.errors import BadInput


@dataclass(frozen=True, eq=False)
class Projection:
    """Principal components of columns, which are scaled before; the components are not.

    ``features`` and ``categories`` are those of the columns, and ``axes`` has a row for each of
    them and a column for each component.
    """

    features: tuple[str, ...] | None
    categories: Words
    scaling: Scaling
    mean: Array
    axes: Array

    @classmethod
    def fitted(
        cls,
        X: Array,
        features: Sequence[str] | None,
        categories: Categories,
        *,
        scaling: str,
        variance: float,
    ) -> "Projection":
        """Keeps the fewest components of these rows that have this share of their variance."""
        if not 0.0 < variance <= 1.0:
            raise BadInput(f"the variance to keep is a share above 0, up to 1, not {variance:g}")
        fixed = Scaling.fitted(scaling, X)
        Z = fixed(X)
        variances, axes = np.linalg.eigh(np.atleast_2d(np.cov(Z, rowvar=False)))
        # eigh begins with the smallest.
        shares = np.cumsum(variances[::-1]) / max(variances.sum(), np.finfo(float).tiny)
        count = min(int(np.searchsorted(shares, variance)) + 1, len(shares))
        kept = axes[:, ::-1][:, :count]
        # An axis may point either way; here its largest entry is positive, on every platform.
        kept = kept * np.sign(kept[np.abs(kept).argmax(axis=0), np.arange(count)])
        names = None if features is None else tuple(features)
        return cls(names, fixed_words(categories), fixed, Z.mean(axis=0), kept)

    def __post_init__(self) -> None:
        if self.axes.ndim != 2 or self.mean.shape != (len(self.axes),):
            raise BadInput(f"axes of {self.axes.shape} don't fit a mean of {self.mean.shape}")
        numbers = (self.mean, self.axes)
        if not all(one.dtype == np.float64 and np.isfinite(one).all() for one in numbers):
            raise BadInput("a mean and axes must be finite numbers in float64")
        scaled = len(self.scaling.shift)
        if scaled and scaled != self.columns:
            raise BadInput(f"scaling of {scaled} columns, where there are {self.columns}")

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        return len(self.axes)

    @property
    def components(self) -> int:
        """The number of components that are kept."""
        return int(self.axes.shape[1])

    def __call__(self, X: Array) -> Array:
        return (self.scaling(X) - self.mean) @ self.axes

    def packed(self) -> Packed:
        """The projection as fields that JSON holds, and arrays."""
        fields = {
            "features": None if self.features is None else list(self.features),
            "categories": {name: list(words) for name, words in self.categories},
            "scaling": self.scaling.fields,
        }
        return fields, {"mean": self.mean, "axes": self.axes}

    @classmethod
    def unpacked(
        cls, fields: Mapping[str, Any] | None, arrays: Mapping[str, Array]
    ) -> "Projection | None":
        """Reverses ``packed``; None of no fields."""
        if fields is None:
            return None
        features, words = fields["features"], fixed_words(fields["categories"])
        scaling = Scaling.from_fields(fields["scaling"])
        names = None if features is None else tuple(features)
        return cls(names, words, scaling, arrays["mean"], arrays["axes"])
