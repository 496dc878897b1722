"""Results of trials on disk, so that an interrupted run goes on where it was."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.files import write
from elmgrove.papers.figure import Numbers

Array = NDArray[Any]


def kept(folder: Path | None, key: Numbers, compute: Callable[[], Numbers]) -> Numbers:
    """What was computed once for this key, or is now; without a folder it always is.

    The key must name everything that the result follows from (settings, seed, ``digest`` of the
    data), in what JSON can hold; it is kept beside the result. Code is not part of it: remove the
    folder after a change to it.
    """
    if folder is None:
        return compute()
    text = json.dumps(key, sort_keys=True)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    if path.exists():
        found: Numbers = json.loads(path.read_text())["result"]
        return found
    result = compute()
    folder.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps({"key": key, "result": result}, indent=1).encode())
    return result


def digest(*arrays: Array) -> str:
    """A fingerprint of data: other values, shapes or types have another."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()[:16]
