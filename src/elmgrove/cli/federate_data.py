"""The rows of ``elmgrove federate``: read, dealt to clients, and kept for the test."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis, Categories, word_of
from elmgrove.algebra.rows import Array
from elmgrove.cli.options import notes, read
from elmgrove.errors import BadInput, require_extra
from elmgrove.reading.cells import number
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import ColumnCells, Table, read_table
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.predictor import Projection, Target


class Pairs(NamedTuple):
    """Rows, and their targets where something is to be predicted."""

    X: Array
    T: Array


@dataclass(frozen=True)
class FleetRows:
    """The rows ``X`` of all clients, the number of the client of each, and the columns' names.

    ``T`` are the targets as outputs of a model, without columns where nothing is to be predicted;
    ``cells`` has the same of each client as it is written.
    """

    clients: tuple[str, ...]
    owner: Array
    X: Array
    names: tuple[str, ...] | None
    scaling: str
    categories: Categories = field(default_factory=dict)
    T: Array = field(default_factory=lambda: np.empty((0, 0)))
    cells: tuple[ColumnCells, ...] = ()

    @classmethod
    def of(cls, pieces: dict[str, Array], *columns: Any, **more: Any) -> "FleetRows":
        """Stack the rows of clients by their names."""
        owner = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces.values()])
        return cls(tuple(pieces), owner, np.vstack(list(pieces.values())), *columns, **more)

    @classmethod
    def read(
        cls, data: Path | None, clients: int | None, seed: int, files: "FleetFiles"
    ) -> "FleetRows":
        """Read a file, a folder with a file for each client, or scikit-learn's digits."""
        if data is None:
            if files.target is not None:
                raise BadInput("--target needs --data: a file, or a folder with one a client")
            return cls._digits(clients or 100, seed)
        if data.is_dir():
            if clients is not None:
                raise BadInput(f"--clients: {data} has a file for each client")
            return cls._folder(data, files)
        table = read(data, None, files.paired, files.skip_bad)
        pieces = np.array_split(np.arange(len(table.rows)), clients or 100)
        cells = [] if table.beside is None else [table.beside.at(piece) for piece in pieces]
        rows = _named([table.rows[piece] for piece in pieces])
        return cls.of(rows, table.names, "standard", table.categories, cells=tuple(cells))

    @classmethod
    def _digits(cls, clients: int, seed: int) -> "FleetRows":
        """Cut the digits, sorted, into shards and give each client two: non-IID."""
        bunch = require_extra("sklearn.datasets", "sklearn").load_digits()
        # The appendix tests with the fifth that is left out here.
        kept = np.random.default_rng(seed).permutation(len(bunch.data))[len(bunch.data) // 5 :]
        rows, order = bunch.data[kept] / 16.0, np.argsort(bunch.target[kept], kind="stable")
        shards = np.array_split(rows[order], 2 * clients)
        lots = np.random.default_rng(seed).permutation(len(shards)).reshape(clients, 2)
        pieces = [np.vstack([shards[lot] for lot in mine]) for mine in lots]
        shuffled = [np.random.default_rng([seed, i]).permutation(p) for i, p in enumerate(pieces)]
        names = tuple(f"pixel {i}" for i in range(rows.shape[1]))
        return cls.of(_named(shuffled), names, "none")

    @classmethod
    def _folder(cls, folder: Path, files: "FleetFiles") -> "FleetRows":
        paths = sorted(folder.glob("*.csv"), key=lambda path: path.stem)
        if not paths:
            raise BadInput(f"{folder}: no .csv files; there should be one for each client")
        # An empty file has none; without names, columns in another order would be mixed up.
        first = next((table for table in map(files.table, paths) if table.names), None)
        tables = {path.stem: files.table(path, first) for path in paths}
        columns = {name: one.rows.shape[1] for name, one in tables.items() if len(one.rows)}
        if not columns:
            raise BadInput("no client has any rows")
        if len(set(columns.values())) > 1:
            raise BadInput(f"{folder}: files have different numbers of columns: {columns}")
        # A client without rows may have no columns either.
        nothing = np.empty((0, *set(columns.values())))
        rows = {name: one.rows if len(one.rows) else nothing for name, one in tables.items()}
        names, words = (None, {}) if first is None else (first.names, first.categories)
        cells = tuple(one.beside for one in tables.values() if one.beside is not None)
        return cls.of(rows, names, "standard", words, cells=cells)

    def by_client(self, rows: Array) -> dict[str, Array]:
        """The rows of each client by its name; nothing where there are none at all."""
        names = self.clients if len(rows) else ()
        return {name: rows[self.owner == number] for number, name in enumerate(names)}

    def only(self, keep: Array) -> "FleetRows":
        T = self.T[keep] if len(self.T) else self.T
        return replace(self, X=self.X[keep], owner=self.owner[keep], T=T)

    def aimed(self, target: Target, files: "FleetFiles") -> "FleetRows":
        """The fleet with its targets as outputs of a model; bad ones are errors or left out."""
        mask, T = files.coded(target, self.cells)
        return replace(self.only(mask), T=T)

    def projected(self, variance: float) -> tuple[Projection, "FleetRows"]:
        made = Projection.fitted(
            self.X, self.names, self.categories, scaling=self.scaling, variance=variance
        )
        notes.print(
            f"{made.components} principal components of {made.columns} columns keep "
            f"{100 * variance:g} % of the variance."
        )
        return made, replace(self, X=made(self.X), names=None, categories={}, scaling="none")

    def basis(self, units: int | None, seed: int, **layer: Any) -> Basis:
        """Make a basis with the scaling that fits all rows; models of rounds have a loss."""
        if len(self.T):
            units = units or max(min(256, len(self.X) // 4), 1)
        made = Basis.fitted(
            self.X,
            self.names,
            categories=self.categories,
            scaling=self.scaling,
            units=units,
            seed=seed,
            score="loss",
            **layer,
        )
        return replace(made, outputs=self.T.shape[1] or made.outputs)

    def drawn(self, size: int, seed: int | Sequence[int]) -> Array:
        mask = np.zeros(len(self.X), bool)
        mask[np.random.default_rng(seed).permutation(len(self.X))[:size]] = True
        return mask

    def with_batch(self, size: int, seed: int) -> tuple["FleetRows", Pairs]:
        """Take the server's first batch from the clients' rows; return the rest and the batch."""
        if size == 0:
            return self, Pairs(np.empty((0, 0)), np.empty((0, 0)))
        if len(self.X) <= size:
            raise BadInput(
                f"Fed-ELMS needs more than {size} rows to start; the clients have {len(self.X)}"
            )
        mask = self.drawn(size, seed)
        batch = self.only(mask)
        return self.only(~mask), Pairs(batch.X, batch.T)


@dataclass(frozen=True)
class FleetFiles:
    """How to read files of rows: their layout, the column to predict, and what of bad rows."""

    layout: Layout = field(default_factory=Layout)
    target: str | None = None
    skip_bad: bool = False

    def __post_init__(self) -> None:
        if self.target is not None and self.target in (*self.layout.categories, *self.layout.drop):
            raise BadInput(f"--target {self.target} is read by itself: no --categories, no --drop")

    @property
    def paired(self) -> Layout:
        return replace(self.layout, beside=self.target)

    def table(self, path: Path, like: Table | None = None) -> Table:
        """Read the rows of a client's file, in the columns of another."""
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

    def test(self, path: Path, like: Basis | Projection, target: Target | None) -> Pairs:
        table = read(path, like, self.paired, self.skip_bad)
        X, T = table.rows, np.empty((0, 0))
        if target is not None and table.beside is not None:
            mask, T = self.coded(target, [table.beside])
            X = X[mask]
        if not len(X):
            raise BadInput(f"{path}: no rows to test with")
        return Pairs(X, T)

    def coded(self, target: Target, columns: Sequence[ColumnCells]) -> tuple[Array, Array]:
        """Targets as outputs of a model, and which rows have one; others are errors or left out."""
        decimal = self.layout.decimal
        fits = [target.fits(column.cells, decimal) for column in columns]
        mask = np.concatenate(fits)
        if not self.skip_bad:
            mask[:] = True
        elif not mask.all():
            what = "unknown" if target.classes else "no number"
            notes.print(f"Left out {int((~mask).sum())} rows whose {target.column} is {what}.")
            columns = [column.at(good) for column, good in zip(columns, fits, strict=True)]
        return mask, np.vstack([target.coded(column, decimal) for column in columns])


def _named(pieces: list[Array]) -> dict[str, Array]:
    width = len(str(len(pieces) - 1))
    return {f"client-{index:0{width}}": piece for index, piece in enumerate(pieces)}


def choose_target(column: str, cells: Sequence[Any], decimal: str, stated: str | None) -> Target:
    """Decide whether a column holds classes or numbers, and note why and what else it could be.

    Words are classes, and so are a few whole numbers. Where most cells are numbers and differ, the
    others are bad rows.
    """
    if not len(cells):
        raise BadInput(f"there are no rows with a {column!r} to learn from")
    values = [number(cell, decimal) for cell in cells]
    pairs = zip(cells, values, strict=True)
    classes = sorted({word_of(cell if value is None else value) for cell, value in pairs})
    numbers = {value for value in values if value is not None}
    few = len(classes) <= 20 and all(value.is_integer() for value in numbers)
    worded = 2 * sum(value is None for value in values) > len(values)
    kind = stated or ("classes" if few or worded else "number")
    target = Target(column, tuple(classes) if kind == "classes" else ())
    if target.classes:
        rest = ", …" if len(classes) > 5 else ""
        what = f"{len(classes)} classes ({', '.join(classes[:5])}{rest})"
        why, other = "different whole numbers", "--predict number predicts it as a number"
    else:
        what, why = "a number", "different numbers"
        other = "--predict classes makes each of them a class"
    if stated is not None:
        reason = "as stated"
    elif worded or not numbers:
        reason = "since it holds words"
    else:
        reason = f"since it holds {len(classes)} {why}; {other}"
    notes.print(f"{column} is predicted as {what}, {reason}.")
    return target


def hold_out(fleet: FleetRows, share: float, seed: int) -> tuple[FleetRows, Pairs]:
    """Take a share of all rows for the test, at random, but no class as a whole."""
    size = round(share * len(fleet.X))
    if not 0 < size < len(fleet.X):
        raise BadInput(f"a test needs rows: {100 * share:g} % of {len(fleet.X)} are {size}")
    mask, T = fleet.drawn(size, [seed, 1]), fleet.T
    if T.shape[1] > 1:
        # What is only in the test could not be learned.
        lost = ~T[~mask].any(axis=0)
        mask &= ~T[:, lost].any(axis=1)
    held = fleet.only(mask)
    notes.print(
        f"{len(held.X)} of {len(fleet.X)} rows, drawn at random, are kept for the test "
        "(--test FILE has others)."
    )
    return fleet.only(~mask), Pairs(held.X, held.T)


def fitted(
    target: Target | None, fleet: FleetRows, held: Pairs
) -> tuple[Target | None, FleetRows, Exam]:
    """Scale numbers to predict by those that are learned, and make the exam of the test rows."""
    if target is None:
        return None, fleet, Exam(held.X)
    target = target.fitted(fleet.T)
    exam = Exam(held.X, target.scaled(held.T), target.classes)
    return target, replace(fleet, T=target.scaled(fleet.T)), exam
