"""``elmgrove rounds take-part``: a device's side of a federation in rounds on a server."""

import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from elmgrove.cli.fleet_rows import FleetFiles
from elmgrove.cli.options import Ca, Certificate, PrivateKey, notes
from elmgrove.cli.reading_options import SkipBad, with_layout
from elmgrove.cli.rounds_url import FederationUrl, plan_of, result_of
from elmgrove.cli.target_choice import read_pairs
from elmgrove.device import Ending, Participant
from elmgrove.errors import BadInput
from elmgrove.exchange import HttpRounds, Tls, Unauthorized, keyfile
from elmgrove.reading import Layout
from elmgrove.rounds import Agenda, Client, DeviceClient, Plan
from elmgrove.storage import save


@with_layout
def take_part(
    url: FederationUrl,
    name: Annotated[str, typer.Option(help="This device's name.")],
    data: Annotated[Path, typer.Option(help="This device's rows.", exists=True, dir_okay=False)],
    token: Annotated[
        str | None,
        typer.Option(help="The token to join with, the first time.", envvar="ELMGROVE_TOKEN"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The state or model to write; key and last answer are kept beside it "
            "\\[default: NAME.elm].",
            dir_okay=False,
        ),
    ] = None,
    skip_bad: SkipBad = False,
    ca: Ca = None,
    certificate: Certificate = None,
    private_key: PrivateKey = None,
    *,
    layout: Layout,
) -> None:
    """Take part in a federation in rounds until they are over, and save what came of it.

    By round r of R the first r/R of the rows are learned. The command waits until it is drawn, and
    for a server that is away; ended and started again, it goes on. What it saves is a state for
    elmgrove score, or a model for elmgrove predict.

    Example: [bold]elmgrove rounds take-part http://127.0.0.1:8470/fans --name fan-1
    --data fan-1.csv --token elm-join-…[/]
    """
    path = output or Path(f"{name}.elm")
    key, kept = keyfile(path), path.with_name(f"{path.stem}.answer")
    has_key = key is not None and key.exists()
    _require_place(path, kept, has_key=has_key)
    part = _Part(name, data, path, layout, skip_bad)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    tls = Tls(ca, certificate, private_key)
    with HttpRounds(url, name, token=token, keyfile=key, tls=tls) as server:
        client = Participant(server, part.client, kept=kept, tell=notes.print, stop=stop)
        try:
            outcome = client.run()
        except Unauthorized as error:
            if not has_key:
                raise
            raise Unauthorized(
                f"{error}. The key in {key} was used: for another federation choose another "
                "--output, beside which a key of its own is kept"
            ) from error
    if outcome is None:
        notes.print("Stopped. Started again, it goes on.")
        return
    part.save(outcome)
    rows = f"{outcome.loss.rows:,} rows"
    Console(highlight=False, soft_wrap=True, markup=False, emoji=False).print(
        f"{outcome.merged.devices} clients know together what {name} got; its own {rows} are "
        f"explained with a mean squared error of {outcome.loss.mean:.4g}."
    )
    notes.print(f"Saved {path}.")


def _require_place(path: Path, kept: Path, *, has_key: bool) -> None:
    """Raises ``BadInput`` where nothing can be kept, or what is kept is not of this federation.

    A key is written before any answer, and a name joins once: an answer without a key is of a
    federation that this client can't be in any more. Its rows would count as learned in the next.
    """
    if not path.parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}; make it, or choose --output")
    if kept.exists() and not has_key:
        raise BadInput(
            f"{kept} is of a federation whose key is gone. Delete it to take part in this one "
            "from the first row on, or choose another --output"
        )


@dataclass
class _Part:
    """This device's part: its rows, read when the server has said in which columns."""

    name: str
    data: Path
    path: Path
    layout: Layout
    skip_bad: bool
    _made: tuple[Agenda, Plan, Client] | None = field(default=None, init=False)

    def client(self, agenda: Agenda, request: bytes, memory: bytes) -> Client:
        """Makes the client of an agenda; one that is a detector has its state in the file."""
        target = agenda.target
        files = FleetFiles(self.layout, None if target is None else target.column, self.skip_bad)
        basis = agenda.round_rule(request).basis
        X, T = read_pairs(self.data, basis, target, files)
        plan = plan_of(agenda, request, self.name, X, T if target is None else target.scaled(T))
        made = plan.client(self.name, memory, state=self.path)
        self._made = (agenda, plan, made)
        return made

    def save(self, outcome: Ending) -> None:
        """Saves what the client ended with; a detector's state is in its file already."""
        assert self._made is not None, "an outcome comes of a client"
        agenda, plan, client = self._made
        if not isinstance(client, DeviceClient):
            save(self.path, result_of(agenda, plan, outcome.merged, self.layout))
