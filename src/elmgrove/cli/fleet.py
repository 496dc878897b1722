"""``elmgrove fleet``: a look at all devices of an exchange together."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.algebra.rows import Array
from elmgrove.cli.federation import counted
from elmgrove.cli.options import Ca, Certificate, PrivateKey, bar, notes
from elmgrove.errors import BadInput, require_extra
from elmgrove.exchange.base import Exchange, Tls
from elmgrove.exchange.connection import open_exchange
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import Grouping, LocalPattern, group, local_models
from elmgrove.federation.ledger import Ledger
from elmgrove.federation.member import Borrowing, borrowing
from elmgrove.federation.selection import Judgement, judge
from elmgrove.federation.similarity import profile_of, unlike_all
from elmgrove.federation.sums import Influence, influence
from elmgrove.federation.terms import Terms
from elmgrove.storage.disk import load

_AT_ONCE = 20
Where = Annotated[
    list[str],
    typer.Argument(
        help="A server's URL with the federation, a broker's with its topic, a shared folder, or "
        "files."
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        help="A device's key or the admin token; at a broker, the password.", envvar="ELMGROVE_KEY"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]


def contributions_of(
    where: list[str], key: str | None, tls: Tls
) -> tuple[list[Contribution], float, Terms]:
    """Gathers what all devices contributed, and the ridge and the terms of their federation."""
    if all(Path(one).is_file() for one in where):
        return [load(Path(one), Contribution.from_bytes) for one in where], 1e-3, Terms()
    if len(where) > 1:
        raise BadInput("give one exchange, or files that all exist")
    with closing(open_exchange(where[0], "fleet", key=key, tls=tls, password=key)) as exchange:
        return _fetched(exchange), exchange.charter.ridge, exchange.charter.terms


def _fetched(exchange: Exchange) -> list[Contribution]:
    names = [listing.origin for listing in exchange.listings() if not listing.left]
    entries = []
    with bar() as progress:
        for start in progress.track(range(0, len(names), _AT_ONCE), description="Fetching"):
            entries += exchange.fetch(names[start : start + _AT_ONCE])
    return [entry for entry in entries if isinstance(entry, Contribution)]


def show(
    where: Where,
    key: Key = None,
    ca: Ca = None,
    certificate: Certificate = None,
    private_key: PrivateKey = None,
    as_json: AsJson = False,
) -> None:
    """Show each device: what it learned, where anomalous begins, and how much it borrows.

    A young device borrows how the others' readings move together; "width" says how many times as
    wide its normal is by that as it would be alone. A device without a threshold still learns. One
    that states more than the federation's terms allow counts with less in sums: "300 of 1,000,000".

    Example: [bold]elmgrove fleet show http://127.0.0.1:8470/fans --key $KEY[/]
    """
    tls = Tls(ca, certificate, private_key)
    contributions, _, terms = contributions_of(where, key, tls)
    if not contributions:
        raise BadInput(f"{', '.join(where)}: no device contributed anything")
    shown = [(one, _borrowed(one, contributions)) for one in contributions]
    weights, unlike = influence(terms, contributions), _unlike(contributions)
    if as_json:
        Console().print_json(json.dumps([_fields(*one, weights, unlike) for one in shown]))
        return
    console = Console(markup=False, emoji=False)
    console.print(_grid(shown, weights))
    for origin, sensors in unlike.items():
        console.print(f"{origin} is unlike all others: {sensors}.")
    for origin in weights.bounded:
        console.print(f"{origin} counts with less than it states: {weights.why(origin)}.")


def _borrowed(one: Contribution, contributions: Sequence[Contribution]) -> Borrowing:
    """What a device borrows of all others, if its policy lets it."""
    others = [other for other in contributions if other.origin != one.origin]
    return borrowing(one.parts, lambda: Ledger(others).loan, len(others))


def _unlike(contributions: Sequence[Contribution]) -> dict[str, str]:
    """Says which devices are unlike all others, and by which sensors."""
    single = {one.origin: profile_of(one.parts[0]) for one in contributions if len(one.parts) == 1}
    return unlike_all({name: one for name, one in single.items() if one is not None})


def _fields(
    one: Contribution, borrowed: Borrowing, weights: Influence, unlike: dict[str, str]
) -> dict[str, Any]:
    return {
        "device": one.origin,
        "rows": one.evidence.count,
        "weight": weights.weight(one.origin),
        "why": weights.why(one.origin) or None,
        "patterns": len(one.parts),
        "threshold": one.threshold,
        "unlike": unlike.get(one.origin),
        "borrows": {
            "rows": borrowed.rows,
            "lenders": borrowed.lenders,
            "width": borrowed.width,
        },
    }


def _grid(shown: Sequence[tuple[Contribution, Borrowing]], weights: Influence) -> Grid:
    grid = Grid(title=f"{len(shown)} device{'s' * (len(shown) != 1)}")
    grid.add_column("device")
    for name in ("rows", "patterns", "anomalous above"):
        grid.add_column(name, justify="right")
    grid.add_column("borrows")
    for one, borrowed in shown:
        threshold = "still learning" if one.threshold is None else f"{one.threshold:.4g}"
        rows, patterns = counted(one.evidence.count, weights.weight(one.origin)), len(one.parts)
        grid.add_row(one.origin, rows, str(patterns), threshold, str(borrowed))
    return grid


fleet = typer.Typer(
    name="fleet",
    help="Look at all devices of an exchange together.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
#: What judging measures, by the score that the devices have.
_MEASURES = {"distance": "mean distance", "loss": "mean squared error"}
Ridge = Annotated[
    float | None, typer.Option(help="Regularization \\[default: the federation's].", min=0.0)
]
Plot = Annotated[Path | None, typer.Option(help="Draw the matrix into this PNG file.")]

fleet.command("show")(show)


@fleet.command("judge")
def judge_(
    where: Where,
    key: Key = None,
    ca: Ca = None,
    certificate: Certificate = None,
    private_key: PrivateKey = None,
    ridge: Ridge = None,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Show how well each device's model explains each device's rows, without the rows.

    Where devices score by distance, a number says how many times as far as typical the rows lie;
    where they score by loss, it is the mean squared error. A row with large numbers is a model
    that does not fit the others' data; a column with large numbers is data that no other model
    explains.

    Example: [bold]elmgrove fleet judge http://127.0.0.1:8470/fans --key $KEY --plot fans.png[/]
    """
    if plot is not None:
        require_extra("matplotlib", "demo")
    tls = Tls(ca, certificate, private_key)
    contributions, own_ridge, _ = contributions_of(where, key, tls)
    if len(contributions) < 2:
        raise BadInput(f"{', '.join(where)}: fewer than two devices contributed")
    found = judge(contributions, own_ridge if ridge is None else ridge)
    measure = _MEASURES[contributions[0].basis.score]
    if as_json:
        numbers = {"names": found.names, "error": _plain(found.error)}
        Console().print_json(json.dumps({**numbers, "strangeness": _plain(found.strangeness)}))
    else:
        Console(markup=False, emoji=False).print(_judgement_grid(found, measure))
    if plot is not None:
        _draw_judgement(found, measure, plot)
        notes.print(f"Wrote {plot}.")


