"""The command ``elmgrove``, and what distributions that add commands to it may use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmgrove.cli.app import main

if TYPE_CHECKING:
    from elmgrove.cli.demo.processes import DemoProcesses, DemoServer
    from elmgrove.cli.federate_rows import Digits
    from elmgrove.cli.options import notes, tracked

__all__ = ["DemoProcesses", "DemoServer", "Digits", "main", "notes", "tracked"]

#: What plug-ins use, by module: loaded when asked for, since no command needs all of it.
_FOR_PLUG_INS = {
    "DemoProcesses": "demo.processes",
    "DemoServer": "demo.processes",
    "Digits": "federate_rows",
    "notes": "options",
    "tracked": "options",
}


def __getattr__(name: str) -> Any:
    if name not in _FOR_PLUG_INS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FOR_PLUG_INS[name]}"), name)
