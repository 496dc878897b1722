"""What the pages say of commands holds where no test can run them: names, options, variables."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmgrove.cli.device import variable_of
from elmgrove.device.settings import Settings
from support.places import ROOT
from support.reference import COMMANDS, flags_of, is_group

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Within a line, indented, and behind the prompt of a console.
SAID = re.compile(
    r"(?:`|^ {4,}|^\$ )(?:sudo )?(?:/opt/elmgrove/bin/)?(elmgrove [^`]+?)(?:`|$)", re.M
)
#: What a shell makes of the rest of a line.
SHELL = re.compile(r"\d?[|<>;&#]")
#: Each paper has commands of its own, which the appendix tests.
APART = "elmgrove paper"
VARIABLES = {
    *(variable_of(name) for name in Settings.__dataclass_fields__),
    *(getattr(one, "envvar", None) for command in COMMANDS.values() for one in command.params),
    # No options: they would be seen in the list of processes.
    "ELMGROVE_ADMIN_TOKEN",
    "ELMGROVE_MQTT_PASSWORD",
}


def _said(path: Path) -> list[str]:
    """The commands that a page names, each on one line."""
    text = re.sub(r" \\\n\s*", " ", path.read_text())
    within = re.sub(r"`[^`\n]*\n[^`\n]*`", lambda found: found[0].replace("\n", " "), text)
    return SAID.findall(within)


def _wrong(said: str) -> Iterator[str]:
    """What there is not: a command, or an option of it or of those that it is in."""
    name, words = "elmgrove", iter(said.split()[1:])
    for word in words:
        if SHELL.match(word) or name == APART:
            return
        if option := re.match(r"--[a-z][a-z-]*", word):
            known = {flag: one for one in COMMANDS[name].params for flag in flags_of(one)}
            if option[0] not in {*known, "--help"}:
                yield f"{name} {option[0]}"
            elif is_group(name) and option[0] in known and not known[option[0]].is_flag:
                next(words, "")
        elif is_group(name) and word != "COMMAND":
            name = f"{name} {word}"
            if name not in COMMANDS:
                yield name
                return


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_command_and_option_that_a_page_names_is_there(path: Path) -> None:
    assert [wrong for said in _said(path) for wrong in _wrong(said)] == []


def test_what_is_not_there_is_found() -> None:
    told = "`elmgrove federation --ca a.pem creat x`, `elmgrove learn a.csv --ratio 1 | sort --x`"
    found = [list(_wrong(said)) for said in SAID.findall(told)]
    assert found == [["elmgrove federation creat"], ["elmgrove learn --ratio"]]
    assert sum(len(_said(path)) for path in PAGES) > 300


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_variable_that_a_page_names_is_read(path: Path) -> None:
    named = set(re.findall(r"\bELMGROVE_[A-Z_]*[A-Z]\b", path.read_text()))
    assert {name for name in named if not name.startswith("ELMGROVE_TEST_")} <= VARIABLES
