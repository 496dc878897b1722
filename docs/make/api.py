"""Pages about the library's public names: their signatures, and what their docstrings say."""

import ast
import inspect
import re
from collections.abc import Iterator
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

#: The chapters that have a page, in the order of a reader.
CHAPTERS = (
    "elmgrove",
    "elmgrove.detector",
    "elmgrove.reading",
    "elmgrove.federation",
    "elmgrove.exchange",
    "elmgrove.device",
    "elmgrove.server",
    "elmgrove.rounds",
    "elmgrove.algebra",
    "elmgrove.storage",
    "elmgrove.adapters.sklearn",
    "elmgrove.adapters.river",
    "elmgrove.checks",
)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | Function


def page_of(chapter: str) -> str:
    """Gives the name of the page about a chapter."""
    return f"api-{chapter.replace('.', '-')}.md"


def api_page(chapter: str) -> str:
    """Writes the page about a chapter: all its names but those that the first page has."""
    module = import_module(chapter)
    said = (inspect.getdoc(module) or "").splitlines()[0]
    parts = [f"# `{chapter}`\n\n[Docs](index.md) › [Reference](reference.md)\n\n{said}\n"]
    for name in _names(module):
        home, node = definition(module, name)
        if node is None:
            raise LookupError(f"{chapter}.{name}: where is it defined?")
        parts.append(f"## `{name}`\n\n" + "\n".join(_told(home, node, name)))
    return "\n".join(parts)


def _names(module: ModuleType) -> list[str]:
    root = import_module("elmgrove")
    every = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    own = [one for one in every if module is root or not _is_of(root, one, getattr(module, one))]
    return sorted(own, key=lambda one: (one.isupper(), one.lower()))


def _is_of(root: ModuleType, name: str, value: object) -> bool:
    return getattr(root, name, None) is value


def definition(module: ModuleType, name: str) -> tuple[ModuleType, ast.stmt | None]:
    """Finds the statement that binds a name, and its module, wherever it was imported from."""
    for node in _statements(module):
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                if (one.asname or one.name) == name:
                    return definition(import_module(node.module), one.name)
        if isinstance(node, Definition) and node.name == name:
            return module, node
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in _bound(node):
            return module, node
    return module, None


@cache
def _statements(module: ModuleType) -> list[ast.stmt]:
    """What a module says, also below a condition, or where what it needs may be missing."""
    parts = ast.parse(_text(module)).body
    below = (part.body if isinstance(part, ast.If | ast.Try) else [part] for part in parts)
    return [one for some in below for one in some]


def _bound(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    every = [one for target in targets for one in ast.walk(target)]
    return {one.id for one in every if isinstance(one, ast.Name)}


def _text(module: ModuleType) -> str:
    return Path(inspect.getfile(module)).read_text()


def _told(module: ModuleType, node: ast.stmt, name: str) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        yield f"```python\n{_class_line(node)}\n```\n"
        yield prose(ast.get_docstring(node) or "")
        for part in _methods(module, node):
            yield f"### `{name}.{part.name}`\n\n```python\n{_line(part)}\n```\n"
            yield prose(ast.get_docstring(part) or "")
    elif isinstance(node, Function):
        yield f"```python\n{_line(node)}\n```\n"
        yield prose(ast.get_docstring(node) or "")
    else:
        yield prose(_remark(_text(module).splitlines()[: node.lineno - 1]))


def _methods(module: ModuleType, node: ast.ClassDef) -> Iterator[Function]:
    """The public methods and properties of a class, and those that it has from others of ours."""
    seen = set[str]()
    for one in getattr(module, node.name).__mro__:
        if not one.__module__.startswith("elmgrove"):
            continue
        home = import_module(one.__module__)
        _, found = definition(home, one.__name__)
        for part in found.body if isinstance(found, ast.ClassDef) else ():
            method = _function(home, part)
            if method is not None and method.name not in seen and _is_shown(method):
                seen.add(method.name)
                yield method


def _function(module: ModuleType, part: ast.stmt) -> Function | None:
    """A function that is a class's by its definition, or by a name for another one."""
    if isinstance(part, ast.Assign) and isinstance(part.value, ast.Name):
        _, found = definition(module, part.value.id)
        [name] = _bound(part)
        if isinstance(found, Function):
            named = copy(found)
            named.name = name
            return named
    return part if isinstance(part, Function) else None


def _is_shown(node: Function) -> bool:
    """Whether it is public, and neither an overload nor a setter."""
    marks = {ast.unparse(mark).split(".")[-1] for mark in node.decorator_list}
    return not node.name.startswith("_") and not marks & {"overload", "setter", "deleter"}


def _class_line(node: ast.ClassDef) -> str:
    """The class as it is made: by its ``__init__``, or by its fields."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return _broken(f"{node.name}({_arguments(part)})")
    made = any("dataclass" in ast.unparse(mark) for mark in node.decorator_list)
    bases = {ast.unparse(base) for base in node.bases}
    if not made and "NamedTuple" not in bases:
        return f"class {node.name}({', '.join(sorted(bases))})" if bases else f"class {node.name}"
    fields = [
        ast.unparse(part)
        for part in node.body
        if isinstance(part, ast.AnnAssign) and "ClassVar" not in ast.unparse(part.annotation)
    ]
    return _broken(f"{node.name}({', '.join(fields)})")


def _line(node: Function) -> str:
    marks = [ast.unparse(mark).split(".")[-1] for mark in node.decorator_list]
    returned = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    if any("property" in mark for mark in marks):
        return f"{node.name}{returned.replace(' -> ', ': ')}"
    head = "async " * isinstance(node, ast.AsyncFunctionDef) + node.name
    return _broken(f"{head}({_arguments(node)}){returned}")


def _arguments(node: Function) -> str:
    text = re.sub(r"^(self|cls|detector)(: [\w']+)?(, (/, )?)?", "", ast.unparse(node.args))
    # ast leaves no blanks around a default; after an annotation there are some.
    return re.sub(r"(: [^=]*?[^=\s!<>])=(?!=)", r"\1 = ", text)


def _broken(line: str, width: int = 90) -> str:
    """A long signature with an argument a line; commas within brackets stay."""
    if len(line) <= width:
        return line
    head, _, rest = line.partition("(")
    inside, _, tail = rest.rpartition(")")
    depth, lines = 0, [""]
    for sign in inside:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            lines.append("")
        else:
            lines[-1] += sign
    return f"{head}(\n" + "".join(f"    {one.strip()},\n" for one in lines) + f"){tail}"


def _remark(lines: list[str]) -> str:
    """The ``#:`` lines at the end of these."""
    found: list[str] = []
    while lines and lines[-1].startswith("#:"):
        found.insert(0, lines.pop()[2:].strip())
    return " ".join(found)


def prose(text: str) -> str:
    """Makes Markdown of a docstring: what a session would show becomes a block of it."""
    parts = list[str]()
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.lstrip().startswith(">>>"):
            parts.append(f"```python\n{inspect.cleandoc(paragraph)}\n```")
        else:
            parts.append(paragraph.replace("``", "`").replace("<", "&lt;"))
    return "\n\n".join(parts) + "\n"
