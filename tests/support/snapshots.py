"""States as values that can be compared, and restored from what a file would hold."""

import json
from typing import Any

from elmgrove.algebra import Basis, HiddenLayer
from elmgrove.detector.serialization import flattened, restore, snapshot, unflattened

#: For states that hold no evidence.
ANY = Basis(HiddenLayer(1, 1), 1)


def held(thing: Any) -> tuple[str, dict[str, bytes]]:
    """All that an object holds, to the last bit."""
    fields, arrays = flattened(snapshot(thing))
    return json.dumps(fields), {name: array.tobytes() for name, array in arrays.items()}


def restored(saved: Any, fresh: Any) -> Any:
    """A fresh object with the state of another, through JSON."""
    fields, arrays = flattened(snapshot(saved))
    restore(fresh, unflattened(json.loads(json.dumps(fields)), arrays, ANY))
    return fresh
