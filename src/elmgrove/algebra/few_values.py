"""Columns with few values: which rows they single out among those of an upload."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.packing import Packed
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput, require_whole

#: Rows, at least, over which a sum must be that few-valued columns single out.
ROWS_ALIKE = 5
#: A column with more values than this is not one with few.
MOST_VALUES = 8
# Of more combinations of values than this, the column that changes most is followed no longer.
_MOST_GROUPS = 256
# Rows that are looked at first: they show which columns have many values.
_FIRST = 64

#: An input, and its number since the last upload: 1 is the first one, 0 and less came before it.
Numbered = tuple[int, Array]


class _Group:
    """Rows with the same values in all few-valued columns.

    ``total`` and ``largest`` are what they and the newest of them weighed at row ``at``. The rows
    are kept while they are few.
    """

    __slots__ = ("at", "largest", "rows", "total")

    def __init__(self) -> None:
        self.total, self.largest, self.at = 0.0, 0.0, 0
        self.rows: list[Numbered] | None = []

    def fade(self, at: int, forgetting: float) -> None:
        faded = forgetting ** (at - self.at)
        self.total, self.largest, self.at = self.total * faded, self.largest * faded, at

    def add(self, number: int, x: Array, enough: int) -> None:
        self.total += 1.0
        self.largest = 1.0
        if self.rows is not None:
            self.rows.append((number, np.array(x)))
            self._release(enough)

    def join(self, other: "_Group", enough: int, forgetting: float) -> None:
        at = max(self.at, other.at)
        self.fade(at, forgetting)
        other.fade(at, forgetting)
        self.total, self.largest = self.total + other.total, max(self.largest, other.largest)
        known = self.rows is not None and other.rows is not None
        self.rows = sorted([*(self.rows or ()), *(other.rows or ())], key=_number) if known else None
        self._release(enough)

    def _release(self, enough: int) -> None:
        # No row has a larger share of any sum over the group than the largest has of the total.
        if self.total >= enough * self.largest:
            self.rows = None


class FewValues:
    """Counts the rows since the last upload by their values in the columns that have few.

    An upload shows Σ x and Σ x_j x of each column j, and so Σ f(x) x of every f that is a
    combination of columns. Where j is 1 in one row and 0 in all others, that is the row; where it
    is 1 in two rows, and another column in one of these, the difference of the two is. Of columns
    with few values, such an f can be guessed. How much of Σ f² one row can be at most, whatever f
    is, is its leverage: xᵀ (Σ xᵀx)⁻¹ x, over these columns and a 1. So rows are held back whose
    leverage is above one in ``ROWS_ALIKE``, until enough like them have come.
    """

    def __init__(self, basis: Basis) -> None:
        self._columns, self._window = basis.layer.inputs, basis.window
        # Where windows are withheld as well, these may be of one group.
        self._enough = ROWS_ALIKE * (1 if basis.window == 1 else 2)
        self.begin()

    def begin(self, rows: Iterable[Numbered] = (), forgetting: float = 1.0) -> None:
        """Begins again, with rows that no upload had yet."""
        self._values: dict[int, set[float]] = {column: set() for column in range(self._columns)}
        self._groups: dict[bytes, _Group] = {}
        self._rows = 0
        self._place()
        for number, x in sorted(rows, key=_number):
            self.add(x[np.newaxis], number, forgetting)

    def _place(self) -> None:
        columns = np.array(list(self._values), np.intp)
        #: Where the few-valued columns are in an input, and which column is there.
        self._places = (np.arange(self._window)[:, np.newaxis] * self._columns + columns).ravel()
        self._owners = [*self._values] * self._window

    def add(self, X: Array, first: int, forgetting: float) -> None:
        """Takes note of inputs in their order; ``first`` is the number of the first of them."""
        self._rows += len(X)
        done = 0
        while done < len(X) and self._values:
            block = X[done:] if self._groups else X[done : done + _FIRST]
            done += self._follow(block, first + done, forgetting)

    def _follow(self, X: Array, first: int, forgetting: float) -> int:
        """Counts inputs until some column turns out to have many values; says how many."""
        # −0 is 0.
        values = X[:, self._places].astype(np.float64) + 0.0
        data, size, groups = values.tobytes(), 8 * values.shape[1], self._groups
        for place in range(len(X)):
            key = data[place * size : (place + 1) * size]
            group, number = groups.get(key), first + place
            is_new = group is None
            if group is None:
                group = groups[key] = _Group()
            if forgetting < 1.0:
                group.fade(number, forgetting)
            group.add(number, X[place], self._enough)
            if is_new and self._outgrown(values[place], forgetting):
                return place + 1
        return len(X)

    def _outgrown(self, new: Array, forgetting: float) -> bool:
        """Stops following columns that have many values by now; says whether there were any."""
        for value, column in zip(new.tolist(), self._owners, strict=True):
            self._values[column].add(value)
        many = {column for column, some in self._values.items() if len(some) > MOST_VALUES}
        if not many and len(self._groups) > _MOST_GROUPS:
            many = {max(self._values, key=lambda column: self._usual(column)[1])}
        if not many:
            return False
        kept = np.array([owner not in many for owner in self._owners])
        groups, self._groups = self._groups, {}
        for column in many:
            del self._values[column]
        self._place()
        for key, group in groups.items() if self._values else ():
            short = np.frombuffer(key)[kept].tobytes()
            if short in self._groups:
                self._groups[short].join(group, self._enough, forgetting)
            else:
                self._groups[short] = group
        return True

    def _usual(self, column: int) -> tuple[float, float]:
        """The commonest value of a column in the newest row of inputs, and how many have another.

        Roughly so many where rows are forgotten.
        """
        place = len(self._owners) - len(self._values) + [*self._values].index(column)
        counts = dict[float, float]()
        for key, group in self._groups.items():
            value = float(np.frombuffer(key)[place])
            counts[value] = counts.get(value, 0.0) + group.total
        usual = max(counts, key=lambda value: counts[value])
        return usual, sum(counts.values()) - counts[usual]

    @property
    def _few(self) -> list[int]:
        # Of few rows, each may have a value of its own in any column.
        return [c for c, values in self._values.items() if 2 * len(values) <= self._rows + 2]

    @property
    def unmoved(self) -> dict[int, float]:
        """The columns that too few rows moved to hide others in, and their commonest values."""
        found = {column: self._usual(column) for column in self._few}
        return {column: usual for column, (usual, off) in found.items() if off < ROWS_ALIKE}

    def held(
        self, now: int, forgetting: float, without: Collection[Numbered] = ()
    ) -> list[Numbered] | None:
        """Chooses the inputs to hold back from an upload of all up to number ``now``.

        The upload is one ``without`` some inputs. None where such an input is not known any more.
        """
        few = {column for column in self._few if len(self._values[column]) > 1}
        if not few:
            return []
        groups, left_out = [*self._groups.values()], {number for number, _ in without}
        for group in groups:
            group.fade(now, forgetting)
        total = np.array([group.total for group in groups])
        largest = np.array([group.largest for group in groups])
        where = {key: index for index, key in enumerate(self._groups)}
        for number, x in without:
            key = (x[self._places].astype(np.float64) + 0.0).tobytes()
            total[where[key]] -= forgetting ** (now - number)
        values = np.array([np.frombuffer(key) for key in self._groups])
        values = values[:, [owner in few for owner in self._owners]]
        inside = total > 1e-9 * largest
        far = _single_out(values, total, largest, inside)
        held = list[Numbered]()
        for group, is_far in zip(groups, far, strict=True):
            if is_far and group.rows is None:
                return None
            if is_far:
                held += [one for one in group.rows or () if one[0] not in left_out]
        return sorted(held, key=_number)

    # On disk

    def pack(self, prefix: str) -> Packed:
        """Packs all groups, and the rows that are known of them."""
        groups = self._groups.values()
        fields: dict[str, Any] = {"columns": [*self._values], "rows": self._rows}
        if not groups:
            return fields, {}
        known = sorted((one for group in groups for one in group.rows or ()), key=_number)
        fields["numbers"] = [number for number, _ in known]
        fields["at"] = [group.at for group in groups]
        width = self._columns * self._window
        return fields, {
            f"{prefix}values": np.array([np.frombuffer(key) for key in self._groups]),
            f"{prefix}weights": np.array([(group.total, group.largest) for group in groups]),
            f"{prefix}rows": np.array([x for _, x in known]).reshape(-1, width),
        }

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array], prefix: str) -> None:
        """Goes on from what was packed."""
        self.begin()
        columns = [require_whole("columns", column, 0) for column in fields["columns"]]
        if not set(columns) <= set(self._values):
            raise BadInput("columns with few values that do not fit the model")
        self._values = {column: set() for column in columns}
        self._rows = require_whole("rows", fields["rows"], 0)
        self._place()
        if "at" not in fields:
            return
        values, weights = arrays[f"{prefix}values"], arrays[f"{prefix}weights"]
        rows, at = arrays[f"{prefix}rows"], fields["at"]
        sizes = (len(at), len(self._places)), (len(at), 2)
        width = (len(fields["numbers"]), self._columns * self._window)
        if (values.shape, weights.shape) != sizes or rows.shape != width:
            raise BadInput("rows by their values in columns that do not fit the model")
        for key, (total, largest), when in zip(values, weights.tolist(), at, strict=True):
            group = self._groups[key.tobytes()] = _Group()
            group.total, group.largest, group.at, group.rows = total, largest, int(when), None
        for column, place in zip(self._owners, values.T.tolist(), strict=True):
            self._values[column] |= set(place)
        for number, x in zip(fields["numbers"], rows, strict=True):
            found = self._groups.get((x[self._places].astype(np.float64) + 0.0).tobytes())
            if found is None:
                raise BadInput("a row with other values than any that were counted")
            found.rows = [*(found.rows or ()), (int(number), x)]


def _single_out(values: Array, total: Array, largest: Array, inside: Array) -> Array:
    """Marks the groups of which one row has too large a share in some combination of columns."""
    far = np.zeros(len(values), bool)
    shifted = values - values[np.argmax(total)]
    size = np.abs(shifted).max(axis=0)
    # All of the commonest group are at 0: then a rare row's numbers are as good as they can be.
    known = np.column_stack([np.ones(len(values)), shifted / np.where(size > 0.0, size, 1.0)])
    while True:
        left = inside & ~far
        if not left.any():
            return far
        rows = known[left] * np.sqrt(total[left])[:, np.newaxis]
        # A column that moved in rows held back alone is 0 now, and so takes no part.
        u, s, _ = np.linalg.svd(rows, full_matrices=False)
        leverage = np.square(u[:, s > 1e-9 * s[0]]).sum(axis=1) * largest[left] / total[left]
        more = leverage > (1.0 + 1e-6) / ROWS_ALIKE
        if not more.any():
            return far
        # Without them the others' leverage is no smaller: so none of these can stay.
        far[left] = more


def _number(numbered: Numbered) -> int:
    return numbered[0]


