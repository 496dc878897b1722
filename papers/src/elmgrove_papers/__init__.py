"""The papers' figures and tables, run again on the published data."""

from importlib import import_module
from typing import Any

from elmgrove.errors import MissingExtra

__version__ = "0.1.0"


def require_package(module: str) -> Any:
    """Imports a large module when it is needed, or says how to install it.

    >>> require_package("no_such_module")
    Traceback (most recent call last):
    elmgrove.errors.MissingExtra: this needs no_such_module: pip install elmgrove-papers
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtra(f"this needs {package}: pip install elmgrove-papers") from error
