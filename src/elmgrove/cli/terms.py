"""A federation's terms as options of ``federation create``, and in words for people."""

from typing import Annotated

import typer

from elmgrove.cli.options import require_not_given
from elmgrove.errors import BadInput
from elmgrove.federation import CONTRIBUTIONS, SUMS, Terms

Shows = Annotated[
    str,
    typer.Option(
        help=f"What a device's key reads of others: {SUMS}, or {CONTRIBUTIONS}, which rules that "
        "choose devices need."
    ),
]
Least = Annotated[int, typer.Option(help="A sum is told from so many devices on.", min=1)]
MostRows = Annotated[
    str, typer.Option(help="A device counts with at most so many rows in sums, or 'none'.")
]
MostTimes = Annotated[
    str,
    typer.Option(
        help="...with at most so many times the rows of the one in the middle, or 'none'."
    ),
]
MostEnergy = Annotated[
    str,
    typer.Option(
        help="...and hardly where the mean square of a scaled column is above this, or 'none'."
    ),
]
_NONE = "none"


def require_kept(context: typer.Context, place: str) -> None:
    """Refuses terms that nobody can keep in a shared folder, or at a broker."""
    require_not_given(
        context,
        ("shows", "least"),
        f"every device that reads {place} sees what each contributed; only a server can show less",
    )
    require_not_given(context, ("key_days",), f"devices need no key for {place}, so none expires")


def terms_of(shows: str, least: int, bounds: tuple[str, str, str], key_days: float | None) -> Terms:
    """Makes terms of what the options say; ``bounds`` are of rows, times and energy."""
    rows, times, energy = bounds
    return Terms(
        shows,
        least,
        _bound("most-rows", rows),
        _bound("most-times", times),
        _bound("most-energy", energy),
        key_days=key_days,
    )


def _bound(name: str, text: str) -> float | None:
    """Reads a bound of what one device can weigh; None for none of it."""
    try:
        return None if text == _NONE else float(text) or None
    except ValueError:
        raise BadInput(f"--{name}: a number, or {_NONE!r}, not {text!r:.40}") from None


def said(terms: Terms) -> str:
    """Says what a key reads and what a device weighs, for people."""
    devices = f"{terms.least} device{'s' * (terms.least != 1)}"
    reads = SUMS if terms.shows == SUMS else f"{terms.shows}, and {SUMS}"
    bounds = [
        f"{terms.most_rows:,.0f} rows" if terms.most_rows is not None else "",
        f"{terms.most_times:g} times the rows of the one in the middle"
        if terms.most_times is not None
        else "",
        f"an energy of {terms.most_energy:,.10g}" if terms.most_energy is not None else "",
    ]
    weighs = ", ".join(filter(None, bounds))
    return (
        f"a key reads {reads} of {devices} or more; "
        f"a device counts with {'at most ' + weighs if weighs else 'all it states'}"
    )


def counted(rows: float, weight: float) -> str:
    """Says how many rows a device counts as, for people."""
    return f"{rows:,.0f}" if weight == 1.0 else f"{weight * rows:,.0f} of {rows:,.0f}"
