"""What is public is documented: names, settings, commands, options, extras, make targets."""

import inspect
import re
import tomllib
from pathlib import Path

import pytest
import typer

import elmgrove
import elmgrove.cooperation
from elmgrove.cli.app import app

ROOT = Path(__file__).parent.parent
REFERENCE = (ROOT / "docs" / "reference.md").read_text()
COMMAND = typer.main.get_command(app)
COMMANDS = COMMAND.commands


@pytest.mark.parametrize("name", elmgrove.__all__)
def test_each_public_name_has_a_docstring_and_a_row(name: str) -> None:
    thing = getattr(elmgrove, name)
    assert inspect.getdoc(thing)
    assert f"| `{name}` |" in REFERENCE


@pytest.mark.parametrize("name", elmgrove.cooperation.__all__)
def test_each_name_of_cooperation_has_a_docstring_and_a_row(name: str) -> None:
    assert inspect.getdoc(getattr(elmgrove.cooperation, name))
    assert f"| `elmgrove.cooperation.{name}` |" in REFERENCE


def _public_members(thing: type) -> list[tuple[str, object]]:
    own = [(n, m) for n, m in vars(thing).items() if not n.startswith("_")]
    return [(n, m) for n, m in own if callable(m) or isinstance(m, (property, classmethod))]


@pytest.mark.parametrize("name", elmgrove.__all__)
def test_each_public_method_has_a_docstring(name: str) -> None:
    for member, value in _public_members(getattr(elmgrove, name)):
        assert inspect.getdoc(value), f"{name}.{member} has no docstring"


def test_each_setting_of_the_detector_has_a_row() -> None:
    settings = list(inspect.signature(elmgrove.Detector).parameters)
    for setting in settings[1:]:
        assert f"| `{setting}` |" in REFERENCE, setting


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_command_and_option_is_in_the_reference(command: str) -> None:
    row = next(line for line in REFERENCE.splitlines() if line.startswith(f"| `elmgrove {command}"))
    for parameter in COMMANDS[command].params:
        long = [option for option in parameter.opts if option.startswith("--")]
        assert all(f"`{option}`" in row for option in long), f"{command}: {long}"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_parameter_of_a_command_has_a_help_text(command: str) -> None:
    assert COMMANDS[command].help
    assert all(parameter.help for parameter in COMMANDS[command].params)


def test_each_extra_is_in_the_reference() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in project["optional-dependencies"]:
        assert f"elmgrove[{extra}]" in REFERENCE


def test_the_readme_opens_with_the_two_commands() -> None:
    head = (ROOT / "README.md").read_text()[:1500]
    assert "make demo" in head
    assert "make test" in head


def test_each_make_target_says_what_it_does() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    for target in phony[1].split():
        assert re.search(rf"^{target}:.*## \S", makefile, re.MULTILINE), target
