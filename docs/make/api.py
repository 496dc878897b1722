"""Pages about the library's public names, which mkdocstrings makes of signatures and docstrings."""

import inspect
import re
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from griffe import (
    Attribute,
    Class,
    Extension,
    Function,
    Object,
    Parameter,
    ParameterKind,
    Parameters,
)

#: The chapters that have a page, in the order of a reader.
CHAPTERS = (
    "elmgrove",
    "elmgrove.detector",
    "elmgrove.reading",
    "elmgrove.federation",
    "elmgrove.exchange",
    "elmgrove.rounds",
    "elmgrove.algebra",
    "elmgrove.storage",
    "elmgrove.adapters.sklearn",
    "elmgrove.adapters.river",
    "elmgrove.checks",
)


class OurWays(Extension):
    """Tells mkdocstrings of our ways with docstrings and classes; mkdocs.yml names it.

    What a session would show is a block of code, a named tuple is made of its fields, and the
    first value of an attribute is for its class alone.
    """

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Makes blocks of code of sessions."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Gives a named tuple its signature, and takes the values of attributes away."""
        own = [one for one in cls.members.values() if isinstance(one, Attribute)]
        if any(str(base) == "NamedTuple" for base in cls.bases):
            fields = [_parameter(one) for one in own if one.annotation]
            made = Function("__init__", parameters=Parameters(Parameter("self"), *fields))
            cls.set_member("__init__", made)
        for one in own:
            one.value = None


def _parameter(field: Attribute) -> Parameter:
    kind = ParameterKind.positional_or_keyword
    return Parameter(field.name, annotation=field.annotation, kind=kind, default=field.value)


def fenced(text: str) -> str:
    """Makes blocks of code of the paragraphs of a docstring that are a session.

    >>> print(fenced("Adds.\\n\\n>>> 1 + 1\\n2"))
    Adds.
    <BLANKLINE>
    ```python
    >>> 1 + 1
    2
    ```
    """
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(
        f"```python\n{inspect.cleandoc(one)}\n```" if one.lstrip().startswith(">>>") else one
        for one in paragraphs
    )


def page_of(chapter: str) -> str:
    """Gives the name of the page about a chapter."""
    return f"api-{chapter.replace('.', '-')}.md"


def api_page(chapter: str) -> str:
    """Writes the page about a chapter: all its names but those that the first page has."""
    module = import_module(chapter)
    names = _names(module)
    # Where a module in it has the same name, that would be meant.
    hidden = [one for one in names if f"{chapter}.{one}" in sys.modules]
    shown = [one for one in names if one not in hidden]
    parts = [
        f"# `{chapter}`\n\n[Docs](index.md) › [Reference](reference.md)\n",
        f"::: {chapter}\n    options:\n      members: [{', '.join(shown)}]\n",
        *(_alone(f"{getattr(module, one).__module__}.{one}") for one in hidden),
    ]
    return "\n".join(parts)


def _alone(name: str) -> str:
    return f"::: {name}\n    options:\n      show_root_heading: true\n"


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
