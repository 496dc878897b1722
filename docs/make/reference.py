"""Reference pages that are made of the program itself: commands, settings, routes, examples."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from elmgrove.cli.app import app
from elmgrove.cli.device import variable_of
from elmgrove.device.settings import Settings, group_of, help_of
from elmgrove.server.routes import openapi_document

_UP = "\n\n[Docs](index.md) › [Reference](reference.md)\n\n"


def commands_page() -> str:
    """Writes the page with every command, its arguments and options, as ``--help`` has them."""
    parts = [f"# Commands{_UP}Each is told the same by `--help`.\n"]
    for name, command in commands(typer.main.get_command(app), "elmgrove"):
        parts.append(f"## `{name}`\n\n{_plain(command.help or '')}\n")
        rows = [_parameter_row(one) for one in command.params if not getattr(one, "hidden", False)]
        if rows and name != "elmgrove device run":
            parts.append(_table(("", "default", "meaning"), rows))
        if name == "elmgrove device run":
            parts.append("Its options are [the agent's settings](settings.md).\n")
    return "\n".join(parts)


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Gives a command and all those in it, by their full names."""
    yield name, command
    if isinstance(command, TyperGroup):
        context = typer.Context(command)
        for part in command.list_commands(context):
            yield from commands(command.get_command(context, part), f"{name} {part}")


def settings_page() -> str:
    """Writes the page with the agent's settings, group by group."""
    parts = [
        f"# Settings of the agent{_UP}In a TOML file (`elmgrove device run --config device.toml`), "
        f"as flags (`--source`), or as environment variables (`{variable_of('source')}`); a flag "
        "wins over a variable, that over the file. [The device](device.md) says what they are for."
        "\n"
    ]
    groups = dict[str, list[str]]()
    for one in fields(Settings):
        groups.setdefault(group_of(one.name), []).append(one.name)
    for group, names in groups.items():
        rows = [
            (f"`{name}`", f"`{json.dumps(getattr(Settings(), name))}`", _cell(help_of(name)))
            for name in names
        ]
        parts.append(f"## {group}\n\n{_table(('setting', 'default', 'meaning'), rows)}")
    return "\n".join(parts)


def http_page() -> str:
    """Writes the page with the server's routes, from its OpenAPI document."""
    document = openapi_document()
    parts = [
        f"# HTTP{_UP}{document['info']['description']} [The server](server.md#the-http-api) says "
        "the rest: secrets, queries, problems. A running server has this as `GET /openapi.json`.\n"
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(f"## `{method.upper()} {path}`\n\n{_operation(operation)}")
    return "\n".join(parts)


def examples_page(folder: Path) -> str:
    """Writes the page that lists the examples, folder by folder, with links to the files."""
    parts = [f"# Examples{_UP}Files to begin with; the tests run or check each.\n"]
    folders = [folder, *(path for path in sorted(folder.iterdir()) if path.is_dir())]
    for one in folders:
        found = sorted(one.glob("*") if one is folder else one.rglob("*"))
        files = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
        title = "Single files" if one is folder else one.name
        lines = [
            f"- [{path.relative_to(one)}](examples/{path.relative_to(folder)})" for path in files
        ]
        parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _operation(operation: dict[str, Any]) -> str:
    rows = [(f"`{one['name']}`", one["in"]) for one in operation["parameters"]]
    body = operation.get("requestBody", {}).get("content", {})
    rows += [("the body", f"`{media}`") for media in body]
    [code, answer] = next(iter(operation["responses"].items()))
    answered = ", ".join(f"`{media}`" for media in answer.get("content", {})) or "no content"
    said = [
        operation["summary"].replace("``", "`"),
        operation.get("description", "Needs no secret."),
    ]
    table = _table(("given", "where"), rows) if rows else ""
    return f"{' '.join(said)}\n\n{table}\nAnswer: {code}, {answered}.\n"


def _parameter_row(parameter: Any) -> tuple[str, ...]:
    flags = [*parameter.opts, *parameter.secondary_opts]
    named = ", ".join(f"`{flag}`" for flag in flags if flag.startswith("-"))
    name = named or f"`{(parameter.metavar or parameter.name).upper()}`"
    plain = isinstance(parameter.default, str | int | float) and parameter.default is not False
    default = f"`{parameter.default}`" if plain and str(parameter.default) else ""
    variable = getattr(parameter, "envvar", None)
    told = f" (`{variable}`)" if variable else ""
    return name, default, _cell(_plain(getattr(parameter, "help", None) or "")) + told


def _plain(text: str) -> str:
    """Help without Rich's marks: what is bold there is code here."""
    text = re.sub(r"\[bold\](.*?)\[/(?:bold)?\]", r"`\1`", text, flags=re.DOTALL)
    return text.replace("\\[", "[").replace("``", "`")


def _cell(text: str) -> str:
    return re.sub(r"([|<\[])", r"\\\1", " ".join(text.split()))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
