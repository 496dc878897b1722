"""``python -m elmgrove`` is the command ``elmgrove``."""

from elmgrove.cli.app import main

main()
