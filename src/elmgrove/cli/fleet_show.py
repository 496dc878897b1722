"""``elmgrove fleet show``: each device of a fleet, and how much it rests on the others."""

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.contributions import AsJson, Key, Where, contributions_of
from elmgrove.cli.options import Ca, Certificate, PrivateKey
from elmgrove.errors import BadInput
from elmgrove.exchange import Tls
from elmgrove.federation import Borrowing, Contribution, Ledger, borrowing


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
    wide its normal is by that as it would be alone. A device without a threshold still learns.

    Example: [bold]elmgrove fleet show http://127.0.0.1:8470/fans --key $KEY[/]
    """
    contributions, _ = contributions_of(where, key, Tls(ca, certificate, private_key))
    if not contributions:
        raise BadInput(f"{', '.join(where)}: no device contributed anything")
    shown = [(one, _borrowed(one, contributions)) for one in contributions]
    if as_json:
        Console().print_json(json.dumps([_fields(*one) for one in shown]))
    else:
        Console(markup=False, emoji=False).print(_grid(shown))


def _borrowed(one: Contribution, contributions: Sequence[Contribution]) -> Borrowing:
    """What a device borrows of all others, if its policy lets it."""
    others = [other for other in contributions if other.origin != one.origin]
    return borrowing(one.parts, lambda: Ledger(others).loan, len(others))


def _fields(one: Contribution, borrowed: Borrowing) -> dict[str, Any]:
    return {
        "device": one.origin,
        "rows": one.evidence.count,
        "patterns": len(one.parts),
        "threshold": one.threshold,
        "borrows": {
            "rows": borrowed.rows,
            "lenders": borrowed.lenders,
            "width": borrowed.width,
        },
    }


def _grid(shown: Sequence[tuple[Contribution, Borrowing]]) -> Grid:
    grid = Grid(title=f"{len(shown)} device{'s' * (len(shown) != 1)}")
    grid.add_column("device")
    for name in ("rows", "patterns", "strange above"):
        grid.add_column(name, justify="right")
    grid.add_column("borrows")
    for one, borrowed in shown:
        threshold = "still learning" if one.threshold is None else f"{one.threshold:.4g}"
        rows, patterns = f"{one.evidence.count:,.0f}", str(len(one.parts))
        grid.add_row(one.origin, rows, patterns, threshold, str(borrowed))
    return grid
