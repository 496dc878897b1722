"""Optional parts: used when installed, named with their install line when not."""

from importlib import import_module
from typing import Any

from elmgrove.errors import MissingExtra


def extra(module: str, name: str) -> Any:
    """The module, or an error with the line that installs it.

    >>> extra("no_such_module", "demo")
    Traceback (most recent call last):
    elmgrove.errors.MissingExtra: this needs no_such_module: pip install 'elmgrove[demo]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtra(f"this needs {package}: pip install 'elmgrove[{name}]'") from error
