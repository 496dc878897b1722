"""What a whole fleet contributed: from a server, a broker, a folder or files."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from elmgrove.cli.options import bar
from elmgrove.errors import BadInput
from elmgrove.exchange import Exchange, Tls, open_exchange
from elmgrove.federation import Contribution, Terms
from elmgrove.storage import load

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
