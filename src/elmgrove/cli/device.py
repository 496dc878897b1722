"""``elmgrove device``: runs the agent, and leaves a federation."""

import inspect
import logging
import signal
import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from elmgrove.cli.logs import JSON, write_json_lines
from elmgrove.cli.options import Ca, Certificate, SavedState, given_by_user, mqtt_password, notes
from elmgrove.device.agent import Agent
from elmgrove.device.settings import PREFIX, Settings, group_of, help_of, read_settings, type_of
from elmgrove.errors import BadInput
from elmgrove.exchange.base import Tls
from elmgrove.exchange.session import Session, keyfile, open_exchange
from elmgrove.federation.member import Member
from elmgrove.reading.formats import STANDARD_INPUT
from elmgrove.storage.disk import load, locked, save

log = logging.getLogger("elmgrove.device")
# The settings that most agents need: ``device run --help`` shows them alone.
_USUAL = (
    *("name", "state", "source", "follow", "exchange", "token"),
    *("verdicts", "only", "webhook", "command", "mqtt", "watch_now"),
)

device = typer.Typer(
    name="device",
    help="Run the agent: rows in, verdicts and alarms out.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def run(context: typer.Context, config: Path | None, **given: Any) -> None:
    """Run the agent: score, decide and learn row by row, and sync with others.

    An option goes before an environment variable (ELMGROVE_DEVICE_NAME for --name),
    and that before the TOML file (name = ...). On SIGTERM and Ctrl-C the agent saves and ends.

    Example: [bold]elmgrove device run --config device.toml[/]
    """
    chosen = {name: given[name] for name in given if given_by_user(context, name)}
    settings = read_settings(config, chosen)
    if settings.source == STANDARD_INPUT and "source" not in settings.given and sys.stdin.isatty():
        raise BadInput(
            "no source of rows is given: --source names a file, a folder or a broker's topic "
            "(mqtt://host/topic); rows typed here are --source -"
        )
    if settings.log_format == JSON:
        write_json_lines(logging.INFO)
    else:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    for name in ("token", "mqtt_password"):
        if _is_in_process_list(context, name):
            log.warning(
                "--%s can be read in the list of processes: use %s%s instead",
                name.replace("_", "-"),
                variable_of(name),
                " or --token @FILE" if name == "token" else "",
            )
    agent = Agent(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    try:
        agent.run()
    except BrokenPipeError as error:
        notes.print(str(error))


@device.command()
def leave(
    exchange: Annotated[
        str, typer.Argument(help="The server's URL with the federation, broker's, or folder.")
    ],
    state: SavedState,
    ca: Ca = None,
    certificate: Certificate = None,
) -> None:
    """Take this device's part out of the others' next models; running it again joins again.

    Example: [bold]elmgrove device leave http://127.0.0.1:8470/fans --state fan-2.elm[/]
    """
    with locked(state):
        member = load(state, Member.from_bytes)
        tls = Tls(ca, certificate)
        opened = open_exchange(
            exchange, member.name, keyfile=keyfile(state), tls=tls, password=mqtt_password()
        )
        with Session(member, opened, save=lambda member: save(state, member)) as session:
            session.leave()
    notes.print(f"{member.name} left; from their next sync on the others no longer use its rows.")


def variable_of(setting: str) -> str:
    return PREFIX + setting.upper()


def _is_in_process_list(context: typer.Context, name: str) -> bool:
    stated = str(context.params.get(name, ""))
    return given_by_user(context, name) == "COMMANDLINE" and not stated.startswith("@")


def _option(one: Field[Any]) -> inspect.Parameter:
    flag = f"--{one.name.replace('_', '-')}"
    if type_of(one.name) is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    default = getattr(Settings(), one.name)
    option = typer.Option(
        flag,
        help=help_of(one.name),
        envvar=variable_of(one.name),
        show_envvar=False,
        rich_help_panel=None if one.name in _USUAL else group_of(one.name),
        hidden=one.name not in _USUAL,
    )
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[type_of(one.name), option],
    )


def _help_all(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        for parameter in context.command.params:
            setattr(parameter, "hidden", False)  # noqa: B010 (arguments of click have none)
        typer.echo(context.get_help())
        raise typer.Exit


def _with_settings() -> Any:
    """``run`` with an option for each setting, as the table in ``Settings`` has them."""
    kind = inspect.Parameter.KEYWORD_ONLY
    config = typer.Option(help="TOML file with settings.", exists=True, dir_okay=False)
    every = typer.Option(
        "--help-all", callback=_help_all, is_eager=True, help="Show all options, and exit."
    )
    parameters = [
        inspect.Parameter("context", kind, annotation=typer.Context),
        inspect.Parameter("config", kind, default=None, annotation=Annotated[Path | None, config]),
        inspect.Parameter("help_all", kind, default=False, annotation=Annotated[bool, every]),
        *map(_option, fields(Settings)),
    ]

    def command(help_all: bool, **given: Any) -> None:
        run(**given)

    command.__doc__ = run.__doc__
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


device.command("run")(_with_settings())
