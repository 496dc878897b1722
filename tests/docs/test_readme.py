"""What the README shows is what happens: its commands and its programs are run here."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.demo import Demo
from support.places import ROOT
from support.serving import answers, free_port, wait_until

README = (ROOT / "README.md").read_text()
PROGRAMS = ("own_loop.py", "two_devices.py")
#: The README's server listens here.
PORT = "8470"
#: What a device learns depends a little on when it first hears from the others.
TIMED = ("elmgrove device run", "elmgrove fleet judge")
PATIENCE = 120.0
NUMBER = re.compile(r"\d[\d,]*(\.\d+)?")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def _commands() -> Iterator[tuple[str, str]]:
    """Each command but ``make`` and what the README shows that it prints."""
    for block in _blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            if not command.startswith("make"):
                yield command, shown


def _words(text: str) -> list[str]:
    """Without times, the lines of tables and the blanks between words: they are the moment's."""
    text = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+", "", text, flags=re.MULTILINE)
    return re.sub(r"[─━┃│┏┓┗┛┡┩╇┳┻┼┌┐└┘├┤┬┴╈]", " ", text).split()


def _about(word: str) -> object:
    """A number as something that the numbers near it are equal to."""
    [value] = _values([word])
    return value if isinstance(value, str) else pytest.approx(value, rel=0.05, abs=0.003)


def _values(words: list[str]) -> list[float | str]:
    return [float(word.replace(",", "")) if NUMBER.fullmatch(word) else word for word in words]


class Shell:
    """Runs the README's commands as somebody would who types them one after the other."""

    def __init__(self, folder: Path) -> None:
        self._port = str(free_port())
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        server = f"http://127.0.0.1:{self._port}"
        settings = {"PATH": path, "COLUMNS": "80", "ELMGROVE_SERVER": server}
        self._environment = {**os.environ, **settings}
        self._folder = folder
        self._exports: list[str] = []
        self._background: list[subprocess.Popen[bytes]] = []

    def run(self, command: str) -> str:
        """What the command printed, with the README's port for the real one."""
        if command.startswith("export "):
            self._exports.append(command.replace(PORT, self._port))
            return ""
        # Each command has a shell of its own, which must know what was exported before.
        command = command.replace(PORT, self._port)
        if command.endswith("&"):
            return self._start("\n".join([*self._exports, f"exec {command[:-1]}"]))
        done = subprocess.run(
            "\n".join([*self._exports, command]),
            shell=True,
            cwd=self._folder,
            env=self._environment,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        return done.stdout.replace(self._port, PORT)

    def close(self) -> None:
        """Ends what runs in the background."""
        for process in self._background:
            process.terminate()
            process.wait(PATIENCE)

    def _start(self, text: str) -> str:
        """Waits until the server answers, as a person does without knowing it."""
        log = self._folder / "background.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                text,
                shell=True,
                cwd=self._folder,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._background.append(process)
        wait_until(lambda: process.poll() is not None or answers(int(self._port)), PATIENCE)
        assert process.poll() is None, log.read_text()
        return log.read_text().replace(self._port, PORT)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    opened = Shell(tmp_path)
    yield opened
    opened.close()


def test_the_commands_print_what_the_readme_shows(shell: Shell) -> None:
    ran = 0
    for command, shown in _commands():
        printed, wanted = _words(shell.run(command)), _words(shown)
        if command.startswith(TIMED):
            assert _values(printed) == [_about(word) for word in wanted], command
        else:
            assert printed == wanted, command
        ran += 1
    assert ran >= 18


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_readme_shows_the_program_as_it_is(name: str) -> None:
    assert (ROOT / "examples" / name).read_text().split('"""\n\n', 1)[1] in _blocks("python")


def test_the_readme_shows_no_other_program() -> None:
    assert len(_blocks("python")) == len(PROGRAMS)


def test_the_program_prints_what_the_readme_shows() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "two_devices.py"],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout in _blocks("text")


def test_the_demo_prints_the_tables_that_the_readme_shows(demo: Demo) -> None:
    # The difference from central training is rounding, which is the machine's own.
    printed, shown = (
        re.sub(r"\d+e-\d+", "rounding", text)
        for text in (demo.text.split("Wrote")[0], _blocks("text")[0])
    )
    assert _values(_words(printed)) == [_about(word) for word in _words(shown)]
