"""What the README shows is what happens: its commands and its program are run here."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def _words(text: str) -> list[str]:
    """Without the lines of tables and the blanks between words: they depend on the terminal."""
    return re.sub(r"[─━┃│┏┓┗┛┡┩╇┳┻┼┌┐└┘├┤┬┴╈]", " ", text).split()


def test_the_commands_print_what_the_readme_shows(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "80"}
    ran = 0
    for block in _blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            if command.startswith("make"):
                continue
            done = subprocess.run(
                command,
                shell=True,
                cwd=tmp_path,
                env=environment,
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
            )
            assert _words(done.stdout) == _words(shown), command
            ran += 1
    assert ran >= 8


def test_the_program_prints_what_the_readme_shows() -> None:
    (program,) = _blocks("python")
    assert program == (ROOT / "examples" / "two_devices.py").read_text().split('"""\n\n', 1)[1]
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    )
    assert done.stdout in _blocks("text")


def test_the_demo_prints_the_table_that_the_readme_shows(tmp_path: Path) -> None:
    command = [Path(sys.executable).parent / "elmgrove", "demo", "--output", tmp_path]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    shown = _words(_blocks("text")[0])
    # The difference from central training is rounding, which is the machine's own.
    printed = re.sub(r"\d+e-\d+", shown[-5], done.stdout.split("Wrote")[0])
    assert _words(printed) == shown
