"""What a process uses, from Linux's /proc."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
# Seconds in which a process has to end when it is told to.
_PATIENCE = 30.0


class Running:
    """A running ``elmgrove`` command."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def require_alive(self) -> None:
        """Raises ``RuntimeError``, with the end of the log, if the command ended."""
        if self._process.poll() is not None:
            tail = self._log.read_text(encoding="utf-8")[-2000:]
            raise RuntimeError(f"{self._process.args!r} ended by itself:\n{tail}")

    @property
    def cpu_seconds(self) -> float:
        """Time on a processor so far, in the program and in the system."""
        # The name in parentheses may hold anything; utime and stime are the 14th and 15th field.
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    @property
    def resident(self) -> float:
        """Memory in use, in MB."""
        return self._memory("VmRSS")

    @property
    def peak(self) -> float:
        """The most memory in use so far, in MB."""
        return self._memory("VmHWM")

    def _memory(self, name: str) -> float:
        lines = dict(line.split(":", 1) for line in self._proc("status").splitlines())
        return int(lines[name].split()[0]) * 1024 / 1e6

    def _proc(self, name: str) -> str:
        self.require_alive()
        return Path(f"/proc/{self._process.pid}/{name}").read_text(encoding="utf-8")


@contextmanager
def started(arguments: Sequence[str], log: Path) -> Iterator[Running]:
    """Runs ``elmgrove`` with these arguments, and ends it by SIGTERM; it writes to ``log``."""
    command = [sys.executable, "-m", "elmgrove", *arguments]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Ctrl-C is for the benchmark alone, which then ends this.
            start_new_session=True,
        )
    try:
        yield Running(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
