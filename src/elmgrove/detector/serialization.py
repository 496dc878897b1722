"""An object's state as plain values: kept to go back to, or written to a file.

The state of an object are the attributes that its class annotates, with or without an underscore.
A deque is one array, with a row for each element.
"""

import math
from abc import ABC
from collections import deque
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Packed, pack_part, unpack_part
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput

#: A number that counts something.
Count = Annotated[int, msgspec.Meta(ge=0)]

if TYPE_CHECKING:
    Sums = Evidence
else:

    class Sums(ABC):  # noqa: B024
        """Evidence as it is: msgspec takes data classes apart."""

    Sums.register(Evidence)


@cache
def _annotated(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {n: h for n, h in hints.items() if h is not ClassVar and get_origin(h) is not ClassVar}


def snapshot(value: object) -> Any:
    """Copy a state into dictionaries, lists, numbers, arrays and evidence."""
    if value is None or isinstance(value, bool | int | str | Evidence):
        return value
    if isinstance(value, float):
        # JSON has no infinity.
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list | tuple):
        return [snapshot(one) for one in value]
    if isinstance(value, dict):
        return {str(key): snapshot(one) for key, one in value.items()}
    if isinstance(value, deque):
        return np.array(value, np.float64)
    kind: Any = type(value)
    return {name.lstrip("_"): snapshot(getattr(value, name)) for name in _annotated(kind)}


def restore(target: object, state: Mapping[str, Any]) -> None:
    """Give an object back the state of a ``snapshot``; ``BadInput`` if that is none of its kind."""
    kind: Any = type(target)
    hints = _annotated(kind)
    if state.keys() != {name.lstrip("_") for name in hints}:
        raise BadInput(f"the state of {kind.__name__} has other fields")
    for name, hint in hints.items():
        value, held = state[name.lstrip("_")], getattr(target, name)
        if isinstance(held, deque):
            held.clear()
            held.extend(_elements(hint, value))
        elif _is_alive(hint):
            restore(held, value)
        else:
            setattr(target, name, restored(hint, value))
    if hasattr(target, "complete"):
        # What follows from the rest.
        target.complete()


def restored(hint: Any, value: Any) -> Any:
    """Make a value of a type from its snapshot."""
    try:
        return msgspec.convert(value, hint, strict=False, dec_hook=_as_it_is, str_keys=True)
    except msgspec.ValidationError as error:
        raise BadInput(str(error)) from error


def _is_alive(kind: Any) -> bool:
    """Whether objects of a type are given a state, where those of data classes are made anew."""
    known = isinstance(kind, type) and hasattr(kind, "__annotations__")
    return known and not (is_dataclass(kind) or issubclass(kind, tuple))


def _elements(hint: Any, rows: Array) -> Any:
    (kind,) = get_args(hint)
    if get_origin(kind) is tuple:
        made = get_args(kind)
        return [tuple(of(x) for of, x in zip(made, row, strict=True)) for row in rows.tolist()]
    if rows.size and rows.ndim != (1 if kind is float else 2):
        raise BadInput(f"{rows.ndim} dimensions are not what was kept")
    return rows.tolist() if rows.ndim == 1 else list(rows)


def _as_it_is(kind: Any, value: Any) -> Any:
    if not isinstance(value, get_origin(kind) or kind):
        raise BadInput(f"{value!r:.40} is no {kind}")
    return value


def flattened(state: Any, at: str = "") -> Packed:
    """Divide a snapshot into what JSON holds and arrays, which are named by where they are."""
    arrays = dict[str, Array]()

    def flat(one: Any, at: str) -> Any:
        if isinstance(one, np.ndarray):
            arrays[at] = one
            return {"array": at}
        if isinstance(one, Evidence):
            numbers, more = pack_part(at, one)
            arrays.update(more)
            return {"evidence": at, **numbers}
        if isinstance(one, list):
            return [flat(inner, f"{at}.{index}") for index, inner in enumerate(one)]
        if isinstance(one, dict):
            return {name: flat(inner, f"{at}.{name}") for name, inner in one.items()}
        return one

    return flat(state, at), arrays


def unflattened(fields: Any, arrays: Mapping[str, Array], basis: Basis) -> Any:
    """Make the snapshot again that was ``flattened``."""
    if isinstance(fields, list):
        return [unflattened(one, arrays, basis) for one in fields]
    if not isinstance(fields, dict):
        return fields
    if isinstance(fields.get("array"), str):
        return arrays[fields["array"]]
    if isinstance(at := fields.get("evidence"), str):
        return unpack_part(basis, at, fields, arrays)
    return {name: unflattened(one, arrays, basis) for name, one in fields.items()}
