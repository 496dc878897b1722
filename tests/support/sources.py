"""Sources of rows for tests: opened, read to the end of what there is, and what was found."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from elmgrove.device.sources import open_source, text
from elmgrove.device.sources.text import Reading, Source
from elmgrove.reading.layout import Layout


@pytest.fixture
def unpaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources look for new rows again at once."""
    monkeypatch.setattr(text, "POLL", 0.0)


@pytest.fixture(name="path")
def path_fixture(tmp_path: Path) -> Path:
    return tmp_path / "fan.csv"


def open_rows(path: Path, *, drop: Any = (), **options: Any) -> Source:
    """A source that ends where its file does, unless it is to follow."""
    return open_source(str(path), **{"follow": False, "layout": Layout(drop=drop), **options})


def read_now(items: Iterable[Any]) -> list[Any]:
    """What there is, until nothing new came so often in a row that nothing more will."""
    found, idle = list[Any](), 0
    for item in items:
        idle = idle + 1 if item is None else 0
        found += [] if item is None else [item]
        if idle == 5:
            break
    return found


def rows_in(items: Iterable[Any]) -> list[list[float]]:
    return [item.row for item in items if isinstance(item, Reading)]


def drop_file(path: Path, content: str | bytes) -> None:
    """A file that was written a while ago."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, (time.time() - 60,) * 2)
