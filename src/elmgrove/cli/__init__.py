"""The command ``elmgrove``, and what distributions that add commands to it may use."""

from elmgrove.cli.app import main
from elmgrove.cli.demo.processes import DemoProcesses, Server
from elmgrove.cli.options import notes, tracked

__all__ = ["DemoProcesses", "Server", "main", "notes", "tracked"]
