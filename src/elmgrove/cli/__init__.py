"""The command ``elmgrove``, and what the appendix in ``papers`` uses of it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmgrove.cli.app import main

if TYPE_CHECKING:
    from elmgrove.cli.demo.processes import DemoProcesses, DemoServer
    from elmgrove.cli.options import notes, tracked

__all__ = ["DemoProcesses", "DemoServer", "main", "notes", "tracked"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for, since no command needs all of it.
    modules = {"DemoProcesses": "demo.processes", "DemoServer": "demo.processes"}
    modules |= {"notes": "options", "tracked": "options"}
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{modules[name]}"), name)
