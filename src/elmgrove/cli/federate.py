"""``elmgrove federate``: a federation in rounds, in this process or on Flower's simulation.

The command, the rows of its clients, and what it prints of each round.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.algebra import Array, Basis, Categories
from elmgrove.cli.demo import PIXELS, Digits
from elmgrove.cli.options import bar, notes
from elmgrove.cli.reading_options import read, with_layout
from elmgrove.errors import BadInput, require_extra
from elmgrove.federation import EVIDENCE, Merged
from elmgrove.reading import Layout, read_table
from elmgrove.rounds import Delivery, Plan, RoundReport, RuleName, run_plan
from elmgrove.storage import save

CLIENTS = 100
#: Shards of the sorted digits that a client gets.
_SHARDS = 2
_USUAL = Layout()
#: Clients that are named where many were left out for the same reason.
_NAMED = 5


class EngineName(StrEnum):
    """The engines that carry the messages."""

    local = "local"
    flower = "flower"


@with_layout
def federate(
    engine: Annotated[
        EngineName,
        typer.Option(help="In this process, or Flower's simulation (elmgrove\\[flower])."),
    ] = EngineName.local,
    rule: Annotated[
        RuleName,
        typer.Option(help="The sum (E²LM), averages (Fed-ELMS), or a sum for each group (MLMG)."),
    ] = RuleName.e2lm,
    data: Annotated[
        Path | None,
        typer.Option(
            help="A CSV file, cut into a piece for each client, or a folder with a CSV file for "
            "each \\[default: handwritten digits, about two of the ten for each].",
            exists=True,
        ),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(help="Clients \\[default: 100, or a folder's number of files].", min=1),
    ] = None,
    rounds: Annotated[
        int, typer.Option(help="Rounds; each brings an equal part of a client's rows.", min=1)
    ] = 1,
    fraction: Annotated[
        float, typer.Option(help="The share of clients drawn each round.", min=0.0, max=1.0)
    ] = 1.0,
    bits: Annotated[
        int,
        typer.Option(help="Bits of a number in the messages of --rule fedavg: 64, or 8 (compact)."),
    ] = 64,
    groups: Annotated[
        int | None,
        typer.Option(
            help="Groups that --rule groups makes, if there are as many patterns "
            "\\[default: what it finds].",
            min=1,
        ),
    ] = None,
    distance: Annotated[
        str, typer.Option(help="How --rule groups compares patterns: evidence or parameters.")
    ] = EVIDENCE,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds that a client has to answer; a late client is left out "
            "\\[default: none here, an hour on Flower].",
            min=0.0,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of layer, split and draw.", min=0)] = 0,
    units: Annotated[
        int | None,
        typer.Option(
            help="Hidden units \\[default: a quarter of the columns, half of fewer than 16; "
            "at most 128].",
            min=1,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The state file to write.", dir_okay=False)
    ] = Path("federation.elm"),
    *,
    layout: Layout,
) -> None:
    """Run a federation of clients on this machine; the model they end with is saved as a state.

    Both engines send the same messages and end with the same model. All rows are on this machine,
    so the upload guard is off, and scaling is fitted to all of them.

    Example: [bold]elmgrove federate --rule e2lm --clients 100 --output federation.elm[/]
    """
    run = _simulate() if engine is EngineName.flower else run_plan
    fleet = FleetRows.read(data, clients, seed, layout)
    basis = fleet.basis(units, seed)
    rows, batch = fleet.with_batch(rule.batch_rows(basis), seed)
    plan = Plan(
        rule,
        basis,
        rows,
        rounds=rounds,
        fraction=fraction,
        seed=seed,
        batch=batch,
        bits=bits,
        groups=groups,
        distance=distance,
        timeout=timeout,
    )
    reports = list[RoundReport]()
    merged, delivery = _with_progress(run, plan, reports)
    save(output, plan.member(merged))
    _show(plan, reports, merged, delivery)
    notes.print(f"Saved {output}.")


Run = Callable[[Plan, Callable[[RoundReport], None]], tuple[Merged, Delivery]]


def _simulate() -> Run:
    require_extra("flwr", "flower")
    # Only now: without Flower, the error above says how to install it.
    from elmgrove.rounds.flower.simulation import simulate

    return simulate


def _with_progress(run: Run, plan: Plan, reports: list[RoundReport]) -> tuple[Merged, Delivery]:
    with bar() as progress:
        task = progress.add_task("Starting", total=plan.rounds)

        def tell(report: RoundReport) -> None:
            reports.append(report)
            progress.update(task, advance=1, description=f"Round {report.number}")

        return run(plan, tell)


@dataclass(frozen=True)
class FleetRows:
    """Each client's rows by its name, the columns' names, and how they are scaled."""

    rows: dict[str, Array]
    names: tuple[str, ...] | None
    scaling: str
    categories: Categories = field(default_factory=dict)

    @classmethod
    def read(
        cls, data: Path | None, clients: int | None, seed: int, layout: Layout = _USUAL
    ) -> "FleetRows":
        """Reads a file, a folder with a file for each client, or scikit-learn's digits."""
        if data is None:
            return cls._digits(clients or CLIENTS, seed)
        if data.is_dir():
            if clients is not None:
                raise BadInput(f"--clients: {data} has a file for each client")
            return cls._folder(data, layout)
        table = read(data, None, layout)
        pieces = np.array_split(table.array, clients or CLIENTS)
        return cls(_named(pieces), table.names, "standard", table.categories)

    @classmethod
    def _digits(cls, clients: int, seed: int) -> "FleetRows":
        """Cuts the digits, sorted, into shards and gives each client two: non-IID."""
        digits = Digits.load(seed)
        order = np.argsort(digits.train_digit, kind="stable")
        shards = np.array_split(digits.train[order], _SHARDS * clients)
        lots = np.random.default_rng(seed).permutation(len(shards)).reshape(clients, _SHARDS)
        pieces = [np.vstack([shards[lot] for lot in mine]) for mine in lots]
        shuffled = [np.random.default_rng([seed, i]).permutation(p) for i, p in enumerate(pieces)]
        return cls(_named(shuffled), tuple(f"pixel {i}" for i in range(PIXELS)), "none")

    @classmethod
    def _folder(cls, folder: Path, layout: Layout) -> "FleetRows":
        paths = sorted(folder.glob("*.csv"))
        if not paths:
            raise BadInput(f"{folder}: no .csv files; there should be one for each client")
        # An empty file has none; without names, columns in another order would be mixed up.
        tables = (read_table(path, layout) for path in paths)
        first = next((table for table in tables if table.names), None)
        names, words = (None, {}) if first is None else (first.names, first.categories)
        rows = {
            path.stem: read_table(path, layout, features=names, categories=words).array
            for path in paths
        }
        columns = {name: mine.shape[1] for name, mine in rows.items() if len(mine)}
        if len(set(columns.values())) > 1:
            raise BadInput(f"{folder}: files have different numbers of columns: {columns}")
        return cls(rows, names, "standard", words)

    def basis(self, units: int | None, seed: int) -> Basis:
        """Makes a basis with the scaling that fits all rows; models of rounds have a loss."""
        filled = [mine for mine in self.rows.values() if len(mine)]
        if not filled:
            raise BadInput("no client has any rows")
        rows = np.vstack(filled)
        return Basis.fitted(
            rows,
            self.names,
            categories=self.categories,
            scaling=self.scaling,
            units=units,
            seed=seed,
            score="loss",
        )

    def with_batch(self, size: int, seed: int) -> tuple[dict[str, Array], Array]:
        """Takes the server's first batch from the clients' rows; gives the rest and the batch."""
        if size == 0:
            return self.rows, np.empty((0, 0))
        places = [(name, i) for name in sorted(self.rows) for i in range(len(self.rows[name]))]
        if len(places) <= size:
            raise BadInput(
                f"Fed-ELMS needs more than {size} rows to start; the clients have {len(places)}"
            )
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


