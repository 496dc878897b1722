"""What is public is documented: names, settings, commands, routes, extras, make targets."""

import inspect
import json
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name

import pytest

import elmgrove
from elmgrove.cli.device import variable_of
from elmgrove.device.settings import Settings, help_of, type_of
from elmgrove.server.problems import KINDS
from elmgrove.server.routes import ROUTES, ApiRoute
from support.places import ROOT
from support.reference import CHAPTERS, COMMANDS, flags_of, public, summary, title

DOCS = ROOT / "docs"
REFERENCE = (DOCS / "reference.md").read_text()
DEVICE = (DOCS / "device.md").read_text()
SERVER = (DOCS / "server.md").read_text()
#: The agent's options are its settings, which have a table of their own.
LISTED = sorted(COMMANDS.keys() - {"elmgrove", "elmgrove device run"})


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_public_name_has_a_docstring_and_a_row(chapter: str) -> None:
    names = [name for where, name in public() if where == chapter]
    assert names
    silent = [name for name in names if not summary(chapter, name)]
    missing = [
        title(chapter, name) for name in names if f"| `{title(chapter, name)}` |" not in REFERENCE
    ]
    assert (silent, missing) == ([], [])


def test_each_row_is_of_a_name_that_is_there() -> None:
    rows = re.findall(r"^\| `(elmgrove\.[\w.]+)` \|", REFERENCE, re.MULTILINE)
    assert rows
    if find_spec("flwr") is None:
        rows = [row for row in rows if not row.startswith("elmgrove.rounds.flower.")]
    gone = [row for row in rows if not _is_there(row)]
    assert not gone, "\n".join(gone)


def _is_there(name: str) -> bool:
    try:
        resolve_name(name)
    except (AttributeError, ModuleNotFoundError):
        return False
    return True


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


def _row(command: str) -> str:
    """The command's row in the reference: arguments follow its name in capitals."""
    rows = re.findall(rf"^\| `{command}(?: [A-Z ]+)?` \|.*$", REFERENCE, re.MULTILINE)
    assert len(rows) == 1, f"{command}: {len(rows)} rows"
    return str(rows[0])


@pytest.mark.parametrize("command", LISTED)
def test_each_command_and_option_is_in_the_reference(command: str) -> None:
    flags = [flag for parameter in COMMANDS[command].params for flag in flags_of(parameter)]
    shown = re.findall(r"`(--[a-z-]+)`", _row(command))
    assert sorted(flags) == sorted(shown)


def test_the_agent_has_a_row_that_leads_to_its_settings() -> None:
    row = _row("elmgrove device run")
    assert "`--config`" in row
    assert "device.md#settings" in row
    assert "\n## Settings\n" in DEVICE


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_parameter_of_a_command_has_a_help_text(command: str) -> None:
    assert COMMANDS[command].help
    assert all(parameter.help for parameter in COMMANDS[command].params)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_environment_variable_is_documented(command: str) -> None:
    for parameter in COMMANDS[command].params:
        variable = getattr(parameter, "envvar", None)
        assert variable is None or f"`{variable}`" in REFERENCE + DEVICE, variable


def _setting_row(name: str) -> str:
    flag = f"--{name.replace('_', '-')}"
    flags = [flag, f"--no-{flag[2:]}"] if type_of(name) is bool else [flag]
    default = f"`{json.dumps(getattr(Settings(), name))}`"
    cells = [
        f"`{name}`",
        ", ".join(f"`{one}`" for one in flags),
        f"`{variable_of(name)}`",
        default,
        help_of(name),
    ]
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("name", [one.name for one in fields(Settings)])
def test_each_setting_of_the_agent_has_its_row(name: str) -> None:
    assert _setting_row(name) in DEVICE.splitlines()


def test_no_row_is_of_a_setting_that_is_gone() -> None:
    table = DEVICE.partition("\n## Settings\n")[2]
    names = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert names == [one.name for one in fields(Settings)]


def _route_row(route: ApiRoute) -> str:
    said = (inspect.getdoc(route.handler) or "").splitlines()[0].replace("``", "`")
    path = re.sub(r":\w+}", "}", route.path)
    who = ", ".join(route.secrets) or "none"
    return f"| `{route.method}` | `{path}` | {who} | {said} |"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_each_route_of_the_server_has_its_row(route: ApiRoute) -> None:
    assert _route_row(route) in SERVER.splitlines()


def test_each_query_of_a_route_is_named() -> None:
    text = SERVER.partition("\nQueries:")[2].partition("\n\n")[0]
    for route in ROUTES:
        assert all(f"`{name}`" in text for name in route.query), route.path


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_problem_has_its_row(kind: str) -> None:
    status, title = KINDS[kind]
    assert f"| `{kind}` | {status} | {title} |" in SERVER.splitlines()


@pytest.mark.parametrize("name", ["elmgrove-device", "elmgrove-server"])
# Only systemd itself says whether it would take the units.
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_takes_the_service(tmp_path: Path, name: str) -> None:
    unit = (DOCS / f"{name}.service").read_text()
    # It looks whether the program is there.
    here = unit.replace("/opt/elmgrove/bin", str(Path(sys.executable).parent))
    (tmp_path / f"{name}.service").write_text(here)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / f"{name}.service"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", *sorted(DOCS.glob("*.md"))]
)
def test_each_link_leads_somewhere(page: str | Path) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


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
