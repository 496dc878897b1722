"""Results of trials on disk, so that an interrupted run goes on where it was."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from elmgrove import __version__
from elmgrove.algebra import Array
from elmgrove.errors import BadFile
from elmgrove.storage import write
from elmgrove_papers.figure import Numbers


def kept(folder: Path | None, key: Numbers, compute: Callable[[], Numbers]) -> Numbers:
    """What was computed once for this key, or is now; without a folder it always is.

    The key must name everything that the result follows from (settings, seed, ``digest`` of the
    data), in what JSON can hold; it is kept beside the result. This release is part of it; whoever
    changes the code removes the folder.
    """
    if folder is None:
        return compute()
    key = key | {"release": __version__}
    text = json.dumps(key, sort_keys=True)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    if path.exists():
        return _read(path)
    result = compute()
    folder.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps({"key": key, "result": result}, indent=1).encode())
    return result


def _read(path: Path) -> Numbers:
    try:
        found: Numbers = json.loads(path.read_bytes())["result"]
    except (ValueError, KeyError, TypeError) as error:
        raise BadFile(f"{path} holds no trial; remove it, and it is run again") from error
    return found


def digest(*arrays: Array) -> str:
    """A fingerprint of data: other values, shapes or types have another."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()[:16]
