"""Flower's commands as processes of one folder, all of which are ended."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Self

import httpx


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
        """Waits until ``done``; ``RuntimeError`` if a command fails or the time is over."""
        until = time.monotonic() + seconds
        while not done():
            for name, process in self._running.items():
                if process.poll() not in (None, 0):
                    raise RuntimeError(f"{name} ended with {process.poll()}: {self.log(name)}")
            if time.monotonic() > until:
                raise RuntimeError(f"waited {seconds:g} s, but this did not happen: {what}")
            time.sleep(0.1)

    def log(self, name: str) -> str:
        """The end of a command's output."""
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
        until = time.monotonic() + 10.0
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):  # it is killed next
                process.wait(max(until - time.monotonic(), 0.0))
            with contextlib.suppress(ProcessLookupError):  # it has ended, as it should
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        until = time.monotonic() + 10.0
        while (left := self.left()) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def left(self) -> list[int]:
        """The processes of this folder that still run."""
        return [pid for pid in working_in(self.folder) if pid != os.getpid()]


def working_in(folder: Path) -> list[int]:
    """The processes whose Flower home or working folder is in this one; none without /proc.

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


def superlink(processes: FlowerProcesses, *options: str, scheme: str = "http") -> str:
    """Starts a SuperLink on a free port of this machine, and gives its address when it answers."""
    port = free_port()
    command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(port), *options]
    processes.start("superlink", command)
    url = f"{scheme}://127.0.0.1:{port}/health"
    processes.wait("the SuperLink answered", lambda: _answers(url), 60.0)
    return f"127.0.0.1:{port}"


def free_port() -> int:
    """A port of this machine on which no process listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        # The question is only whether it answers; clients check its certificate.
        return httpx.get(url, timeout=5.0, verify=False).is_success
    except httpx.TransportError:
        return False
