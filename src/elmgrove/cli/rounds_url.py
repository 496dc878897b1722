"""Where a federation in rounds is, who asks about it, and what its agenda means on a device."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from elmgrove.algebra import Array
from elmgrove.cli.federation import Administrator
from elmgrove.errors import BadInput
from elmgrove.exchange import Tls
from elmgrove.federation import Member, Merged
from elmgrove.reading import Layout
from elmgrove.rounds import Agenda, Plan, Predictor

FederationUrl = Annotated[
    str, typer.Argument(help="The federation's URL: the server's, then /NAME.", metavar="URL")
]
AdminToken = Annotated[
    str | None,
    typer.Option(
        help="The administrator's token \\[default: from the file].", envvar="ELMGROVE_ADMIN_TOKEN"
    ),
]
AdminTokenFile = Annotated[
    Path, typer.Option(help="The file that 'elmgrove serve' keeps that token in.")
]
TOKEN_FILE = Path("elmgrove.admin")


def split_url(url: str) -> tuple[str, str]:
    """Cuts a federation's URL into the server's and the federation's name."""
    server, _, name = url.rstrip("/").rpartition("/")
    if not name or server.rstrip("/") in ("http:", "https:", ""):
        raise BadInput(f"{url!r} has no federation's name at its end, as http://host:8470/fans has")
    return server, name


def administrator(url: str, token: str | None, token_file: Path, tls: Tls) -> Administrator:
    """Gives the administrator who asks about the federations of a server."""
    return Administrator(url, token, token_file, tls)


def plan_of(
    agenda: Agenda, request: bytes, name: str, X: Array | None = None, T: Array | None = None
) -> Plan:
    """Makes the plan that one client of an agenda has: with its rows alone, or with none."""
    task = agenda.round_rule(request).task
    none = np.empty((0, task.basis.columns))
    targets = np.empty((0, task.basis.outputs)) if T is None else T
    return Plan(
        agenda.rule,
        task.basis,
        {name: none if X is None else X},
        rounds=agenda.rounds,
        ridge=task.ridge,
        targets={} if agenda.target is None else {name: targets},
        classes=() if agenda.target is None else agenda.target.classes,
    )


def result_of(agenda: Agenda, plan: Plan, merged: Merged, layout: Layout) -> Member | Predictor:
    """Makes what is saved of what all clients know: a state, or with a target a model."""
    if agenda.target is None:
        return plan.member(merged)
    return plan.predictor(merged, agenda.target, layout.fields)