def _show(plan: Plan, reports: list[RoundReport], merged: Merged, delivery: Delivery) -> None:
    Console().print(_grid(reports))
    for reason, names in _left_out(reports, delivery).items():
        rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        notes.print(f"Left out {', '.join(names[:_NAMED])}{rest}: {reason}")
    groups = f" {len(merged.parts)} groups of patterns were found." if merged.apart else ""
    Console(highlight=False, soft_wrap=True).print(
        f"{merged.devices} of {len(plan.rows)} clients took part.{groups} What each got back ("
        f"{delivery.down:,} bytes in all) explains the clients' rows with a mean squared error "
        f"of {delivery.loss:.4g}."
    )


def _grid(reports: list[RoundReport]) -> Grid:
    """Makes a table with one line for each round."""
    headings = ("round", "asked", "answered", "left out", "bytes down", "bytes up", "seconds")
    grid = Grid(title="What happened in each round")
    for heading in headings:
        grid.add_column(heading, justify="right")
    for report in reports:
        clients = (len(report.asked), len(report.answered), len(report.left_out))
        cells = [str(report.number), *map(str, clients), f"{report.down:,}", f"{report.up:,}"]
        grid.add_row(*cells, f"{report.seconds:.2f}")
    return grid


def _left_out(reports: list[RoundReport], delivery: Delivery) -> dict[str, list[str]]:
    """Names by when and why they were left out; of each client the last time only."""
    last: dict[str, str] = {}
    for report in reports:
        at = f"in round {report.number}"
        last |= {name: f"{at}, {reason}" for name, reason in report.left_out.items()}
    last |= {name: f"at the end, {reason}" for name, reason in delivery.left_out.items()}
    found: dict[str, list[str]] = {}
    for name in sorted(last):
        found.setdefault(last[name], []).append(name)
    return found
