"""``python -m elmgrove`` is the command ``elmgrove``."""

from elmgrove.cli import main

main()
