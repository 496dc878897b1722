"""``elmgrove rounds``: federations in rounds on a server, made, shown and taken part in."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from elmgrove.cli.fleet_rows import FleetFiles, FleetRows, Pairs
from elmgrove.cli.options import Ca, Certificate, PrivateKey, notes
from elmgrove.cli.reading_options import SkipBad, with_layout
from elmgrove.cli.round_options import (
    Activation,
    Bits,
    Distance,
    Fraction,
    Groups,
    PredictOption,
    RoundsOption,
    RuleOption,
    Seed,
    TargetOption,
    TestFile,
    TestShare,
    Units,
    Weights,
)
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
    rule: RuleOption = RuleName.e2lm,
    number: RoundsOption = 1,
    fraction: Fraction = 1.0,
    deadline: Annotated[
        float,
        typer.Option(help="Seconds that a round lasts at most; who is late is left out.", min=0.1),
    ] = 3600.0,
    seed: Seed = 0,
    bits: Bits = 64,
    groups: Groups = None,
    distance: Distance = EVIDENCE,
    ridge: Annotated[float, typer.Option(help="Regularization of all but fedavg.", min=0.0)] = 1e-3,
    units: Units = None,
    activation: Activation = None,
    weights: Weights = "uniform",
    target: TargetOption = None,
    predict: PredictOption = None,
    test: TestFile = None,
    test_share: TestShare = None,
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
