"""A federation's terms as options of ``federation create``, and in words for people."""

from pathlib import Path
from typing import Annotated

import typer

from elmgrove.cli.options import require_not_given
from elmgrove.federation import CONTRIBUTIONS, SUMS, Terms

Shows = Annotated[
    str,
    typer.Option(
        help=f"What a device's key reads of others: {SUMS}, or {CONTRIBUTIONS}, which rules that "
        "choose devices need."
    ),
]
Least = Annotated[int, typer.Option(help="A sum is told from so many devices on.", min=1)]

# What a server alone can keep a device from.
_SERVER_OPTIONS = ("shows", "least")


def require_kept(context: typer.Context, folder: Path) -> None:
    """Refuses terms that nobody can keep in a shared folder."""
    require_not_given(
        context,
        _SERVER_OPTIONS,
        f"every device that reads {folder} sees what each contributed; only a server can show less",
    )


def said(terms: Terms) -> str:
    """Says what a key reads, for people."""
    devices = f"{terms.least} device{'s' * (terms.least != 1)}"
    return f"a key reads {terms.shows}, sums of {devices} or more"
