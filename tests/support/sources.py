"""Sources of rows for tests: opened, read to the end of what there is, and what was found."""

import json
import os
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from elmgrove.device.sources import open_source, text
from elmgrove.device.sources.mqtt import MOST_NAMES
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


# Messages that no sensor sends.


def hostile() -> dict[str, str | bytes]:
    """What no sensor sends."""
    many = {f"k{number}": number for number in range(MOST_NAMES + 10)}
    return {
        "binary": bytes(range(256)),
        "zeros": bytes(1000),
        "deep": '{"temp": ' + "[" * 100_000 + "]" * 100_000 + "}",
        "deep object": '{"temp": ' * 50_000 + "1" + "}" * 50_000,
        "no number": '{"temp": NaN, "flow": 1}',
        "endless": '{"temp": 1e999, "flow": -Infinity}',
        "digits": '{"temp": ' + "9" * 10_000 + ', "flow": 1}',
        "null": "null,null",
        "many": json.dumps(many),
        "cells": ",".join("1" * 20_000),
        "quote": '"1,2',
        "text": '{"temp": "warm", "flow": {}}',
        "surrogate": '{"temp": "\\ud800", "flow": 1}',
        "half": '{"temp": 1, "flow"',
        "gzip": b"\x1f\x8b\x08\x00" + bytes(50),
        "workbook": b"PK\x03\x04[Content_Types].xml",
        "long": '{"temp": "' + "x" * 900_000 + '"}',
    }


def random_messages(number: int, seed: int) -> list[bytes]:
    """Rows that were damaged, each in some way of its own, and bytes that never were one."""
    rng = random.Random(seed)
    found = list[bytes]()
    for _ in range(number):
        row = bytearray(b'{"rpm": 1400.5, "temp": 61.25, "volt": 230, "amp": 6.5}')
        for _ in range(rng.randint(1, 8)):
            place = rng.randrange(len(row))
            kind = rng.randrange(3)
            if kind == 0:
                row[place] = rng.randrange(256)
            elif kind == 1:
                del row[place:]
                row += b"{"
            else:
                row[place:place] = rng.randbytes(rng.randint(1, 40))
        found.append(bytes(row) if rng.random() < 0.8 else rng.randbytes(rng.randint(1, 400)))
    return found
