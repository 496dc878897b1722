"""Files that a fixture makes for many tests: once, and each test has a copy of them."""

import shutil
import tempfile
from atexit import register
from collections.abc import Callable
from functools import cache
from pathlib import Path


@cache
def _shelf() -> Path:
    """Where the copies are kept until this process ends."""
    made = Path(tempfile.mkdtemp(prefix="elmgrove-made-once-"))
    register(shutil.rmtree, made)
    return made


def made_once(name: str, make: Callable[[], object]) -> None:
    """Makes files in this folder, or copies those that were made under this name before."""
    kept = _shelf() / name
    if not kept.exists():
        there = set(Path().iterdir())
        make()
        kept.mkdir()
        for path in set(Path().iterdir()) - there:
            shutil.copy2(path, kept)
    for path in kept.iterdir():
        shutil.copy2(path, path.name)
