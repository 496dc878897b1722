"""The code keeps to its plan: what each folder holds and imports, how a docstring begins."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from support.places import ROOT

SRC = ROOT / "src"
LIBRARY = SRC / "elmgrove"
TESTS = ROOT / "tests"
APPENDIX = ROOT / "papers"
CHAPTERS = {
    "adapters",
    "algebra",
    "checks",
    "cli",
    "detector",
    "device",
    "exchange",
    "federation",
    "reading",
    "rounds",
    "server",
    "storage",
}
#: Each of these is there only with its extra, and so none is in the package above it.
OPTIONAL = ("elmgrove.adapters", "elmgrove.rounds.flower")
MOST_LAYERS = 9


def modules(base: Path = LIBRARY) -> list[Path]:
    return sorted(base.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def place(path: Path, line: int | None = None) -> str:
    return f"{path.relative_to(ROOT)}" + (f":{line}" if line else "")


def none(offenders: Iterable[str]) -> None:
    """Fails with all of them."""
    found = list(offenders)
    assert not found, f"{len(found)}:\n" + "\n".join(found)


# Folders and files


def test_the_library_holds_its_chapters_and_nothing_else() -> None:
    found = {path.name for path in LIBRARY.iterdir()} - {"__pycache__"}
    assert found == CHAPTERS | {"__init__.py", "__main__.py", "py.typed", "errors.py"}


# Imports

PACKAGES = {
    ".".join(path.parent.relative_to(SRC).parts): path for path in LIBRARY.rglob("__init__.py")
}


def _public(package: str) -> set[str]:
    """The names in its ``__all__``."""
    for node in parsed(PACKAGES[package]).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


PUBLIC = {package: _public(package) for package in PACKAGES}
#: What may be had from the top: the names of everyday use, and the chapters themselves.
PUBLIC["elmgrove"] |= {"__version__", "errors", *CHAPTERS}


def _entered(module: str, home: str) -> str | None:
    """The outermost package that an import enters from outside."""
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        package = ".".join(parts[:length])
        if package in PACKAGES and package != "elmgrove" and f"{home}.".find(f"{package}.") != 0:
            return package
    return None


def _imports(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """The line, the module, and the name if one is taken from it."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{place(path, node.lineno)}: a relative import"
            yield from ((node.lineno, node.module or "", one.name) for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, one.name, None) for one in node.names)


def _private_imports(path: Path) -> Iterator[str]:
    home = ".".join(path.parent.relative_to(SRC).parts) if SRC in path.parents else ""
    for line, module, name in _imports(path):
        if module.split(".")[0] != "elmgrove" or module.startswith(OPTIONAL):
            continue
        package = "elmgrove" if module == "elmgrove" else _entered(module, home)
        if package is None:
            continue
        if module != package or (name is not None and name not in PUBLIC[package]):
            yield f"{place(path, line)}: {name or ''} from {module}, which {package} keeps private"


@pytest.mark.parametrize("folder", ["src/elmgrove", "benchmarks", "examples", "papers/src"])
def test_from_outside_only_what_a_package_makes_public_is_imported(folder: str) -> None:
    none(line for path in modules(ROOT / folder) for line in _private_imports(path))


def test_what_a_package_makes_public_is_there() -> None:
    none(
        f"{package}.{name}"
        for package in PACKAGES
        if not package.startswith(OPTIONAL)
        for name in _public(package)
        if not hasattr(import_module(package), name)
    )


def test_the_layers_are_few_and_every_module_has_its_place() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layered = [one for one in contracts["contracts"] if one["type"] == "layers"]
    assert all(one["exhaustive"] is True for one in layered)
    assert not any("exhaustive_ignores" in one for one in layered)
    assert not any("ignore_imports" in one for one in [contracts, *contracts["contracts"]])
    [layers] = [one["layers"] for one in layered if one["containers"] == ["elmgrove"]]
    assert len(layers) <= MOST_LAYERS
    placed = {name.strip() for layer in layers for name in layer.split("|")}
    assert placed == CHAPTERS | {"__main__", "errors"}


PATH = r"(?:[\w.-]+/)+"
#: A path in the text, or in a map of files.
NAMED = re.compile(rf"`({PATH}[\w.-]*)`|(?<![\w./:`-])({PATH}(?:[\w.-]+\.py)?)(?![\w./`*-])")


def test_the_map_of_files_is_true() -> None:
    found = NAMED.findall((ROOT / "CONTRIBUTING.md").read_text())
    assert found
    none(
        name
        for name in (one or other for one, other in found)
        if not any((base / name).exists() for base in (ROOT, SRC, LIBRARY))
    )


# Tests

#: Folders of tests that are no chapter.
BESIDE = {"benchmarks", "docs", "golden", "support"}


def test_tests_mirror_the_library() -> None:
    found = {path.name for path in TESTS.iterdir() if path.is_dir()} - {"__pycache__"}
    assert found == CHAPTERS | BESIDE
    loose = {path.name for path in TESTS.glob("*.py")}
    assert loose == {"conftest.py", Path(__file__).name}


def test_what_tests_share_is_in_support() -> None:
    none(
        f"{place(path, line)}: {module}"
        for path in sorted(TESTS.rglob("*.py"))
        for line, module, name in _imports(path)
        if any(part.startswith("test_") for part in [*module.split("."), name or ""])
    )
    none(
        f"{place(path)} holds no test"
        for path in sorted(TESTS.rglob("*.py"))
        if path.parent.name != "support"
        and path.name != "conftest.py"
        and not path.name.startswith("test_")
    )


def test_no_test_exempts_itself_from_a_check() -> None:
    mark = "# no" + "qa"
    none(place(path) for path in sorted(TESTS.rglob("*.py")) if mark in path.read_text())
