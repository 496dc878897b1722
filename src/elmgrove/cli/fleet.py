"""``elmgrove fleet``: all devices of an exchange side by side."""

import json
import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.federation import rows_counted
from elmgrove.cli.options import Ca, Certificate, bar
from elmgrove.errors import BadInput
from elmgrove.exchange.base import Exchange, Tls
from elmgrove.exchange.connection import open_exchange
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import Grouping, group
from elmgrove.federation.ledger import Ledger
from elmgrove.federation.member import Borrowing, borrowing
from elmgrove.federation.selection import judge
from elmgrove.federation.similarity import profile_of, unlike_all
from elmgrove.federation.sums import influence
from elmgrove.federation.terms import Terms
from elmgrove.storage.disk import load


def fleet(
    where: Annotated[
        list[str],
        typer.Argument(
            help="A server's URL with the federation, a broker's with its topic, a shared folder, "
            "or files of evidence."
        ),
    ],
    key: Annotated[
        str | None,
        typer.Option(
            help="A device's key or the admin token; at a broker, the password.",
            envvar="ELMGROVE_KEY",
        ),
    ] = None,
    ca: Ca = None,
    certificate: Certificate = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Compare all devices of a federation.

    "× worse" says how many times worse a device's model explains the others' rows than their own
    models do: a large number is a model, or a machine, of another kind. Devices in one group can
    share a model. A device that states more than the terms allow counts with less in sums: "300 of
    1,000,000".

    Example: [bold]elmgrove fleet http://127.0.0.1:8470/fans --key $KEY[/]
    """
    tls = Tls(ca, certificate)
    contributions, ridge, terms, kept = _read(where, key, tls)
    if not contributions:
        raise BadInput(f"{', '.join(where)}: no device contributed anything")
    grouping = None if kept is not None else group(contributions, ridge)
    groups = _groups(kept if grouping is None else grouping.fields)
    weights, unlike = influence(terms, contributions), _unlike(contributions)
    worse = judge(contributions, ridge).strangeness.tolist()
    devices: list[dict[str, Any]] = [
        {
            "device": one.origin,
            "rows": one.evidence.count,
            "weight": weights.weight(one.origin),
            "why": weights.why(one.origin) or None,
            "patterns": len(one.parts),
            "threshold": one.threshold,
            "groups": groups.get(one.origin, []),
            "worse": factor if math.isfinite(factor) else None,
            "unlike": unlike.get(one.origin),
            "borrows": _borrowed(one, contributions),
        }
        for one, factor in zip(contributions, worse, strict=True)
    ]
    if as_json:
        plain = [{**one, "borrows": vars(one["borrows"])} for one in devices]
        Console().print_json(json.dumps(plain))
        return
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(_grid(devices))
    for one in devices:
        name, borrowed = one["device"], one["borrows"]
        if borrowed.rows:
            console.print(f"{name} borrows {borrowed}.")
        if one["unlike"]:
            console.print(f"{name} is unlike all others: {one['unlike']}.")
        if one["why"]:
            console.print(f"{name} counts with less than it states: {one['why']}.")
    if grouping is not None and len(contributions) > 1:
        console.print(_reason(grouping))


def _read(
    where: list[str], key: str | None, tls: Tls
) -> tuple[list[Contribution], float, Terms, dict[str, Any] | None]:
    """Fetches all contributions, ridge and terms of the federation, and the groups a server has."""
    if all(Path(one).is_file() for one in where):
        return [load(Path(one), Contribution.from_bytes) for one in where], 1e-3, Terms(), None
    if len(where) > 1:
        raise BadInput("give one exchange, or files that all exist")
    with closing(open_exchange(where[0], "fleet", key=key, tls=tls, password=key)) as exchange:
        contributions, charter = _fetched(exchange), exchange.charter
        return contributions, charter.ridge, charter.terms, exchange.groups()


def _fetched(exchange: Exchange) -> list[Contribution]:
    names = [listing.origin for listing in exchange.listings() if not listing.left]
    at_once = 20
    entries = []
    with bar() as progress:
        for start in progress.track(range(0, len(names), at_once), description="Fetching"):
            entries += exchange.fetch(names[start : start + at_once])
    return [entry for entry in entries if isinstance(entry, Contribution)]


def _groups(fields: dict[str, Any] | None) -> dict[str, list[int]]:
    """The groups of each device's patterns."""
    found = dict[str, list[int]]()
    for model in [] if fields is None else fields["models"]:
        found.setdefault(model["origin"], []).append(model["group"])
    return found


def _borrowed(one: Contribution, contributions: Sequence[Contribution]) -> Borrowing:
    others = [other for other in contributions if other.origin != one.origin]
    return borrowing(one.parts, lambda: Ledger(others).loan, len(others))


def _unlike(contributions: Sequence[Contribution]) -> dict[str, str]:
    """Finds devices that are unlike all others, and the sensors that show it."""
    single = {one.origin: profile_of(one.parts[0]) for one in contributions if len(one.parts) == 1}
    return unlike_all({name: one for name, one in single.items() if one is not None})


def _grid(devices: Sequence[dict[str, Any]]) -> Grid:
    grid = Grid(title=f"{len(devices)} device{'s' * (len(devices) != 1)}")
    grid.add_column("device")
    for heading in ("rows", "patterns", "anomalous above", "group", "× worse"):
        grid.add_column(heading, justify="right")
    for one in devices:
        grid.add_row(
            one["device"],
            rows_counted(one["rows"], one["weight"]),
            str(one["patterns"]),
            "still learning" if one["threshold"] is None else f"{one['threshold']:.4g}",
            ", ".join(map(str, one["groups"])),
            "-" if one["worse"] is None else f"{one['worse']:.3g}",
        )
    return grid


def _reason(found: Grouping) -> str:
    """Why there are as many groups as there are."""
    if found.refused is None:
        return "All patterns are one group."
    sides = (found.refused.first, found.refused.second)
    one, other = (found.labels[side[0]] for side in sides)
    score, loss = found.models[0].evidence.basis.score, found.refused.loss
    alike = "No two patterns are alike. " if found.count == len(found.models) else ""
    return f"{alike}Groups {one} and {other} would be next: the {score} would grow by {loss:.2%}."
