"""Shell completion: commands and options, without loading what is not asked for."""

import os
import subprocess
import sys

import pytest

from elmgrove.cli.app import COMMANDS
from support.agents import COMMAND

#: Completes in this process, and says which commands were loaded for it.
LOADED = """
import sys
from elmgrove.cli import main
sys.argv = ["elmgrove"]
try:
    main()
finally:
    print(*(name for name in sys.modules if name.startswith("elmgrove.cli.")), file=sys.stderr)
"""


def completed(text: str, *, command: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    """What bash is told when TAB is pressed after this text."""
    words = text.split(" ")
    asked = {
        "_ELMGROVE_COMPLETE": "complete_bash",
        "COMP_WORDS": text,
        "COMP_CWORD": str(len(words) - 1),
    }
    return subprocess.run(
        command or [str(COMMAND)],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("elmgrove tu", ["tune"]),
        ("elmgrove federation rev", ["revoke"]),
        ("elmgrove device run --watch", ["--watch-now"]),
        ("elmgrove tune fan.elm --r", ["--rate"]),
        ("elmgrove learn --window", ["--window"]),
        ("elmgrove nothing --r", []),
    ],
)
def test_commands_and_options_are_completed(text: str, names: list[str]) -> None:
    assert completed(text).stdout.split() == names


def test_all_commands_are_named_and_none_is_loaded() -> None:
    ran = completed("elmgrove ", command=[sys.executable, "-c", LOADED])
    assert set(COMMANDS) <= set(ran.stdout.split())
    loaded = {where.partition(":")[0] for where in COMMANDS.values()} & set(ran.stderr.split())
    assert not loaded


def test_one_command_is_loaded_for_its_options() -> None:
    ran = completed("elmgrove tune --r", command=[sys.executable, "-c", LOADED])
    assert "elmgrove.cli.feedback" in ran.stderr.split()
    assert "elmgrove.cli.serve" not in ran.stderr.split()


def test_the_script_for_a_shell_is_shown() -> None:
    # Which shell it is for is found by the parent process, which may be none here: named instead.
    ran = subprocess.run(
        [COMMAND, "--show-completion", "bash"],
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_ELMGROVE_COMPLETE=complete_bash" in ran.stdout
