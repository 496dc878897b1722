"""The command ``elmgrove``."""

from elmgrove.cli.app import main

__all__ = ["main"]
