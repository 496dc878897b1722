"""The rows of a federation on one machine: digits, or CSV files, split among clients."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.algebra import Array, Basis
from elmgrove.cli.demo import PIXELS, Digits
from elmgrove.cli.options import read
from elmgrove.errors import BadInput
from elmgrove.rounds import Plan
from elmgrove.storage import read_table

CLIENTS = 100
#: Kinds of rows that a client of the digits sees.
_KINDS = 2


@dataclass(frozen=True)
class FleetRows:
    """Each client's rows by its name, the columns' names, and how they are scaled."""

    rows: dict[str, Array]
    names: tuple[str, ...] | None
    scaling: str

    @classmethod
    def read(cls, data: Path | None, clients: int | None, seed: int) -> "FleetRows":
        """From a file, a folder with one for each client, or scikit-learn's digits."""
        if data is None:
            return cls._digits(clients or CLIENTS, seed)
        if data.is_dir():
            if clients is not None:
                raise BadInput(f"--clients: {data} has a file for each client")
            return cls._folder(data)
        table = read(data, None, (), skip_bad=False)
        pieces = np.array_split(table.rows, clients or CLIENTS)
        return cls(_named(pieces), table.names, "standard")

    @classmethod
    def _digits(cls, clients: int, seed: int) -> "FleetRows":
        """Sorted by digit and cut into shards, of which each client gets two: non-IID."""
        digits = Digits.load(seed)
        order = np.argsort(digits.train_digit, kind="stable")
        shards = np.array_split(digits.train[order], _KINDS * clients)
        lots = np.random.default_rng(seed).permutation(len(shards)).reshape(clients, _KINDS)
        pieces = [np.vstack([shards[lot] for lot in mine]) for mine in lots]
        shuffled = [np.random.default_rng([seed, i]).permutation(p) for i, p in enumerate(pieces)]
        return cls(_named(shuffled), tuple(f"pixel {i}" for i in range(PIXELS)), "none")

    @classmethod
    def _folder(cls, folder: Path) -> "FleetRows":
        paths = sorted(folder.glob("*.csv"))
        if not paths:
            raise BadInput(f"{folder}: no .csv files, of which there should be one a client")
        # An empty file has none; without names, columns in another order would be mixed.
        tables = (read_table(path) for path in paths)
        names = next((table.names for table in tables if table.names), None)
        rows = {path.stem: read_table(path, features=names).rows for path in paths}
        columns = {name: mine.shape[1] for name, mine in rows.items() if len(mine)}
        if len(set(columns.values())) > 1:
            raise BadInput(f"{folder}: files have different numbers of columns: {columns}")
        return cls(rows, names, "standard")

    def plan(self, rule: str, *, units: int | None, seed: int, **settings: Any) -> Plan:
        """A federation of these; Fed-ELMS' first batch is taken from the clients' rows."""
        filled = [mine for mine in self.rows.values() if len(mine)]
        if not filled:
            raise BadInput("no client has any rows")
        basis = Basis.fitted(
            np.vstack(filled), self.names, scaling=self.scaling, units=units, seed=seed
        )
        rows, batch = dict(self.rows), np.empty((0, basis.layer.inputs))
        if rule == "fedavg":
            rows, batch = self._with_batch(2 * basis.layer.units, seed)
        return Plan(rule, basis, rows, seed=seed, batch=batch, **settings)

    def _with_batch(self, size: int, seed: int) -> tuple[dict[str, Array], Array]:
        places = [(name, i) for name in sorted(self.rows) for i in range(len(self.rows[name]))]
        if len(places) <= size:
            raise BadInput(f"{len(places)} rows, of which Fed-ELMS would begin with {size}")
        lots = np.random.default_rng(seed).permutation(len(places))[:size]
        chosen = {places[lot] for lot in lots}
        batch = np.array([self.rows[name][i] for name, i in sorted(chosen)])
        kept = {
            name: mine[[i for i in range(len(mine)) if (name, i) not in chosen]]
            for name, mine in self.rows.items()
        }
        return kept, batch


def _named(pieces: list[Array]) -> dict[str, Array]:
    width = len(str(len(pieces) - 1))
    return {f"client-{index:0{width}}": piece for index, piece in enumerate(pieces)}
