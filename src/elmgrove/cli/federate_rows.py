"""The rows of ``elmgrove federate``: read, dealt to clients, and kept for the test."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from elmgrove.algebra.basis import Basis, Categories, word_of
from elmgrove.algebra.rows import Array
from elmgrove.cli.digits import PIXELS, Digits
from elmgrove.cli.options import notes, read
from elmgrove.errors import BadInput
from elmgrove.reading.cells import number
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import ColumnCells, Table, read_table
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.predictor import Target
from elmgrove.rounds.projection import Projection

T = TypeVar("T")


@dataclass(frozen=True)
class FleetFiles:
    """How to read files of rows: their layout, the column to predict, and what of bad rows."""

    layout: Layout = field(default_factory=Layout)
    target: str | None = None
    skip_bad: bool = False

    def __post_init__(self) -> None:
        if self.target is not None and self.target in (*self.layout.categories, *self.layout.drop):
            raise BadInput(f"--target {self.target} is read by itself: no --categories, no --drop")

    def table(self, path: Path, like: Table | None = None) -> Table:
        """Reads the rows of a client's file, in the columns of another."""
        names, words = (None, None) if like is None else (like.names, like.categories)
        # An empty file has no columns, and so none to read beside the others.
        layout = self.paired if path.stat().st_size else self.layout
        table = read_table(path, layout, features=names, categories=words, skip_bad=self.skip_bad)
        if like is not None and table.left_out:
            first = f"The first: {table.skipped[0]}"
            notes.print(
                f"{path}: left out {table.left_out} bad row{'s' * (table.left_out > 1)}. {first}"
            )
        return table

    @property
    def paired(self) -> Layout:
        """The layout of the rows, with the column to predict beside them."""
        return replace(self.layout, beside=self.target)


class Pairs(NamedTuple):
    """Rows, and their targets where something is to be predicted."""

    X: Array
    T: Array


