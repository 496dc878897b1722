"""Fresh rows: what was learned since something was last given away, as an upload guard needs it."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.few_values import FewValues, Numbered
from elmgrove.algebra.packing import Packed, numbers_in, pack_part, unpack_part
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput, require_whole


def inputs_withheld(basis: Basis) -> int:
    """Counts the windows to withhold from an upload, so that others can't tell where it ends.

    Sums over windows that follow each other differ from place to place in the rows at both ends
    alone: of Σ y and Σ y² that gives these rows exactly, however many lie between them. What the
    sums show beyond what is equal in all places is about the ends. Each window that is left out
    has ends of its own, as many unknowns as it has values: enough of them have as many as there
    are such numbers.
    """
    columns, window = basis.layer.inputs, basis.window
    if window == 1:
        return 0
    alike = columns * (columns + 1) // 2 + (window - 1) * columns**2 + columns
    about_ends = max(numbers_in(basis) - alike, 0) + 2 * (window - 1) * columns
    return math.ceil(about_ends / basis.inputs)


class Fresh:
    """Follows the rows learned since the last upload where counting them does not tell enough.

    A unit of relu is exactly 0 in many rows, and what few rows activate can be read off the sums:
    so of each unit those rows are counted (``active``). Windows overlap: so every w-th input is
    kept, as many as are withheld (``inputs_withheld``). Columns with few values single rows out:
    those are withheld as well (``FewValues``). What is withheld leaves with a later upload.
    """

    def __init__(self, basis: Basis) -> None:
        self._basis = basis
        self._layer = basis.hidden if basis.layer.activation == "relu" else None
        self._window, self._width = basis.window, basis.inputs
        self._kept: deque[Numbered] = deque(maxlen=inputs_withheld(basis))
        self.few = FewValues(basis)
        self.inputs = 0
        self.begin()

    def begin(self, withheld: Sequence[Numbered] = (), forgetting: float = 1.0) -> None:
        """Begins again: all that was learned is in an upload but what was withheld."""
        #: Whether it knows of all rows since the last upload.
        self.known = True
        # Whether a file that said nothing is all that there is.
        self._unsaid = False
        #: What had been learned when it last came to know nothing; None if it knows all.
        self.since: Evidence | None = None
        left = [(number - self.inputs, x) for number, x in withheld]
        #: Inputs since the last upload.
        self.inputs = 0
        self._kept.clear()
        # What was last found to be withheld, and when.
        self._answer: tuple[tuple[int, float], list[Numbered] | None] | None = None
        units = 0 if self._layer is None else self._layer.units
        self._total, self._largest = np.zeros(units), np.zeros(units)
        for number, x in left:
            self._activate(x[np.newaxis], np.array([forgetting**-number]))
        self.few.begin(left, forgetting)

    def doubt(self, since: Evidence | None = None) -> None:
        """Begins again without knowing all: rows came or went otherwise than by being learned.

        ``since`` is what has been learned by now.
        """
        self.begin()
        self.known, self.since = False, since

    def add(self, X: Array, forgetting: float) -> None:
        """Takes note of inputs that are learned, in their order."""
        if self._layer is not None:
            faded = forgetting ** len(X)
            self._total, self._largest = faded * self._total, faded * self._largest
            # φ^age: how much of each is left when the last one is learned
            self._activate(X, forgetting ** np.arange(len(X) - 1, -1, -1.0))
        if self._window > 1:
            first = -(self.inputs + 1) % self._window
            for place in range(first, len(X), self._window):
                self._kept.append((self.inputs + place + 1, np.array(X[place])))
        self.few.add(X, self.inputs + 1, forgetting)
        self.inputs += len(X)

    def _activate(self, X: Array, weights: Array) -> None:
        if self._layer is not None:
            H = self._layer(np.asarray(X, np.float64)) * weights[:, np.newaxis]
            self._total = self._total + H.sum(axis=0)
            self._largest = np.maximum(self._largest, H.max(axis=0, initial=0.0))

    def active(self, withheld: Sequence[tuple[Array, float]] = ()) -> Array | None:
        """The rows but those withheld that each unit was active in; None where units always are.

        As many as if each had as large a share in the unit's sums as the largest one has: a row
        that outweighs all others counts for one, with them.
        """
        if self._layer is None:
            return None
        total = np.array(self._total)
        for x, weight in withheld:
            total -= weight * self._layer(np.asarray(x, np.float64))
        total[total < 1e-9 * self._largest] = 0.0
        active: Array = total / np.where(self._largest > 0.0, self._largest, 1.0)
        return active

    @property
    def missing(self) -> int:
        """Counts the inputs that must still come until there are enough to withhold."""
        return max((self._kept.maxlen or 0) * self._window - self.inputs, 0)

    @property
    def kept(self) -> set[int]:
        """The numbers of the windows to withhold, whatever is in them."""
        return {number for number, _ in self._kept}

    def withheld(self, forgetting: float) -> list[Numbered] | None:
        """Gives the inputs to withhold; None where one of them is not known any more."""
        if self._answer is None or self._answer[0] != (self.inputs, forgetting):
            held = self.few.held(self.inputs, forgetting, self._kept)
            found = None if held is None else [*self._kept, *held]
            self._answer = (self.inputs, forgetting), found
        return self._answer[1]

    def still(self, forgetting: float) -> tuple[Array, Array, Array]:
        """Finds the combinations of columns that are 0 in all rows that leave (``FewValues``)."""
        return self.few.still(self.inputs, forgetting, self._kept)

    def weighed(self, some: Sequence[Numbered], forgetting: float) -> list[tuple[Array, float]]:
        """Gives inputs with what each weighs by now."""
        return [(x, forgetting ** (self.inputs - number)) for number, x in some]

    # On disk

    def pack(self, prefix: str) -> Packed:
        """Packs what it knows, its arrays under names that begin with ``prefix``; else nothing."""
        if not self.known and (self.since is None or (self._unsaid and not self.inputs)):
            return {}, {}
        few, arrays = self.few.pack(f"{prefix}few.")
        fields: dict[str, Any] = {"inputs": self.inputs, "few": few}
        if self.since is not None:
            fields["since"], since = pack_part(f"{prefix}since", self.since)
            arrays |= since
        if self._window > 1:
            fields["kept"] = [number for number, _ in self._kept]
            arrays[f"{prefix}kept"] = np.array([x for _, x in self._kept]).reshape(-1, self._width)
        if self._layer is not None:
            arrays |= {f"{prefix}total": self._total, f"{prefix}largest": self._largest}
        return fields, arrays

    def restore(
        self, fields: Mapping[str, Any] | None, arrays: Mapping[str, Array], prefix: str
    ) -> None:
        """Goes on from what was packed; in doubt where nothing was."""
        if fields is None:
            self.doubt(self.since)
            self._unsaid = True
            return
        self.begin()
        if "since" in fields:
            since = unpack_part(self._basis, f"{prefix}since", fields["since"], arrays)
            self.known, self.since = False, since
        self.inputs = require_whole("inputs", fields["inputs"], 0)
        self.few.restore(fields["few"], arrays, f"{prefix}few.")
        if self._window > 1:
            kept, numbers = arrays[f"{prefix}kept"], fields["kept"]
            if kept.shape != (len(numbers), self._width):
                raise BadInput("inputs to withhold that do not fit the model")
            whole = (require_whole("kept", n, 1) for n in numbers)
            self._kept.extend(zip(whole, kept, strict=True))
        if self._layer is not None:
            found = arrays[f"{prefix}total"], arrays[f"{prefix}largest"]
            if any(array.shape != self._total.shape for array in found):
                raise BadInput("the activity of other units than the layer's")
            self._total, self._largest = found
