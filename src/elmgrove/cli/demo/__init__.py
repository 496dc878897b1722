"""``elmgrove demo``: real processes on this machine that learn from each other."""

from elmgrove.cli.demo.command import demo
from elmgrove.cli.demo.digits import PIXELS, Digits
from elmgrove.cli.demo.processes import DemoProcesses, DemoServer

__all__ = ["PIXELS", "DemoProcesses", "DemoServer", "Digits", "demo"]
