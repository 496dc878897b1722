"""What was learned since the last upload, and the rows that columns with few values single out."""

import math
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Packed, numbers_in, pack_part, unpack_part
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput, require_whole

#: Rows, at least, over which a sum must be that few-valued columns single out.
ROWS_ALIKE = 5
#: A column with more values than this is not one with few.
MOST_VALUES = 8

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

    def add(self, X: Array, numbers: Array, enough: int) -> None:
        """Adds rows that are all of the same weight as the newest one."""
        self.total += len(X)
        self.largest, self.at = 1.0, int(numbers[-1])
        self._release(enough)
        if self.rows is not None:
            self.rows += zip(numbers.tolist(), np.array(X), strict=True)

    def join(self, other: "_Group", enough: int, forgetting: float) -> None:
        at = max(self.at, other.at)
        self.fade(at, forgetting)
        other.fade(at, forgetting)
        self.total, self.largest = self.total + other.total, max(self.largest, other.largest)
        known = self.rows is not None and other.rows is not None
        rows = [*(self.rows or ()), *(other.rows or ())]
        self.rows = sorted(rows, key=itemgetter(0)) if known else None
        self._release(enough)

    def _release(self, enough: int) -> None:
        # No row has a larger share of any sum over the group than the largest has of the total.
        if self.total >= enough * self.largest:
            self.rows = None


