"""``elmgrove rounds show``: where a federation in rounds stands, and what happened in each."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from elmgrove.cli.options import Ca, Certificate, PrivateKey, notes
from elmgrove.cli.rounds_report import Measure, show_reports
from elmgrove.cli.rounds_url import (
    TOKEN_FILE,
    AdminToken,
    AdminTokenFile,
    FederationUrl,
    administrator,
    plan_of,
    result_of,
)
from elmgrove.exchange import Fields, Tls, request
from elmgrove.federation import Merged
from elmgrove.reading import Layout
from elmgrove.rounds import Agenda, RoundReport
from elmgrove.storage import save


def show(
    url: FederationUrl,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="After the last round: the state or model of all clients, to write.",
            dir_okay=False,
        ),
    ] = None,
    admin_token: AdminToken = None,
    admin_token_file: AdminTokenFile = TOKEN_FILE,
    ca: Ca = None,
    certificate: Certificate = None,
    private_key: PrivateKey = None,
) -> None:
    """Show where a federation in rounds stands, and what happened in each round.

    Example: [bold]elmgrove rounds show http://127.0.0.1:8470/fans --output fans.elm[/]
    """
    asking = administrator(url, admin_token, admin_token_file, Tls(ca, certificate, private_key))
    with asking.client() as opened:
        answer = request(opened, "GET", "/rounds")
        shown = answer.json()
        with answer.reading():
            agenda = Agenda.from_fields(shown["agenda"])
            reports = [RoundReport.from_fields(dict(one)) for one in shown.each("reports")]
        if output is not None:
            last = request(opened, "GET", f"/rounds/{agenda.rounds + 1}/request").content
            model = request(opened, "GET", "/rounds/model")
            with model.reading():
                merged = Merged.from_bytes(model.content)
            plan = plan_of(agenda, last, agenda.name)
            save(output, result_of(agenda, plan, merged, Layout()))
    out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    out.print(_stands(agenda, shown))
    if reports:
        tested = any(report.evaluation is not None for report in reports)
        show_reports(reports, Measure(agenda.target) if tested else None, {})
    if output is not None:
        notes.print(f"Saved {output}.")


def _stands(agenda: Agenda, shown: Fields) -> str:
    number, joined = shown.whole("number"), len(shown.texts("joined"))
    what = f"{agenda.name}: rule {agenda.rule}, {agenda.rounds} rounds"
    if number == 0:
        return f"{what}; {joined} of {agenda.clients} clients have joined."
    if number > agenda.rounds:
        return f"{what}, all over; {joined} clients joined."
    asked, replied = len(shown.texts("asked")), len(shown.texts("replied"))
    left = f"{shown.number('left'):.0f} s are left"
    return f"{what}; in round {number} {replied} of {asked} answered, {left}."
