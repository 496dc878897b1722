"""All commands of ``elmgrove`` by their full names, as the pages have to name them."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from elmgrove.cli.app import app


def _walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """A command and all those in it, by their full names."""
    yield name, command
    if isinstance(command, TyperGroup):
        for part in command.list_commands(None):
            yield from _walk(command.get_command(None, part), f"{name} {part}")


COMMANDS = dict(_walk(typer.main.get_command(app), "elmgrove"))


def is_group(name: str) -> bool:
    """Says whether a command has others in it."""
    return isinstance(COMMANDS[name], TyperGroup)


def flags_of(parameter: Any) -> list[str]:
    """The long names of an option; none of an argument."""
    options = [*parameter.opts, *parameter.secondary_opts]
    return [option for option in options if option.startswith("--")]
