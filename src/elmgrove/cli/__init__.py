"""The command ``elmgrove``: one file a command."""

from elmgrove.cli.app import main

__all__ = ["main"]
