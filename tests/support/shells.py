"""A shell for what pages show, in a folder and with ports of its own."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmgrove.cli.app import main
from support import fork_client
from support.agents import asked, socket_of
from support.fork_server import the_fork_server
from support.pages import Step
from support.ports import free_port
from support.serving import answers, wait_until

#: The servers and the agents of the pages listen here.
PORTS = ("8470", "8471", "9190")
PATIENCE = 120.0
# What only a shell understands, or what must be a process of its own.
_FOR_A_SHELL = re.compile(r"[|<>&$;*]|^elmgrove (device run|serve)|^(?!elmgrove )")


def _program(folder: Path) -> Path:
    """A folder with a program ``elmgrove`` that begins without loading all modules."""
    made = folder / ".bin"
    made.mkdir()
    program = made / "elmgrove"
    program.write_text(f"#!{sys.executable} -IS\n{Path(fork_client.__file__).read_text()}")
    program.chmod(0o755)
    return made


class Shell:
    """Runs commands in a folder of their own, with a free port for that of the pages."""

    def __init__(self, folder: Path) -> None:
        self._ports = {port: str(free_port()) for port in PORTS}
        path = os.pathsep.join(
            [str(_program(folder)), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        server = f"http://127.0.0.1:{self._ports[PORTS[0]]}"
        self._settings = {"PATH": path, "COLUMNS": "80", "ELMGROVE_SERVER": server}
        # Shells, and what they start, ask the fork server for each command.
        self._forks = the_fork_server().fileno()
        self._settings[fork_client.SOCKET] = str(self._forks)
        self._folder = folder
        self._background: list[subprocess.Popen[bytes]] = []

    def run(self, command: str) -> str:
        """What the command printed, with the page's ports for the real ones."""
        # All at once: a real port may hold the digits of another one that is shown.
        command = re.sub("|".join(PORTS), lambda found: self._ports[found[0]], command)
        if command.startswith("export "):
            # Each command has a shell of its own, which must know what was exported before.
            told = self._process(f"{command}\nenv -0").rstrip("\0").split("\0")
            self._settings |= dict(one.split("=", 1) for one in told)
            return ""
        if command == "kill %1":
            self.close()
            return ""
        if command.endswith("&"):
            return self._start(f"exec {command[:-1]}")
        if _FOR_A_SHELL.search(command):
            printed = self._process(command)
        else:
            printed = self._here(shlex.split(command))
        # At the begin of a pipe nobody would notice.
        assert "Usage: elmgrove" not in printed, printed
        return self._as_shown(printed)

    def take(self, step: Step) -> str:
        """What a step of a page printed."""
        return self.program(step.source) if step.program else self.run(step.source)

    def program(self, text: str) -> str:
        """What a program in Python printed."""
        with self._here_and_now() as printed:
            exec(compile(text, "page", "exec"), {"__name__": "__main__"})
        return printed.getvalue()

    def close(self) -> None:
        """Ends what runs in the background."""
        while self._background:
            process = self._background.pop()
            process.terminate()
            process.wait(PATIENCE)

    def _as_shown(self, printed: str) -> str:
        shown = {f":{real}": f":{port}" for port, real in self._ports.items()}
        # With the colon, since other numbers may have the same digits.
        return re.sub("|".join(shown), lambda found: shown[found[0]], printed)

    def _process(self, text: str) -> str:
        done = subprocess.run(
            text,
            shell=True,
            cwd=self._folder,
            env={**os.environ, **self._settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            pass_fds=[self._forks],
        )
        # Some pages show what is refused.
        assert done.returncode == 0 or "Error: " in done.stdout, done.stdout
        return done.stdout

    def _here(self, arguments: list[str]) -> str:
        """The real command without a new process, which would take a second."""
        with self._here_and_now() as printed, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", arguments)
            with pytest.raises(SystemExit) as ended:
                main()
        assert not ended.value.code or "Error: " in printed.getvalue(), printed.getvalue()
        return printed.getvalue()

    @contextlib.contextmanager
    def _here_and_now(self) -> Iterator[io.StringIO]:
        """Both streams as one, as a terminal has them, and the folder as the current one."""
        printed = io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            contextlib.chdir(self._folder),
        ):
            for name, value in self._settings.items():
                patch.setenv(name, value)
            yield printed

    def _start(self, text: str) -> str:
        """Waits until it answers, as a person does without knowing it: a server, or an agent."""
        ports = [int(port) for port in self._ports.values() if port in text]
        state = re.search(r"--state (\S+)", text)

        def is_there() -> bool:
            if ports:
                return answers(ports[0])
            assert state is not None, text
            where = self._folder / state[1]
            return socket_of(where) is not None and "learned" in asked(where, "status")

        log = self._folder / f"background-{len(self._background)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                text,
                shell=True,
                cwd=self._folder,
                env={**os.environ, **self._settings, "PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[self._forks],
            )
        self._background.append(process)
        wait_until(lambda: process.poll() is not None or is_there(), PATIENCE)
        assert process.poll() is None, log.read_text()
        return self._as_shown(log.read_text())