class FewValues:
    """Counts the rows since the last upload by their values in the columns that have few.

    An upload shows Σ x and Σ x_j x of each column j, and so Σ f(x) x of every combination f of
    columns. Where f is 1 in one row and 0 in all others, that is the row, and of columns with few
    values such an f can be guessed. How much of Σ f² one row can be at most, whatever f is, is its
    leverage: x (Σ xᵀx)⁻¹ xᵀ, over these columns and a 1. So rows are held back whose leverage is
    above one in ``ROWS_ALIKE``, until enough like them have come.
    """

    def __init__(self, basis: Basis) -> None:
        self._columns, self._window = basis.layer.inputs, basis.window
        # Where windows are held back as well, these may be of one group.
        self._enough = ROWS_ALIKE * (1 if basis.window == 1 else 2)
        # Rows that wait to be counted: many at a time take far less time.
        self._block = max(2**14 // basis.inputs, 64)
        self.begin()

    def begin(self, rows: Iterable[Numbered] = (), forgetting: float = 1.0) -> None:
        """Begins again, with rows that no upload had yet."""
        self._values: dict[int, set[float]] = {column: set() for column in range(self._columns)}
        self._groups: dict[bytes, _Group] = {}
        self._rows, self._forgetting = 0, forgetting
        self._waiting: list[tuple[Array, Array]] = []
        self._waiting_rows = 0
        self._place()
        for number, x in sorted(rows, key=itemgetter(0)):
            self.add(x[np.newaxis], number, forgetting)

    def _place(self) -> None:
        """Finds where the few-valued columns are in an input, and which column is there."""
        columns = np.array(list(self._values), np.intp)
        self._places = (np.arange(self._window)[:, np.newaxis] * self._columns + columns).ravel()
        self._owners = [*self._values] * self._window

    def add(self, X: Array, first: int, forgetting: float) -> None:
        """Takes note of inputs in their order; ``first`` is the number of the first of them."""
        self._rows += len(X)
        self._forgetting = forgetting
        if self._values and len(X):
            self._waiting.append((np.arange(first, first + len(X)), np.array(X)))
            self._waiting_rows += len(X)
            if self._waiting_rows >= self._block:
                self._settle()

    def _settle(self) -> None:
        if self._waiting:
            numbers, rows = (np.concatenate(some) for some in zip(*self._waiting, strict=True))
            self._waiting, self._waiting_rows = [], 0
            if not self._groups:
                # Most columns of most devices have many values in a few rows, and are not counted.
                newest = np.sort(rows[:64, -self._columns :], axis=0)
                values = 1 + (np.diff(newest, axis=0) != 0.0).sum(axis=0)
                self._follow_no_longer(set(np.flatnonzero(values > MOST_VALUES).tolist()))
            if self._values:
                self._count(rows, numbers)

    def _count(self, X: Array, numbers: Array) -> None:
        values, new, forgetting = self._values_in(X), list[Array](), self._forgetting
        for places in _alike(values) if forgetting == 1.0 else np.arange(len(X))[:, np.newaxis]:
            key = values[places[0]].tobytes()
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group()
                new.append(values[places[0]])
            if forgetting < 1.0:
                group.fade(int(numbers[places[0]]), forgetting)
            group.add(X[places], numbers[places], self._enough)
        if new:
            for column, some in zip(self._owners, np.array(new).T.tolist(), strict=True):
                self._values[column].update(some)
            self._follow_no_longer(
                {column for column, some in self._values.items() if len(some) > MOST_VALUES}
            )
            while len(self._groups) > 256:
                self._follow_no_longer({max(self._values, key=self._changes)})

    def _values_in(self, X: Array) -> Array:
        # −0 is 0.
        values: Array = X[..., self._places].astype(np.float64) + 0.0
        return values

    def _follow_no_longer(self, columns: set[int]) -> None:
        if not columns:
            return
        kept = np.array([owner not in columns for owner in self._owners])
        for column in columns:
            del self._values[column]
        self._place()
        groups, self._groups = self._groups, {}
        for key, group in groups.items() if self._values else ():
            short = np.frombuffer(key)[kept].tobytes()
            if short in self._groups:
                self._groups[short].join(group, self._enough, self._forgetting)
            else:
                self._groups[short] = group

    def _changes(self, column: int) -> float:
        """About how many inputs have another value than the commonest in their newest row."""
        place = len(self._owners) - len(self._values) + [*self._values].index(column)
        counts = defaultdict[float, float](float)
        for key, group in self._groups.items():
            counts[float(np.frombuffer(key)[place])] += group.total
        return sum(counts.values()) - max(counts.values())

    @property
    def any(self) -> bool:
        """Whether some column has few values up to now."""
        self._settle()
        return any(2 * len(values) <= self._rows + 2 for values in self._values.values())

    def held(
        self, now: int, forgetting: float, without: Collection[Numbered] = ()
    ) -> list[Numbered] | None:
        """Chooses the inputs to hold back from an upload of all up to number ``now``.

        The upload is one ``without`` some inputs. None where such an input is not known any more.
        """
        held, left_out = list[Numbered](), {number for number, _ in without}
        _, _, far, _ = self._judged(now, forgetting, without)
        for group, is_far in zip(self._groups.values(), far, strict=True):
            if is_far and group.rows is None:
                return None
            if is_far:
                held += [one for one in group.rows or () if one[0] not in left_out]
        return sorted(held, key=itemgetter(0))

    def still(
        self, now: int, forgetting: float, without: Collection[Numbered] = ()
    ) -> tuple[Array, Array, Array]:
        """Finds the combinations of few-valued columns that are 0 in all of an upload's new rows.

        Gives the places of these columns in an input, a value of each, and the combinations, a line
        each: of a 1, and of what each column is beyond that value. Those of one column alone are
        first.
        """
        places, known, far, inside = self._judged(now, forgetting, without)
        values = self._grouped[:, np.isin(self._places, places)]
        if not len(far):
            return places[:0], np.empty(0), np.empty((0, 1))
        usual = values[np.argmax([group.total for group in self._groups.values()])]
        rows = known[inside & ~far]
        fixed = ~rows.any(axis=0)
        alone = np.eye(known.shape[1])[fixed]
        _, s, v = np.linalg.svd(rows[:, ~fixed])
        rank = int((s > 1e-9 * s[:1]).sum())
        together = np.zeros((len(v) - rank, known.shape[1]))
        together[:, ~fixed] = v[rank:]
        size = np.abs(values - usual).max(axis=0)
        scale = np.concatenate([[1.0], np.where(size > 0.0, size, 1.0)])
        return places, usual, np.vstack([alone, together]) / scale

    def _judged(
        self, now: int, forgetting: float, without: Collection[Numbered]
    ) -> tuple[Array, Array, Array, Array]:
        """The places of few-valued columns; a 1 and these columns of each group; which are far."""
        self._settle()
        # Of few rows, each may have a value of its own in any column.
        few = {c for c, values in self._values.items() if 2 * len(values) <= self._rows + 2}
        chosen = np.array([owner in few for owner in self._owners], bool)
        groups = [*self._groups.values()]
        for group in groups:
            group.fade(now, forgetting)
        total = np.array([group.total for group in groups])
        largest = np.array([group.largest for group in groups])
        where = {key: index for index, key in enumerate(self._groups)}
        for number, x in without if groups else ():
            total[where[self._values_in(x).tobytes()]] -= forgetting ** (now - number)
        known = _about_usual(self._grouped[:, chosen], total)
        inside = total > 1e-9 * largest
        return self._places[chosen], known, _single_out(known, total, largest, inside), inside

    @property
    def _grouped(self) -> Array:
        size = len(self._groups), len(self._places)
        return np.array([np.frombuffer(key) for key in self._groups]).reshape(size)

    # On disk

    def pack(self, prefix: str) -> Packed:
        self._settle()
        groups = self._groups.values()
        fields: dict[str, Any] = {"columns": [*self._values], "rows": self._rows}
        if not groups:
            return fields, {}
        known = sorted((one for group in groups for one in group.rows or ()), key=itemgetter(0))
        fields["numbers"] = [number for number, _ in known]
        fields["at"] = [group.at for group in groups]
        width = self._columns * self._window
        return fields, {
            f"{prefix}values": self._grouped,
            f"{prefix}weights": np.array([(group.total, group.largest) for group in groups]),
            f"{prefix}rows": np.array([x for _, x in known]).reshape(-1, width),
        }

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array], prefix: str) -> None:
        """Goes on from what was packed; whatever does not fit is an error or packed otherwise."""
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
        for key, (total, largest), at in zip(values, weights.tolist(), fields["at"], strict=True):
            group = self._groups[key.tobytes()] = _Group()
            group.total, group.largest, group.at, group.rows = total, largest, int(at), None
        for column, place in zip(self._owners, values.T.tolist(), strict=True):
            self._values[column].update(place)
        for number, x in zip(fields["numbers"], arrays[f"{prefix}rows"], strict=True):
            group = self._groups[self._values_in(x).tobytes()]
            group.rows = [*(group.rows or ()), (int(number), x)]


