"""The code keeps to its plan: what each folder holds and imports, how a docstring begins."""

import ast
import io
import re
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from itertools import combinations
from pathlib import Path

import pytest

from elmgrove.cli.app import COMMANDS
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
MOST_LINES = 300
#: A first sentence that begins so says nothing to a reader who sees it alone.
LEANING = (
    "Also ",
    "And ",
    "As above",
    "But ",
    "Ditto",
    "Like ",
    "Same ",
    "See ",
    "The inverse",
    "The opposite",
    "The reverse",
    "The same",
)
MANNERED = re.compile(r"\b(anew|afresh|whoever)\b", re.IGNORECASE)
#: The server's query is called so.
ANEW = re.compile(r"`+[^`]*`+|\{[^}]*\}|\?anew=|^f?[\"']anew(: |[\"']$)")
#: First words that end like a verb.
NO_VERBS = {"As", "Its", "Rows", "This"}


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


def test_a_file_can_be_read_at_one_sitting() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in modules()}
    none(f"{place(path)}: {lines} lines" for path, lines in lengths.items() if lines > MOST_LINES)


def _alike(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long in (f"{short}s", f"{short}es", f"{short}ing", f"{short.removesuffix('e')}ing")


def test_no_two_modules_differ_by_an_ending() -> None:
    names = defaultdict(list)
    for path in modules():
        names[path.parent.name if path.name == "__init__.py" else path.stem].append(place(path))
    none(
        f"{' '.join(names[one])} and {' '.join(names[other])}"
        for one, other in combinations(sorted(names), 2)
        if _alike(one, other)
    )


def test_no_two_modules_of_a_chapter_have_one_name() -> None:
    places = defaultdict(list)
    for path in modules():
        if path.name != "__init__.py":
            places[path.relative_to(LIBRARY).parts[0], path.stem].append(place(path))
    none(" and ".join(found) for found in places.values() if len(found) > 1)


def test_no_class_name_is_there_twice() -> None:
    places = defaultdict(list)
    for path in modules():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(place(path, node.lineno))
    none(f"{name}: {' '.join(found)}" for name, found in places.items() if len(found) > 1)


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


def _is_loaded_by_name(module: str) -> bool:
    """A command, or what Flower starts: no import shows all of its users."""
    commands = {where.partition(":")[0] for where in COMMANDS.values()}
    return (
        module in commands
        or re.fullmatch(r"elmgrove\.rounds\.flower\.(\w+_)?app", module) is not None
    )


def _users() -> dict[str, set[str]]:
    """For each module of the library, the modules and packages that import it."""
    named = {".".join(path.relative_to(SRC).with_suffix("").parts): path for path in modules()}
    found: dict[str, set[str]] = {module: set() for module in named}
    others = [path for folder in ("benchmarks", "examples") for path in modules(ROOT / folder)]
    for user, path in [*named.items(), *((str(path), path) for path in others)]:
        for _, module, name in _imports(path):
            for one in (module, f"{module}.{name}"):
                if one in found:
                    found[one].add(user)
    return found


def test_a_module_that_one_other_uses_is_part_of_it_if_there_is_room() -> None:
    alone: dict[str, list[str]] = defaultdict(list)
    for module, users in _users().items():
        if len(users) == 1 and not _is_loaded_by_name(module):
            [user] = users
            if module.rpartition(".")[0] == user.rpartition(".")[0] and "__init__" not in user:
                alone[user].append(module)
    lines = {
        module: len((SRC / f"{module.replace('.', '/')}.py").read_text().splitlines())
        for user, parts in alone.items()
        for module in (user, *parts)
    }
    none(
        f"{' and '.join(parts)}: {user} alone uses it, {total} lines together"
        for user, parts in alone.items()
        if (total := sum(lines[module] for module in (user, *parts))) <= MOST_LINES
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


# Prose

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _is_stub(node: Documented) -> bool:
    """An overload, or a property's setter or deleter: what it does is said elsewhere."""
    marks = {ast.unparse(mark).split(".")[-1] for mark in getattr(node, "decorator_list", [])}
    return bool(marks & {"overload", "setter", "deleter"})


def _documented(path: Path) -> Iterator[tuple[str, Documented]]:
    """The module, and each public class, function and method in it."""
    tree = parsed(path)
    yield place(path), tree
    inside: list[ast.Module | ast.ClassDef] = [tree]
    while inside:
        for node in inside.pop().body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("_") or _is_stub(node):
                continue
            yield f"{place(path, node.lineno)} {node.name}", node
            if isinstance(node, ast.ClassDef):
                inside.append(node)


def _fault(text: str | None) -> str:
    """What is wrong with a docstring."""
    if not text:
        return "has no docstring"
    first = text.split("\n\n")[0]
    if first.startswith(LEANING):
        return f"leans on another: {first.splitlines()[0]}"
    if not first.rstrip().endswith((".", ":")):
        return f"does not end its first paragraph: {first.splitlines()[-1]}"
    return ""


def test_a_docstring_stands_alone() -> None:
    none(
        f"{name}: {fault}"
        for path in modules()
        for name, node in _documented(path)
        if (fault := _fault(ast.get_docstring(node)))
    )


def _commands_of(base: Path) -> set[str]:
    """The functions whose docstrings are a command's help, which tells the user what to do."""
    found = {where.partition(":")[2] for where in COMMANDS.values()}
    for node in (node for path in modules(base) for node in ast.walk(parsed(path))):
        if isinstance(node, ast.FunctionDef):
            marks = [ast.unparse(mark).partition("(")[0] for mark in node.decorator_list]
            found |= {node.name for mark in marks if mark.endswith((".command", ".callback"))}
        elif isinstance(node, ast.Call) and ".command" in ast.unparse(node.func):
            found |= {ast.unparse(one).strip("'") for one in node.args}
    return found


def _says_what_it_does(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether its docstring begins with a verb, or with what it demands of an implementation."""
    first = (ast.get_docstring(node) or "").partition(" ")[0].rstrip(".,:;")
    return first == "MUST" or (first.endswith("s") and "'" not in first and first not in NO_VERBS)


@pytest.mark.parametrize("chapter", [*sorted(CHAPTERS), "papers"])
def test_the_docstring_of_a_function_begins_with_what_it_does(chapter: str) -> None:
    base = APPENDIX / "src" if chapter == "papers" else LIBRARY / chapter
    commands = _commands_of(base) if chapter in ("cli", "papers") else set()
    laws = LIBRARY / "checks" / "laws.py"
    none(
        f"{name}: {(ast.get_docstring(node) or '-').splitlines()[0]}"
        for path in modules(base)
        if path != laws
        for name, node in _documented(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any("property" in ast.unparse(mark) for mark in node.decorator_list)
        and node.name not in commands
        and not _says_what_it_does(node)
    )


def _words_of(path: Path) -> Iterator[tuple[int, str]]:
    """Comments, texts and names, line by line; the interfaces' own name is left out."""
    # To take all files apart would take seconds.
    if not MANNERED.search(path.read_text()):
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type not in (tokenize.COMMENT, tokenize.STRING, tokenize.NAME):
            continue
        if token.string != "anew":
            yield from enumerate(token.string.splitlines(), token.start[0])


def _prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page that are not code."""
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fenced ^= line.startswith("```")
        if not fenced:
            yield number, line


def test_nothing_is_done_anew_or_afresh_by_whoever() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    code = [*modules(), *modules(TESTS), *modules(APPENDIX)]
    read = [(path, _words_of(path)) for path in code if path != Path(__file__)]
    read += [(path, _prose_of(path)) for path in pages]
    none(
        f"{place(path, number)}: {text.strip()}"
        for path, lines in read
        for number, text in lines
        if MANNERED.search(ANEW.sub(" ", text))
    )


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


def _is_named_after_a_module(path: Path, chapter: str) -> bool:
    """``test_MODULE.py``, ``test_MODULE_WHAT.py``, or ``test_laws_WHAT.py`` of several modules."""
    name = path.stem.removeprefix("test_")
    inside = [LIBRARY / chapter, *(LIBRARY / chapter).rglob("*")]
    known = {one.stem for one in inside if one.is_dir() or one.suffix == ".py"}
    return any(name == one or name.startswith(f"{one}_") for one in {*known, "laws"})


def test_a_test_is_named_after_the_module_it_tests() -> None:
    none(
        f"{place(path)}: call it test_MODULE.py or test_MODULE_WHAT.py"
        for chapter in sorted(CHAPTERS)
        for path in sorted((TESTS / chapter).rglob("test_*.py"))
        if not _is_named_after_a_module(path, chapter)
    )


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
