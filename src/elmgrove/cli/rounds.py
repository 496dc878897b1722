"""``elmgrove rounds``: federations in rounds on a server, made, shown and taken part in."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from elmgrove.algebra import ACTIVATIONS, DISTRIBUTIONS
from elmgrove.cli.fleet_rows import FleetFiles, FleetRows, Pairs
from elmgrove.cli.options import Ca, Certificate, PrivateKey, notes
from elmgrove.cli.reading_options import SkipBad, with_layout
from elmgrove.cli.rounds_show import show
from elmgrove.cli.rounds_url import (
    TOKEN_FILE,
    AdminToken,
    AdminTokenFile,
    FederationUrl,
    administrator,
    split_url,
)
from elmgrove.cli.take_part import take_part
from elmgrove.cli.target_choice import (
    SHARE,
    Predict,
    choose_target,
    chosen_share,
    coded,
    fitted,
    hold_out,
    read_test,
)
from elmgrove.exchange import Tls, request
from elmgrove.federation import EVIDENCE
from elmgrove.reading import Layout
from elmgrove.rounds import Agenda, Exam, Opening, Plan, RuleName, Target

rounds = typer.Typer(
    name="rounds",
    help="Federations in rounds on a server: make one, take part in it, see what happened.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@rounds.command()
@with_layout
def create(
    url: FederationUrl,
    data: Annotated[
        Path,
        typer.Option(
            help="Rows like the clients', a file or a folder of files: for columns, scaling and "
            "classes, and the first batch of --rule fedavg.",
            exists=True,
        ),
    ],
    clients: Annotated[int, typer.Option(help="Begin when so many clients have joined.", min=1)],
    rule: Annotated[
        RuleName,
        typer.Option(
            help="The sum (E²LM), averages (Fed-ELMS), a sum for each group (MLMG), or the sum "
            "in which all classes count alike."
        ),
    ] = RuleName.e2lm,
    number: Annotated[
        int,
        typer.Option(
            "--rounds", help="Rounds; each brings an equal part of a client's rows.", min=1
        ),
    ] = 1,
    fraction: Annotated[
        float, typer.Option(help="The share of clients drawn each round.", min=0.0, max=1.0)
    ] = 1.0,
    deadline: Annotated[
        float,
        typer.Option(help="Seconds that a round lasts at most; who is late is left out.", min=0.1),
    ] = 3600.0,
    seed: Annotated[int, typer.Option(help="Seed of layer, test and draw.", min=0)] = 0,
    bits: Annotated[
        int,
        typer.Option(help="Bits of a number in the messages of --rule fedavg: 64, or 8 (compact)."),
    ] = 64,
    groups: Annotated[
        int | None,
        typer.Option(help="Groups of --rule groups \\[default: what it finds].", min=1),
    ] = None,
    distance: Annotated[
        str, typer.Option(help="How --rule groups compares patterns: evidence or parameters.")
    ] = EVIDENCE,
    ridge: Annotated[float, typer.Option(help="Regularization of all but fedavg.", min=0.0)] = 1e-3,
    units: Annotated[int | None, typer.Option(help="Hidden units.", min=1)] = None,
    activation: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(ACTIVATIONS)} \\[default: identity; for a target relu]."),
    ] = None,
    weights: Annotated[
        str, typer.Option(help=f"How the layer's weights are drawn: {', '.join(DISTRIBUTIONS)}.")
    ] = "uniform",
    target: Annotated[
        str | None,
        typer.Option(help="The column to predict \\[default: none, detectors]."),
    ] = None,
    predict: Annotated[
        Predict | None, typer.Option(help="What the target is predicted as.")
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            help="Rows on which the server tests the model after every round.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(
            help=f"Keep this share of --data for the test \\[default: {SHARE:g} for a target "
            "without --test].",
            min=0.0,
            max=1.0,
        ),
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(help="Names that may join, like 'fan-*' (repeatable) \\[default: any]."),
    ] = None,
    key_days: Annotated[
        float | None,
        typer.Option(help="Days after which a client's key expires \\[default: never]."),
    ] = None,
    skip_bad: SkipBad = False,
    admin_token: AdminToken = None,
    admin_token_file: AdminTokenFile = TOKEN_FILE,
    ca: Ca = None,
    certificate: Certificate = None,
    private_key: PrivateKey = None,
    *,
    layout: Layout,
) -> None:
    """Make a federation in rounds, and print the token with which clients join it.

    The first request is computed here, of the rows that you have. The server gets it, and the test
    rows, which nobody learns.

    Example: [bold]elmgrove rounds create http://127.0.0.1:8470/fans --data sample.csv --clients 3
    --rounds 5[/]
    """
    server, name = split_url(url)
    files = FleetFiles(layout, target, skip_bad)
    share = chosen_share(target, predict, test, test_share)
    fleet, aim, held = _read(data, files, predict, seed, share)
    activation = activation or ("identity" if target is None else "relu")
    basis = fleet.basis(units, seed, activation=activation, weights=weights)
    if test is not None:
        held = read_test(test, basis, aim, files)
    aim, fleet, exam = fitted(aim, fleet, held)
    agenda = Agenda(
        name,
        rule.value,
        clients,
        rounds=number,
        fraction=fraction,
        seed=seed,
        deadline=deadline,
        groups=groups,
        distance=distance,
        target=aim,
        members=None if member is None else tuple(member),
        key_days=key_days,
    )
    batch = fleet.stacked()
    plan = Plan(
        rule.value,
        basis,
        fleet.rows,
        ridge=ridge,
        batch=batch.X,
        batch_targets=batch.T,
        bits=bits,
        targets=fleet.targets,
        classes=() if aim is None else aim.classes,
    )
    opening = Opening.of(agenda, plan.round_rule(), exam)
    tls = Tls(ca, certificate, private_key)
    with administrator(server, admin_token, admin_token_file, tls).client("/v1/rounds") as opened:
        made = request(opened, "POST", "", content=opening.to_bytes()).json().text("token")
    _note_made(url, agenda, basis.layer.units, exam)
    Console().print(made, soft_wrap=True, highlight=False)


def _read(
    data: Path, files: FleetFiles, predict: Predict | None, seed: int, share: float | None
) -> tuple[FleetRows, Target | None, Pairs | None]:
    """Reads the rows, what is predicted of them, and the share of them that is for the test."""
    fleet, aim = FleetRows.read(data, None if data.is_dir() else 1, seed, files), None
    if files.target is not None:
        aim = choose_target(files.target, fleet.written(), files.layout.decimal, predict)
        fleet = coded(fleet, aim, files)
    if share is None:
        return fleet, aim, None
    fleet, held = hold_out(fleet, share, seed)
    return fleet, aim, held


def _note_made(url: str, agenda: Agenda, units: int, exam: Exam | None) -> None:
    tested = "no test" if exam is None else f"{len(exam.X)} test rows"
    notes.print(
        f"Made {agenda.name}: rule {agenda.rule}, {units} hidden units, {agenda.rounds} rounds, "
        f"{tested}. It begins when {agenda.clients} clients have joined at {url} with this token:"
    )


rounds.command("take-part")(take_part)
rounds.command()(show)
