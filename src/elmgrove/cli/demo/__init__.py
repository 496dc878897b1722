"""``elmgrove demo``: real processes on this machine that learn from each other."""

from elmgrove.cli.demo.command import demo

__all__ = ["demo"]
