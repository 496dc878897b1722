"""``elmgrove fleet``: a look at all devices of an exchange together."""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.fleet_groups import draw, grid_of, reason_of, standing_of
from elmgrove.cli.options import bar, notes
from elmgrove.errors import BadInput, require_extra
from elmgrove.exchange import Exchange, FolderExchange, open_exchange
from elmgrove.federation import Contribution, Judgement, group, judge
from elmgrove.storage import load

fleet = typer.Typer(
    name="fleet",
    help="Look at all devices of an exchange together.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
_AT_ONCE = 20


@fleet.callback()
def all_together() -> None:
    """Look at all devices of an exchange together."""


Where = Annotated[
    list[str],
    typer.Argument(help="A server's URL with the federation, a shared folder, or files."),
]
Key = Annotated[
    str | None,
    typer.Option(help="A device's key or the admin token.", envvar="ELMGROVE_KEY"),
]
Ca = Annotated[str | None, typer.Option(help="Certificate of who signed the server's.")]
Ridge = Annotated[
    float | None, typer.Option(help="Regularization \\[default: the federation's].", min=0.0)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the matrix into this PNG file.")]


@fleet.command("judge")
def judge_(
    where: Where,
    key: Key = None,
    ca: Ca = None,
    ridge: Ridge = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Show who explains whom: each device's model on each device's rows, without the rows.

    A row with large numbers is a model that does not fit the others' data; a column with large
    numbers is data that no other model explains.

    Example: [bold]elmgrove fleet judge http://127.0.0.1:8470/fans --key $KEY --plot fans.png[/]
    """
    if plot is not None:
        require_extra("matplotlib", "demo")
    contributions, own_ridge = _contributions(where, key, ca)
    if len(contributions) < 2:
        raise BadInput(f"{', '.join(where)}: fewer than two devices contributed")
    found = judge(contributions, own_ridge if ridge is None else ridge)
    if as_json:
        numbers = {"names": found.names, "error": _plain(found.error)}
        Console().print_json(json.dumps({**numbers, "strangeness": _plain(found.strangeness)}))
    else:
        Console(markup=False, emoji=False).print(_grid(found))
    if plot is not None:
        _draw(found, plot)
        notes.print(f"Wrote {plot}.")


@fleet.command("groups")
def groups_(
    where: Where,
    key: Key = None,
    ca: Ca = None,
    ridge: Ridge = None,
    distance: Annotated[
        str,
        typer.Option(
            help="What makes patterns alike: evidence (one model explains both) or parameters "
            "(their models are close)."
        ),
    ] = "evidence",
    groups: Annotated[
        int | None,
        typer.Option(help="Make so many groups \\[default: as many as there are].", min=1),
    ] = None,
    anew: Annotated[
        bool,
        typer.Option("--anew", help="Group afresh instead of asking the server for its groups."),
    ] = False,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Show which patterns of which devices are of one kind, and why, without a row.

    By evidence, patterns are joined while the error on nobody's rows grows by more than 2 % in
    one step. By parameters, K-means and the silhouette decide. A server keeps its groups while
    devices come and go; they are grouped afresh, with reasons, by --anew, --groups and --ridge.

    Example: [bold]elmgrove fleet groups http://127.0.0.1:8470/fans --key $KEY --plot fans.png[/]
    """
    if plot is not None:
        require_extra("matplotlib", "demo")
    contributions, own_ridge = _contributions(where, key, ca)
    afresh = anew or groups is not None or ridge is not None
    told = None if afresh else _told(where, key, ca, distance)
    ridge = own_ridge if ridge is None else ridge
    if told is None:
        found = group(contributions, ridge, distance, groups)
        fields, reason = found.fields, reason_of(found)
    else:
        found, fields = standing_of(told, contributions), told
        reason = f"As the server keeps them since revision {told['since']}; --anew says why."
    if not found.models:
        raise BadInput(f"{', '.join(where)}: nobody contributed anything")
    if as_json:
        Console().print_json(json.dumps(fields))
    else:
        console = Console(markup=False, emoji=False)
        console.print(grid_of(found))
        console.print(reason)
    if plot is not None:
        draw(found, ridge, plot)
        notes.print(f"Wrote {plot}.")


def _told(
    where: list[str], key: str | None, ca: str | None, distance: str
) -> dict[str, Any] | None:
    """The groups that a server keeps; None where there is none to ask."""
    exchange = open_exchange(where[0], "fleet", key=key, ca=ca)
    if isinstance(exchange, FolderExchange):  # or a file, which is not opened
        return None
    # Here, because httpx takes a while to load, and a folder needs none of it.
    from elmgrove.exchange import HttpExchange

    assert isinstance(exchange, HttpExchange)
    with exchange:
        return exchange.groups(distance)


def _contributions(
    where: list[str], key: str | None, ca: str | None
) -> tuple[list[Contribution], float]:
    if all(Path(one).is_file() for one in where):
        return [load(Path(one), Contribution.from_bytes) for one in where], 1e-3
    if len(where) > 1:
        raise BadInput("give one exchange, or files that all exist")
    exchange = open_exchange(where[0], "fleet", key=key, ca=ca)
    try:
        return _fetched(exchange), exchange.charter.ridge
    finally:
        exchange.close()


def _fetched(exchange: Exchange) -> list[Contribution]:
    names = [listing.origin for listing in exchange.listings() if not listing.left]
    entries = []
    with bar() as progress:
        for start in progress.track(range(0, len(names), _AT_ONCE), description="Fetching"):
            entries += exchange.fetch(names[start : start + _AT_ONCE])
    return [entry for entry in entries if isinstance(entry, Contribution)]


def _plain(values: NDArray[np.float64]) -> list[Any]:
    """Numbers as JSON knows them: null where there is none."""
    plain = values.astype(object)
    plain[~np.isfinite(values)] = None
    listed: list[Any] = plain.tolist()
    return listed


def _grid(found: Judgement) -> Grid:
    grid = Grid(title="Mean squared error of each model (row) on each device's rows (column)")
    grid.add_column("model of")
    for name in found.names:
        grid.add_column(f"rows of {name}", justify="right")
    grid.add_column("times worse than their own", justify="right")
    for name, errors, factor in zip(found.names, found.error, found.strangeness, strict=True):
        grid.add_row(name, *(f"{error:.3g}" for error in errors), f"{factor:.3g}")
    return grid


def _draw(found: Judgement, path: Path) -> None:
    require_extra("matplotlib", "demo").use("Agg")
    pyplot = require_extra("matplotlib.pyplot", "demo")
    side = max(4.0, 0.5 * len(found.names) + 2.0)
    figure, axes = pyplot.subplots(figsize=(side + 1.0, side))
    image = axes.imshow(np.log10(np.maximum(found.error, 1e-300)), cmap="viridis")
    places = range(len(found.names))
    axes.set_xticks(places, found.names, rotation=90)
    axes.set_yticks(places, found.names)
    axes.set_xlabel("rows of")
    axes.set_ylabel("model of")
    axes.set_title("Who explains whom")
    figure.colorbar(image, label="log₁₀ of the mean squared error")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
