"""``elmgrove demo``: real processes on this machine that learn from each other."""

from elmgrove.cli.demo.command import demo
from elmgrove.cli.demo.fleet import DemoProcesses, DemoServer

__all__ = ["DemoProcesses", "DemoServer", "demo"]