@fleet.command("groups")
def groups_(
    where: Where,
    key: Key = None,
    ca: Ca = None,
    certificate: Certificate = None,
    private_key: PrivateKey = None,
    ridge: Ridge = None,
    groups: Annotated[
        int | None,
        typer.Option(help="Make this many groups \\[default: as many as there are].", min=1),
    ] = None,
    regroup: Annotated[
        bool,
        typer.Option("--regroup", help="Make new groups instead of asking the server for its own."),
    ] = False,
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Show which patterns of which devices make a group, and why, without a row.

    Groups are joined as long as no device's loss grows by more than 2 % in one step, or its
    distance by 30 % beyond chance. A server keeps its groups; --regroup, --groups and --ridge make
    new ones, and say why.

    Example: [bold]elmgrove fleet groups http://127.0.0.1:8470/fans --key $KEY --plot fans.png[/]
    """
    if plot is not None:
        require_extra("matplotlib", "demo")
    tls = Tls(ca, certificate, private_key)
    contributions, own_ridge, _ = contributions_of(where, key, tls)
    new = regroup or groups is not None or ridge is not None
    told = None if new else _told(where, key, tls)
    ridge = own_ridge if ridge is None else ridge
    if told is None:
        found = group(contributions, ridge, count=groups)
        fields, reason = found.fields, _reason(found)
    else:
        found, fields = _kept_groups(told, contributions), told
        reason = f"The server has kept them since revision {told['since']}; --regroup says why."
    if not found.models:
        raise BadInput(f"{', '.join(where)}: no device contributed anything")
    if as_json:
        Console().print_json(json.dumps(fields))
    else:
        console = Console(markup=False, emoji=False)
        console.print(_group_grid(found))
        apart = groups is None and 1 < found.count == len(found.models)
        console.print(f"No two patterns are alike. {reason}" if apart else reason)
    if plot is not None:
        _draw_groups(found, ridge, plot)
        notes.print(f"Wrote {plot}.")


def _told(where: list[str], key: str | None, tls: Tls) -> dict[str, Any] | None:
    """Asks for the groups that a server keeps; None for anything else."""
    with closing(open_exchange(where[0], "fleet", key=key, tls=tls, password=key)) as exchange:
        return exchange.groups()


def _plain(values: Array) -> list[Any]:
    """Makes numbers a list for JSON, with null for those that are not finite."""
    plain = values.astype(object)
    plain[~np.isfinite(values)] = None
    return list(plain.tolist())


def _judgement_grid(found: Judgement, measure: str) -> Grid:
    near = "from" if measure == _MEASURES["distance"] else "by"
    title = f"{measure.capitalize()} of each device's rows (column) {near} each model (row)"
    caption = "How many times as far as typical" if near == "from" else None
    grid = Grid(title=title, caption=caption)
    grid.add_column("model of")
    for name in found.names:
        grid.add_column(f"rows of {name}", justify="right")
    grid.add_column("times worse than their own", justify="right")
    for name, errors, factor in zip(found.names, found.error, found.strangeness, strict=True):
        grid.add_row(name, *(f"{error:.3g}" for error in errors), f"{factor:.3g}")
    return grid


def _draw_judgement(found: Judgement, measure: str, path: Path) -> None:
    figure, axes = _matrix_picture(
        np.log10(np.maximum(found.error, 1e-300)),
        list(found.names),
        max(4.0, 0.5 * len(found.names) + 2.0),
        f"log₁₀ of the {measure}",
    )
    axes.set(xlabel="rows of", ylabel="model of", title="Which model explains which rows")
    _write(figure, path)


def _group_grid(found: Grouping) -> Grid:
    grid = Grid(title=f"Groups of patterns, by {found.distance}")
    grid.add_column("group", justify="right")
    grid.add_column("device (pattern)")
    grid.add_column("rows", justify="right")
    if found.steps:
        grid.add_column(f"{found.models[0].evidence.basis.score} grew by", justify="right")
    for number in found.numbers:
        members = found.members(number)
        rows = sum(model.evidence.count for model in members)
        line = [str(number), ", ".join(map(_pattern_name, members)), f"{rows:,.0f}"]
        if found.steps:
            line.append(f"{found.loss_within(number):.2%}" if len(members) > 1 else "")
        grid.add_row(*line)
    return grid


def _kept_groups(told: dict[str, Any], contributions: Sequence[Contribution]) -> Grouping:
    """Gives the groups that a server keeps, of the patterns that are still there."""
    models = {model.name: model for model in local_models(contributions)}
    groups = {(one["origin"], one["pattern"]): one["group"] for one in told["models"]}
    known = [name for name in models if name in groups]
    labels = tuple(groups[name] for name in known)
    return Grouping(told["distance"], tuple(models[name] for name in known), labels)


def _reason(found: Grouping) -> str:
    """Says why there are as many groups as there are."""
    if found.refused is not None:
        sides = (found.refused.first, found.refused.second)
        one, other = (found.labels[side[0]] for side in sides)
        score, loss = found.models[0].evidence.basis.score, found.refused.loss
        return f"Groups {one} and {other} would be next: the {score} would grow by {loss:.2%}."
    return "All patterns are one group."


def _draw_groups(found: Grouping, ridge: float, path: Path) -> None:
    """Draws the matrix of all patterns, ordered by group, with a border around each group."""
    order = np.argsort(found.labels, kind="stable")
    models = [found.models[index] for index in order]
    names = [_pattern_name(model) for model in models]
    side = min(max(4.0, 0.25 * len(models) + 2.0), 40.0)
    label = "log₁₀ of how many times worse than its own model"
    figure, axes = _matrix_picture(_matrix(models, ridge), names, side, label)
    axes.set_title("Each model (row) on each pattern's rows (column)")
    rectangle = require_extra("matplotlib.patches", "demo").Rectangle
    start = 0
    for number in found.numbers:
        size, corner = len(found.members(number)), start - 0.5
        axes.add_patch(rectangle((corner, corner), size, size, fill=False, color="red", lw=2))
        start += size
    _write(figure, path)


def _pattern_name(model: LocalPattern) -> str:
    return f"{model.origin} ({model.pattern + 1})"


def _matrix(models: list[LocalPattern], ridge: float) -> Array:
    """Gives a number for each pair of patterns like those that made the groups."""
    errors = judge([Contribution("one", 0, (model.evidence,)) for model in models], ridge).error
    own = np.maximum(errors.diagonal(), np.finfo(np.float64).tiny)
    # What overflows is clipped: it is only drawn.
    with np.errstate(over="ignore"):
        worse: Array = np.log10(np.clip(errors / own, 1e-300, 1e300))
    return worse


def _matrix_picture(values: Array, names: list[str], side: float, label: str) -> tuple[Any, Any]:
    """Starts a picture of a matrix whose rows and columns have these names."""
    require_extra("matplotlib", "demo").use("Agg")
    pyplot = require_extra("matplotlib.pyplot", "demo")
    figure, axes = pyplot.subplots(figsize=(side + 1.0, side))
    image = axes.imshow(values, cmap="viridis")
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    figure.colorbar(image, label=label)
    return figure, axes


def _write(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    require_extra("matplotlib.pyplot", "demo").close(figure)
