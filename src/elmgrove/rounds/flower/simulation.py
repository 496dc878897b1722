"""Plans on Flower's simulation: many clients on one machine, by ``flwr run``."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from elmgrove.errors import BadInput, ElmgroveError
from elmgrove.federation import Merged
from elmgrove.rounds.flower.app import DELIVERY, FAILURE, REPORTS, RESULT
from elmgrove.rounds.flower.processes import FlowerProcesses
from elmgrove.rounds.plan import Plan
from elmgrove.rounds.report import Delivery, RoundReport

#: Seconds in which a SuperLink has to answer.
START = 60.0
#: Seconds that a simulation may take at most.
LONGEST = 24 * 3600.0
#: Ray adds 68: /ray/session_YYYY-MM-DD_HH-MM-SS_FFFFFF_PPPPPPP/sockets/plasma_store.
_LONGEST_PATH = 107 - 68

_PROJECT = """\
[project]
name = "elmgrove-federate"
version = "1.0.0"
dependencies = []
[tool.flwr.app]
publisher = "elmgrove"
[tool.flwr.app.components]
serverapp = "federate:server"
clientapp = "federate:client"
[tool.flwr.app.config]
folder = ""
clients = 1
rounds = 1
fraction = 1.0
seed = 0
timeout = 3600.0
"""
_MODULE = (
    "from elmgrove.rounds.flower.app import client, server\n\n__all__ = ['client', 'server']\n"
)


def simulate(plan: Plan, on_round: Callable[[RoundReport], None]) -> tuple[Merged, Delivery]:
    """Runs a plan on Flower; gives what the clients know together, and what each got.

    A SuperLink is started for it, and ended afterwards with all that it started.
    """
    plan.require_possible()
    with (
        TemporaryDirectory(prefix="elmgrove-") as scratch,
        FlowerProcesses(Path(scratch)) as processes,
    ):
        folder = processes.folder
        require_short(folder)
        plan.save(folder)
        _write_app(folder / "app")
        processes.connect(superlink(processes, "--insecure", "--simulation"))
        run = processes.start("run", _command(folder, plan))
        listener = _Listener(folder / REPORTS, on_round)

        def ended() -> bool:
            listener.listen()
            return run.poll() is not None

        processes.wait("the simulation ended", ended, LONGEST)
        listener.listen()
        if (folder / FAILURE).exists():
            raise BadInput((folder / FAILURE).read_text())
        if not (folder / RESULT).exists():
            raise ElmgroveError(f"Flower's run failed: {processes.log('run')}")
        delivery = Delivery.from_fields(json.loads((folder / DELIVERY).read_text()))
        return Merged.from_bytes((folder / RESULT).read_bytes()), delivery


def require_short(folder: Path) -> None:
    """Raises ``BadInput`` if paths of Ray's sockets would pass the 107 bytes that they may have."""
    if len(os.fsencode(folder)) > _LONGEST_PATH:
        raise BadInput(
            f"{folder} is too long a path for Ray's sockets: set TMPDIR to a short one, like /tmp"
        )


def superlink(processes: FlowerProcesses, *options: str, scheme: str = "http") -> str:
    """Starts a SuperLink on a free port of this machine, and gives its address when it answers."""
    port = free_port()
    command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(port), *options]
    processes.start("superlink", command)
    url = f"{scheme}://127.0.0.1:{port}/health"
    processes.wait("the SuperLink answered", lambda: _answers(url), START)
    return f"127.0.0.1:{port}"


def free_port() -> int:
    """Gives a port of this machine on which no process listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        # The question is only whether it answers; clients check its certificate.
        return httpx.get(url, timeout=5.0, verify=False).is_success
    except httpx.TransportError:
        return False


def _write_app(folder: Path) -> None:
    folder.mkdir()
    (folder / "pyproject.toml").write_text(_PROJECT, encoding="utf-8")
    (folder / "federate.py").write_text(_MODULE, encoding="utf-8")


def _command(folder: Path, plan: Plan) -> list[str]:
    clients = len(plan.rows)
    chosen = (
        f'folder="{folder}" clients={clients} rounds={plan.rounds} '
        f"fraction={float(plan.fraction)} seed={plan.seed}"
    )
    if plan.timeout is not None:
        chosen += f" timeout={float(plan.timeout)}"
    machine = (
        f"num-supernodes={clients} client-resources-num-cpus=1 "
        f"init-args-num-cpus={os.cpu_count() or 1}"
    )
    options = ["--run-config", chosen, "--federation-config", machine, "--stream"]
    return ["flwr", "run", str(folder / "app"), *options]


class _Listener:
    """Passes on the reports that the server app writes."""

    def __init__(self, path: Path, on_round: Callable[[RoundReport], None]) -> None:
        self._path = path
        self._on_round = on_round
        self._told = 0

    def listen(self) -> None:
        """Passes on the new reports; a line that is not whole yet has to wait."""
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        for line in text.split("\n")[self._told : -1]:
            self._told += 1
            self._on_round(RoundReport.from_fields(json.loads(line)))