def _about_usual(values: Array, total: Array) -> Array:
    """Gives a 1 beside values that are 0 in the largest group, and 1 at the most."""
    if not len(values):
        return np.empty((0, 1))
    # So the numbers of a rare group are as good as they can be.
    shifted = values - values[np.argmax(total)]
    size = np.abs(shifted).max(axis=0)
    return np.column_stack([np.ones(len(values)), shifted / np.where(size > 0.0, size, 1.0)])


def _single_out(known: Array, total: Array, largest: Array, inside: Array) -> Array:
    """Marks the groups of which one row has too large a share in some combination of columns."""
    far = np.zeros(len(known), bool)
    if not known[:, 1:].any():
        return far
    while True:
        left = inside & ~far
        if not left.any():
            return far
        rows = known[left] * np.sqrt(total[left])[:, np.newaxis]
        # A column that moved in rows held back alone is 0 now, and so takes no part. Of the others
        # together one row may have at most half.
        u, s, _ = np.linalg.svd(rows, full_matrices=False)
        together = np.square(u[:, s > 1e-9 * s[0]]).sum(axis=1)
        # Of one column and a 1: its share of the column's variance, and of the rows.
        weights = total[left]
        apart = known[left] - weights @ known[left] / weights.sum()
        variance = weights @ np.square(apart)
        moved = variance > 1e-18 * weights.sum()
        shares = weights[:, np.newaxis] * np.square(apart[:, moved]) / variance[moved]
        alone = weights / weights.sum() + shares.max(axis=1, initial=0.0)
        single = largest[left] / weights * (1.0 - 1e-6)
        more = (single * alone > 1.0 / ROWS_ALIKE) | (single * together > 0.5)
        if not more.any():
            return far
        # Without them the others' leverage is no smaller: so none of these can stay.
        far[left] = more


