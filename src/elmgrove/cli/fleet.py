"""``elmgrove fleet``: all devices of an exchange side by side."""

import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from elmgrove.cli.federation import rows_counted
from elmgrove.cli.options import AsJson, Ca, Certificate, option, print_json, print_result, right
from elmgrove.errors import BadInput
from elmgrove.exchange.base import Tls
from elmgrove.exchange.session import open_exchange
from elmgrove.federation.comparison import profile_of, unlike_all
from elmgrove.federation.contribution import Contribution, Ledger
from elmgrove.federation.groups import Grouping, group
from elmgrove.federation.member import Borrowing, borrowing
from elmgrove.federation.policy import Terms
from elmgrove.federation.selection import Quality, judge
from elmgrove.federation.sums import weight_in, why_less
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
        option("The administrator's token; at a broker, the password.", envvar="ELMGROVE_KEY"),
    ] = None,
    ca: Ca = None,
    certificate: Certificate = None,
    as_json: AsJson = False,
) -> None:
    """Compare all devices of a federation.

    "× worse" says how many times worse a device's model explains the others' rows than their own
    models do. Devices in one group can share a model.

    Example: [bold]elmgrove fleet http://127.0.0.1:8470/fans --key $KEY[/]
    """
    tls = Tls(ca, certificate)
    contributions, ridge, terms = _read(where, key, tls)
    if not contributions:
        raise BadInput(f"{', '.join(where)}: no device contributed anything")
    grouping, groups = group(contributions, ridge), dict[str, list[int]]()
    for model, label in zip(grouping.models, grouping.labels, strict=True):
        groups.setdefault(model.origin, []).append(label)
    table, unlike = judge(contributions, ridge), _unlike(contributions)
    worse, odd = table.strangeness.tolist(), Quality().choose_by("", table).left_out
    devices: list[dict[str, Any]] = [
        {
            "device": one.origin,
            "rows": one.evidence.count,
            "weight": weight_in(terms, one.evidence),
            "why": why_less(terms, one.evidence) or None,
            "patterns": len(one.parts),
            "threshold": one.threshold,
            "groups": groups.get(one.origin, []),
            "worse": factor if math.isfinite(factor) else None,
            "left_out": odd.get(one.origin),
            "unlike": unlike.get(one.origin),
            "borrows": _borrowed(one, contributions),
        }
        for one, factor in zip(contributions, worse, strict=True)
    ]
    if as_json:
        print_json([{**one, "borrows": vars(one["borrows"])} for one in devices])
        return
    print_result(_grid(devices))
    for one in devices:
        name, borrowed = one["device"], one["borrows"]
        if borrowed.rows:
            print_result(f"{name} borrows {borrowed}.")
        if one["left_out"]:
            print_result(f'{name} is left out where merge = "quality": {one["left_out"]}.')
        if one["unlike"]:
            print_result(f"{name} is unlike all others: {one['unlike']}.")
        if one["why"]:
            print_result(f"{name} counts with less than it states: {one['why']}.")
    if len(contributions) > 1:
        print_result(_reason(grouping))


def _read(where: list[str], key: str | None, tls: Tls) -> tuple[list[Contribution], float, Terms]:
    if all(Path(one).is_file() for one in where):
        return [load(Path(one), Contribution.from_bytes) for one in where], 1e-3, Terms()
    if len(where) > 1:
        raise BadInput("give one exchange, or files that all exist")
    with closing(open_exchange(where[0], "fleet", key=key, tls=tls, password=key)) as exchange:
        entries, charter = exchange.entries(), exchange.charter
    held = [entry for entry in entries if isinstance(entry, Contribution)]
    return held, charter.ridge, charter.terms


def _borrowed(one: Contribution, contributions: Sequence[Contribution]) -> Borrowing:
    others = [other for other in contributions if other.origin != one.origin]
    return borrowing(one.parts, lambda: Ledger(others).loan, len(others))


def _unlike(contributions: Sequence[Contribution]) -> dict[str, str]:
    single = {one.origin: profile_of(one.parts[0]) for one in contributions if len(one.parts) == 1}
    return unlike_all({name: one for name, one in single.items() if one is not None})


def _grid(devices: Sequence[dict[str, Any]]) -> Grid:
    numbers = right("rows", "patterns", "anomalous above", "group", "× worse")
    grid = Grid("device", *numbers, title=f"{len(devices)} device{'s' * (len(devices) != 1)}")
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
    if found.refused is None:
        return "All patterns are one group."
    sides = (found.refused.first, found.refused.second)
    one, other = (found.labels[side[0]] for side in sides)
    score, loss = found.models[0].evidence.basis.score, found.refused.loss
    alike = "No two patterns are alike. " if found.count == len(found.models) else ""
    return f"{alike}Groups {one} and {other} would be next: the {score} would grow by {loss:.2%}."
