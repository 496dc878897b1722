"""``elmgrove fleet show``: each device of a fleet, and how much it rests on the others."""

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.contributions import AsJson, Key, Where, contributions_of
from elmgrove.cli.options import Ca, Certificate, PrivateKey
from elmgrove.cli.terms import counted
from elmgrove.errors import BadInput
from elmgrove.exchange import Tls
from elmgrove.federation import (
    Borrowing,
    Contribution,
    Influence,
    Ledger,
    borrowing,
    influence,
    profile_of,
    unlike_all,
)


def show(
    where: Where,
    key: Key = None,
    ca: Ca = None,
    certificate: Certificate = None,
    private_key: PrivateKey = None,
    as_json: AsJson = False,
) -> None:
    """Show each device: what it learned, where strange begins, and how much it borrows.

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
    for name in ("rows", "patterns", "strange above"):
        grid.add_column(name, justify="right")
    grid.add_column("borrows")
    for one, borrowed in shown:
        threshold = "still learning" if one.threshold is None else f"{one.threshold:.4g}"
        rows, patterns = counted(one.evidence.count, weights.weight(one.origin)), len(one.parts)
        grid.add_row(one.origin, rows, str(patterns), threshold, str(borrowed))
    return grid