def _alike(values: Array) -> list[NDArray[np.intp]]:
    """Finds the places of rows that are equal, in their order."""
    # Equal rows have equal products, others hardly ever.
    product = values @ np.sqrt(np.arange(2.0, 2.0 + values.shape[1]))
    _, first, which = np.unique(product, return_index=True, return_inverse=True)
    if not np.array_equal(values[first[which]], values):
        _, which = np.unique(values, axis=0, return_inverse=True)
    which = which.ravel()
    order = np.argsort(which, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(which[order])) + 1)


def inputs_held_back(basis: Basis) -> int:
    """Counts the windows to withhold from an upload, so that others can't tell where it ends.

    Sums over windows that follow each other differ from place to place in the rows at both ends
    alone: of Σ y and Σ y² that gives these rows exactly. Each window that is left out has ends of
    its own, as many unknowns as it has values: enough of them have as many as there are numbers
    about the ends.
    """
    columns, window = basis.layer.inputs, basis.window
    if window == 1:
        return 0
    alike = columns * (columns + 1) // 2 + (window - 1) * columns**2 + columns
    about_ends = max(numbers_in(basis) - alike, 0) + 2 * (window - 1) * columns
    return math.ceil(about_ends / basis.inputs)


class Fresh:
    """Follows the rows learned since the last upload where counting them does not tell enough.

    Windows overlap: so every w-th input is kept, as many as are held back (``inputs_held_back``).
    Columns with few values single rows out: those are held back as well (``FewValues``). What is
    held back leaves with a later upload.
    """

    def __init__(self, basis: Basis) -> None:
        self._basis = basis
        self._window, self._width = basis.window, basis.inputs
        self._kept: deque[Numbered] = deque(maxlen=inputs_held_back(basis))
        self.few = FewValues(basis)
        self.inputs = 0
        self.begin()

    def begin(self, held_back: Sequence[Numbered] = (), forgetting: float = 1.0) -> None:
        """Begins again: all that was learned is in an upload but what was held back."""
        #: Whether it knows of all rows since the last upload.
        self.known = True
        # Whether a file that said nothing is all that there is.
        self._unsaid = False
        #: What had been learned when it last came to know nothing; None if it knows all.
        self.since: Evidence | None = None
        left = [(number - self.inputs, x) for number, x in held_back]
        #: Inputs since the last upload.
        self.inputs = 0
        self._kept.clear()
        # What was last found to be held back, and when.
        self._answer: tuple[tuple[int, float], list[Numbered] | None] | None = None
        self.few.begin(left, forgetting)

    def doubt(self, since: Evidence | None = None) -> None:
        """Begins again without knowing all: rows came or went otherwise than by being learned.

        ``since`` is what has been learned by now.
        """
        self.begin()
        self.known, self.since = False, since

    def add(self, X: Array, forgetting: float) -> None:
        if self._window > 1:
            first = -(self.inputs + 1) % self._window
            for place in range(first, len(X), self._window):
                self._kept.append((self.inputs + place + 1, np.array(X[place])))
        self.few.add(X, self.inputs + 1, forgetting)
        self.inputs += len(X)

    @property
    def missing(self) -> int:
        """Counts the inputs that must still come until there are enough to withhold."""
        return max((self._kept.maxlen or 0) * self._window - self.inputs, 0)

    @property
    def kept(self) -> set[int]:
        """The numbers of the windows to withhold, whatever is in them."""
        return {number for number, _ in self._kept}

    def held_back(self, forgetting: float) -> list[Numbered] | None:
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
            whole = (require_whole("kept", number, 1) for number in fields["kept"])
            self._kept.extend(zip(whole, arrays[f"{prefix}kept"], strict=True))
