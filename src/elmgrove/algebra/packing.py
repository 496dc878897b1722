"""Evidence as plain fields and arrays, for messages and files, and back."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.cholesky import epsilon, mirrored
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput

#: Something as fields that JSON holds, and arrays by name.
Packed = tuple[dict[str, Any], dict[str, Array]]


def pack_evidence(evidence: Evidence) -> Packed:
    """Packs evidence into numbers, U's upper triangle and V; the basis goes apart from them."""
    upper = evidence.U.take(_triangle(len(evidence.U)))
    fields = {"energy": evidence.energy, "count": evidence.count}
    if evidence.resolution > epsilon(evidence.U.dtype):
        fields["resolution"] = evidence.resolution
    return fields, {"U": upper, "V": evidence.V}


def unpack_evidence(basis: Basis, fields: dict[str, Any], arrays: dict[str, Array]) -> Evidence:
    """Makes evidence of what ``pack_evidence`` gave."""
    units, upper = basis.layer.units, arrays["U"]
    # Before anything of that size is made: an unknown sender may have stated it.
    if upper.shape != (units * (units + 1) // 2,):
        raise BadInput(f"{upper.shape} is not the upper triangle of {units} × {units}")
    U = np.zeros((units, units), upper.dtype)
    U.reshape(-1)[_triangle(units)] = upper
    return Evidence(
        basis,
        mirrored(U),
        arrays["V"],
        energy=fields["energy"],
        count=fields["count"],
        resolution=fields.get("resolution", 0.0),
    )


def pack_part(prefix: str, evidence: Evidence) -> Packed:
    """Packs one evidence among others: the names of its arrays begin with ``prefix``."""
    numbers, arrays = pack_evidence(evidence)
    return numbers, {f"{prefix}.{name}": array for name, array in arrays.items()}


def unpack_part(
    basis: Basis, prefix: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]
) -> Evidence:
    """Makes evidence of what ``pack_part`` gave."""
    parts = {name: arrays[f"{prefix}.{name}"] for name in ("U", "V")}
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