@dataclass(frozen=True)
class FleetRows:
    """Each client's rows by its name, the columns' names, and how they are scaled.

    ``cells`` has what is to be predicted of each row as it is written, and ``targets`` as outputs
    of a model; both are empty where nothing is to be predicted.
    """

    rows: dict[str, Array]
    names: tuple[str, ...] | None
    scaling: str
    categories: Categories = field(default_factory=dict)
    cells: dict[str, ColumnCells] = field(default_factory=dict)
    targets: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def read(
        cls, data: Path | None, clients: int | None, seed: int, files: FleetFiles | None = None
    ) -> "FleetRows":
        """Reads a file, a folder with a file for each client, or scikit-learn's digits."""
        files = files or FleetFiles()
        if data is None:
            if files.target is not None:
                raise BadInput("--target needs --data: a file, or a folder with one a client")
            return cls._digits(clients or 100, seed)
        if data.is_dir():
            if clients is not None:
                raise BadInput(f"--clients: {data} has a file for each client")
            return cls._folder(data, files)
        return cls._file(data, clients or 100, files)

    @classmethod
    def _digits(cls, clients: int, seed: int) -> "FleetRows":
        """Cuts the digits, sorted, into shards and gives each client two: non-IID."""
        digits = Digits.load(seed)
        order = np.argsort(digits.train_digit, kind="stable")
        shards = np.array_split(digits.train[order], 2 * clients)
        lots = np.random.default_rng(seed).permutation(len(shards)).reshape(clients, 2)
        pieces = [np.vstack([shards[lot] for lot in mine]) for mine in lots]
        shuffled = [np.random.default_rng([seed, i]).permutation(p) for i, p in enumerate(pieces)]
        return cls(_named(shuffled), tuple(f"pixel {i}" for i in range(PIXELS)), "none")

    @classmethod
    def _file(cls, path: Path, clients: int, files: FleetFiles) -> "FleetRows":
        table = read(path, None, files.paired, files.skip_bad)
        rows, column = table.array, table.beside
        pieces = np.array_split(np.arange(len(rows)), clients)
        cells = {} if column is None else _named([column.at(piece) for piece in pieces])
        mine = _named([rows[piece] for piece in pieces])
        return cls(mine, table.names, "standard", table.categories, cells)

    @classmethod
    def _folder(cls, folder: Path, files: FleetFiles) -> "FleetRows":
        paths = sorted(folder.glob("*.csv"))
        if not paths:
            raise BadInput(f"{folder}: no .csv files; there should be one for each client")
        # An empty file has none; without names, columns in another order would be mixed up.
        first = next((table for table in map(files.table, paths) if table.names), None)
        tables = {path.stem: files.table(path, first) for path in paths}
        rows = {name: table.array for name, table in tables.items()}
        columns = {name: mine.shape[1] for name, mine in rows.items() if len(mine)}
        if len(set(columns.values())) > 1:
            raise BadInput(f"{folder}: files have different numbers of columns: {columns}")
        # A client without rows may have no columns either.
        nothing = np.empty((0, max(columns.values(), default=0)))
        rows = {name: mine if len(mine) else nothing for name, mine in rows.items()}
        names, words = (None, {}) if first is None else (first.names, first.categories)
        cells = dict[str, ColumnCells]()
        if files.target is not None:
            empty = ColumnCells(
                "", files.target, "line", np.empty(0, object), np.empty(0, np.int64)
            )
            cells = {name: table.beside or empty for name, table in tables.items()}
        return cls(rows, names, "standard", words, cells)

    @property
    def count(self) -> int:
        """How many rows all clients have."""
        return sum(map(len, self.rows.values()))

    def projected(self, variance: float) -> tuple[Projection, "FleetRows"]:
        """Turns the rows of all clients into the principal components of their scaled columns."""
        if not self.count:
            raise BadInput("no client has any rows")
        made = Projection.fitted(
            self.stacked().X,
            self.names,
            self.categories,
            scaling=self.scaling,
            variance=variance,
        )
        notes.print(
            f"{made.components} principal components of {made.columns} columns keep "
            f"{100 * variance:g} % of the variance."
        )
        rows = {name: made(mine) for name, mine in self.rows.items()}
        return made, replace(self, rows=rows, names=None, categories={}, scaling="none")

    def basis(self, units: int | None, seed: int, **layer: Any) -> Basis:
        """Makes a basis with the scaling that fits all rows; models of rounds have a loss."""
        if not self.count:
            raise BadInput("no client has any rows")
        if self.targets:
            units = units or max(min(256, self.count // 4), 1)
        made = Basis.fitted(
            self.stacked().X,
            self.names,
            categories=self.categories,
            scaling=self.scaling,
            units=units,
            seed=seed,
            score="loss",
            **layer,
        )
        outputs = {mine.shape[1] for mine in self.targets.values()} or {made.outputs}
        return replace(made, outputs=outputs.pop())

    def only(self, keep: Array) -> "FleetRows":
        """The fleet with the rows for which a mask is true, over all clients by name."""
        masks = dict(zip(sorted(self.rows), self._cut(keep), strict=True))
        return replace(
            self,
            rows={name: mine[masks[name]] for name, mine in self.rows.items()},
            cells={name: column.at(masks[name]) for name, column in self.cells.items()},
            targets={name: mine[masks[name]] for name, mine in self.targets.items()},
        )

    def _cut(self, whole: Array) -> list[Array]:
        ends = np.cumsum([len(self.rows[name]) for name in sorted(self.rows)])
        return np.split(whole, ends[:-1])

    def stacked(self) -> Pairs:
        """The rows and targets of all clients, in the order of their names."""
        names = sorted(self.rows)
        T = [self.targets[name] for name in names if name in self.targets]
        X = np.vstack([self.rows[name] for name in names])
        return Pairs(X, np.vstack(T) if T else np.empty((0, 0)))

    def written(self) -> list[Any]:
        """What is to be predicted of all rows, as it is written."""
        return [cell for name in sorted(self.cells) for cell in self.cells[name].cells]

    def drawn(self, size: int, seed: int | Sequence[int]) -> Array:
        """Draws so many rows at random, as a mask over all clients by name."""
        mask = np.zeros(self.count, bool)
        mask[np.random.default_rng(seed).permutation(self.count)[:size]] = True
        return mask

    def with_batch(self, size: int, seed: int) -> tuple["FleetRows", Pairs]:
        """Takes the server's first batch from the clients' rows; gives the rest and the batch."""
        if size == 0:
            return self, Pairs(np.empty((0, 0)), np.empty((0, 0)))
        if self.count <= size:
            raise BadInput(
                f"Fed-ELMS needs more than {size} rows to start; the clients have {self.count}"
            )
        mask = self.drawn(size, seed)
        return self.only(~mask), self.only(mask).stacked()


def _named(pieces: list[T]) -> dict[str, T]:
    width = len(str(len(pieces) - 1))
    return {f"client-{index:0{width}}": piece for index, piece in enumerate(pieces)}


class ScalingName(StrEnum):
    """The ways to scale columns before they are learned."""

    none = "none"
    standard = "standard"
    minmax = "minmax"


class Predict(StrEnum):
    """What a target is predicted as."""

    classes = "classes"
    number = "number"


def choose_target(column: str, cells: Sequence[Any], decimal: str, said: Predict | None) -> Target:
    """Decides whether a column holds classes or numbers, and notes why and what else it could be.

    Words are classes, and so are a few whole numbers. Where most cells are numbers and differ, the
    others are bad rows.
    """
    if not len(cells):
        raise BadInput(f"there are no rows with a {column!r} to learn from")
    values = [number(cell, decimal) for cell in cells]
    classes = sorted({_word(cell, value) for cell, value in zip(cells, values, strict=True)})
    numbers = {value for value in values if value is not None}
    few = len(classes) <= 20 and all(value.is_integer() for value in numbers)
    worded = 2 * sum(value is None for value in values) > len(values)
    kind = said or (Predict.classes if few or worded else Predict.number)
    target = Target(column, tuple(classes) if kind is Predict.classes else ())
    _note_choice(target, said, worded or not numbers, len(classes))
    return target


def _word(cell: Any, value: float | None) -> str:
    return word_of(cell if value is None else value)


def _note_choice(target: Target, said: Predict | None, worded: bool, different: int) -> None:
    if target.classes:
        rest = ", …" if len(target.classes) > 5 else ""
        some = ", ".join(target.classes[:5]) + rest
        what, why = (
            f"{len(target.classes)} classes ({some})",
            f"{different} different whole numbers",
        )
        other = "--predict number predicts it as a number"
    else:
        what, why = "a number", f"{different} different numbers"
        other = "--predict classes makes each of them a class"
    if said is not None:
        reason = "as stated"
    else:
        reason = "since it holds words" if worded else f"since it holds {why}; {other}"
    notes.print(f"{target.column} is predicted as {what}, {reason}.")


def coded(fleet: FleetRows, target: Target, files: FleetFiles) -> FleetRows:
    """The fleet with its targets as outputs of a model; bad ones are errors or left out."""
    decimal = files.layout.decimal
    if files.skip_bad:
        each = [target.fits(fleet.cells[name].cells, decimal) for name in sorted(fleet.cells)]
        mask = np.concatenate(each)
        if not mask.all():
            fleet = fleet.only(mask)
            notes.print(f"Left out {int((~mask).sum())} rows whose {target.column} is no number.")
    targets = {name: target.coded(column, decimal) for name, column in fleet.cells.items()}
    return replace(fleet, targets=targets)


def read_test(
    path: Path, like: Basis | Projection, target: Target | None, files: FleetFiles
) -> Pairs:
    """Reads the rows of a test file in the columns that were learned, and their targets."""
    table = read(path, like, files.paired, files.skip_bad)
    X, column = table.array, table.beside
    T = np.empty((0, 0))
    if target is not None and column is not None:
        fits = target.fits(column.cells, files.layout.decimal)
        if files.skip_bad and not fits.all():
            unknown = f"{int((~fits).sum())} rows whose {target.column} is unknown"
            notes.print(f"{path}: left out {unknown}.")
            X, column = X[fits], column.at(fits)
        T = target.coded(column, files.layout.decimal)
    if not len(X):
        raise BadInput(f"{path}: no rows to test with")
    return Pairs(X, T)


def hold_out(fleet: FleetRows, share: float, seed: int) -> tuple[FleetRows, Pairs]:
    """Takes a share of all rows for the test, at random, but no class as a whole."""
    size = round(share * fleet.count)
    if not 0 < size < fleet.count:
        raise BadInput(f"--test-share {share:g} of {fleet.count} rows would be {size}")
    mask, T = fleet.drawn(size, [seed, 1]), fleet.stacked().T
    if T.shape[1] > 1:
        # What is only in the test could not be learned.
        lost = ~T[~mask].any(axis=0)
        mask &= ~T[:, lost].any(axis=1)
    held = fleet.only(mask).stacked()
    notes.print(
        f"{len(held.X)} of {fleet.count} rows, drawn at random, are kept for the test "
        "(--test-share; --test FILE has others)."
    )
    return fleet.only(~mask), held


def fitted(
    target: Target | None, fleet: FleetRows, held: Pairs
) -> tuple[Target | None, FleetRows, Exam]:
    """Scales numbers to predict by those that are learned, and makes the exam of the test rows."""
    if target is None:
        return None, fleet, Exam(held.X)
    target = target.fitted(fleet.stacked().T)
    scaled = {name: target.scaled(mine) for name, mine in fleet.targets.items()}
    exam = Exam(held.X, target.scaled(held.T), target.classes)
    return target, replace(fleet, targets=scaled), exam
