"""Plans on Flower's simulation: many clients on one machine, by ``flwr run``."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Self

import httpx

from elmgrove.errors import BadInput, ElmgroveError
from elmgrove.federation.merged import Merged
from elmgrove.rounds.flower.app import DELIVERY, FAILURE, REPORTS, RESULT
from elmgrove.rounds.plan import Plan
from elmgrove.rounds.report import Delivery, RoundReport

#: Seconds that a process has to end by itself.
_GRACE = 10.0
_PAUSE = 0.1


class FlowerProcesses:
    """Runs Flower's commands in a folder, each with a log, and ends all processes they started.

    Flower's processes start others (one for an app, and Ray's) that do not end with them. All work
    in this folder, by which they are found if the system has a /proc, whatever their parent is.
    They are also ended when this process gets SIGINT or SIGTERM, but not when it is killed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._home = self.folder / "flwr"
        self._home.mkdir()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._before: dict[int, object] = {}
        self._environment = {
            **os.environ,
            "FLWR_HOME": str(self._home),
            # Flower would fetch what an app depends on; all of it is installed already.
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_TELEMETRY_ENABLED": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(self.folder),
            "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]),
        }

    def connect(self, address: str, certificate: Path | None = None) -> None:
        """Makes ``flwr run`` use the SuperLink at this address."""
        trust = "insecure = true" if certificate is None else f'root-certificates = "{certificate}"'
        text = (
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{address}"\n{trust}\n'
        )
        (self._home / "config.toml").write_text(text, encoding="utf-8")

    def start(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Starts a command, whose output goes to NAME.log."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A Ctrl-C is for this process, which then ends the others in order.
                start_new_session=True,
            )
        self._running[name] = process
        return process

    def wait(self, what: str, done: Callable[[], bool], seconds: float) -> None:
        """Waits until ``done``; ``ElmgroveError`` if a command fails or the time is over."""
        until = time.monotonic() + seconds
        while not done():
            for name, process in self._running.items():
                if process.poll() not in (None, 0):
                    raise ElmgroveError(f"{name} ended with {process.poll()}: {self.log(name)}")
            if time.monotonic() > until:
                raise ElmgroveError(f"waited {seconds:g} s, but this did not happen: {what}")
            time.sleep(_PAUSE)

    def log(self, name: str) -> str:
        """Gives the end of a command's output."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def kill(self, name: str) -> None:
        """Kills a command and the processes of its session, as a power cut would."""
        process = self._running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, _leave)
        return self

    def __exit__(self, *_: object) -> None:
        # Nothing may interrupt the end.
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)
        try:
            self._end()
        finally:
            for number, before in self._before.items():
                signal.signal(number, before)  # type: ignore[arg-type]  # it is what was there

    def _end(self) -> None:
        for process in reversed(self._running.values()):
            process.terminate()
        until = time.monotonic() + _GRACE
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):  # it is killed next
                process.wait(max(until - time.monotonic(), 0.0))
            with contextlib.suppress(ProcessLookupError):  # it has ended, as it should
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        until = time.monotonic() + _GRACE
        while (left := self.left()) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_PAUSE)

    def left(self) -> list[int]:
        """Gives the processes of this folder that still run."""
        return [pid for pid in working_in(self.folder) if pid != os.getpid()]


def working_in(folder: Path) -> list[int]:
    """Gives the processes whose Flower home or working folder is in this one; none without /proc.

    For some only one of the two is known: Flower's app processes change their folder, and Ray's
    overwrite their environment with a name.
    """
    home, found = f"FLWR_HOME={folder.resolve()}/".encode(), list[int]()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            inside = (process / "cwd").readlink().is_relative_to(folder.resolve())
            settings = (process / "environ").read_bytes().split(b"\0")
            if inside or any(setting.startswith(home) for setting in settings):
                found.append(int(process.name))
    return found


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


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
