"""Evidence as plain fields and arrays, for messages and files, and back."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.linalg import epsilon, mirrored
from elmgrove.algebra.moments import Moments, mixing
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput

#: Something as fields that JSON holds, and arrays by name.
Packed = tuple[dict[str, Any], dict[str, Array]]


def pack_evidence(evidence: Evidence) -> Packed:
    """Packs evidence into its numbers and arrays; the basis goes apart from them.

    Of what is symmetric only the upper triangle is packed, and a centre of 0 is not.
    """
    fields = {name: getattr(evidence, name) for name in evidence.NUMBERS}
    arrays = dict(evidence.arrays)
    first, whole = next(iter(arrays.items()))
    if _is_symmetric(evidence.basis):
        arrays[first] = whole.take(_triangle(len(whole)))
    if isinstance(evidence, Moments) and evidence.centre.any():
        arrays["centre"] = evidence.centre
    if evidence.resolution > epsilon(whole.dtype):
        fields["resolution"] = evidence.resolution
    return fields, arrays


def unpack_evidence(basis: Basis, fields: dict[str, Any], arrays: dict[str, Array]) -> Evidence:
    """Makes evidence of what ``pack_evidence`` gave."""
    resolution = fields.get("resolution", 0.0)
    if basis.score == "loss":
        U, V = _square(basis.layer.units, arrays["U"]), arrays["V"]
        return Evidence(basis, U, V, fields["energy"], fields["count"], resolution)
    C = _square(basis.inputs, arrays["C"]) if _is_symmetric(basis) else arrays["C"]
    s, e, centre = arrays["s"], arrays["e"], arrays.get("centre")
    return Moments(basis, C, s, e, fields["count"], centre, resolution)


def array_names(basis: Basis) -> tuple[str, ...]:
    """Names the arrays that evidence of this basis may be packed in."""
    return Evidence.ARRAYS if basis.score == "loss" else (*Moments.ARRAYS, "centre")


def numbers_in(basis: Basis) -> int:
    """Counts the numbers that evidence is packed in, beside its count and where its centre lies."""
    # Nothing of that size is made: an unknown sender may have stated it.
    units, inputs = basis.layer.units, basis.inputs
    if basis.score == "loss":
        return units * (units + 1) // 2 + units * basis.outputs
    products = units * inputs if units < inputs else inputs * (inputs + 1) // 2
    return products + 2 * inputs


def _is_symmetric(basis: Basis) -> bool:
    return basis.score == "loss" or mixing(basis) is None


def _square(size: int, upper: Array) -> Array:
    # Before anything of that size is made: an unknown sender may have stated it.
    if upper.shape != (size * (size + 1) // 2,):
        raise BadInput(f"{upper.shape} is not the upper triangle of {size} × {size}")
    square = np.zeros((size, size), upper.dtype)
    square.reshape(-1)[_triangle(size)] = upper
    return mirrored(square)


def pack_part(prefix: str, evidence: Evidence) -> Packed:
    """Packs one evidence among others: the names of its arrays begin with ``prefix``."""
    numbers, arrays = pack_evidence(evidence)
    return numbers, {f"{prefix}.{name}": array for name, array in arrays.items()}


def unpack_part(
    basis: Basis, prefix: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]
) -> Evidence:
    """Makes evidence of what ``pack_part`` gave."""
    names = {name: f"{prefix}.{name}" for name in array_names(basis)}
    parts = {name: arrays[long] for name, long in names.items() if long in arrays}
    return unpack_evidence(basis, dict(fields), parts)


def pack_parts(
    prefix: str, parts: Sequence[Evidence]
) -> tuple[list[dict[str, Any]], dict[str, Array]]:
    """Packs several pieces of evidence, their arrays under numbered names."""
    fields, arrays = list[dict[str, Any]](), dict[str, Array]()
    for index, part in enumerate(parts):
        numbers, more = pack_part(f"{prefix}.{index}", part)
        fields.append(numbers)
        arrays |= more
    return fields, arrays


def unpack_parts(
    basis: Basis, prefix: str, fields: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array]
) -> tuple[Evidence, ...]:
    """Makes the pieces of evidence of what ``pack_parts`` gave."""
    return tuple(
        unpack_part(basis, f"{prefix}.{index}", one, arrays) for index, one in enumerate(fields)
    )


@lru_cache(maxsize=8)
def _triangle(units: int) -> NDArray[np.intp]:
    """Where U's upper triangle lies in its memory, row by row."""
    rows, columns = np.triu_indices(units)
    return rows * units + columns
