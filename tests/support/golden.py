"""Sealed files: golden ones, altered by somebody who can seal them again, and damaged ones."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmgrove.storage.sealed import seal, unseal
from support.places import GOLDEN


@dataclass(frozen=True)
class Golden:
    """A file in ``tests/golden``, and what it holds as fields and arrays."""

    name: str
    format: str
    fields: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @classmethod
    def read(cls, name: str, kind: str) -> "Golden":
        """With what the file itself says that it holds."""
        fields, arrays = unseal(kind, (GOLDEN / name).read_bytes())
        return cls(name, kind, fields, arrays)

    @property
    def blob(self) -> bytes:
        return (GOLDEN / self.name).read_bytes()

    def require_held(self) -> None:
        """Fails unless the file holds exactly this, and this is sealed as the file."""
        fields, arrays = unseal(self.format, self.blob)
        assert fields == self.fields
        assert arrays.keys() == self.arrays.keys()
        for name, array in self.arrays.items():
            np.testing.assert_array_equal(arrays[name], array, strict=True)
        assert seal(self.format, self.fields, self.arrays) == self.blob

    def resealed(self, fields: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
        """The file with other content and a checksum that fits.

        Fields are named by their path (``basis/layer/units``); ``...`` leaves a part out.
        """
        altered = json.loads(json.dumps(self.fields))
        for path, value in fields.items():
            *parents, last = path.split("/")
            target = altered
            for parent in parents:
                target = target[_key(target, parent)]
            if value is ...:
                del target[_key(target, last)]
            else:
                target[_key(target, last)] = value
        parts = {**self.arrays, **arrays}
        held = {name: part for name, part in parts.items() if part is not ...}
        return seal(self.format, altered, held)


def _key(target: Any, name: str) -> Any:
    return int(name) if isinstance(target, list) else name


def resealed(
    name: str, blob: bytes, change: Callable[[dict[str, Any], dict[str, np.ndarray]], Any]
) -> bytes:
    """Bytes of this format, changed by somebody who can seal them."""
    fields, arrays = unseal(name, blob)
    fields = json.loads(json.dumps(fields))
    arrays = {key: array.copy() for key, array in arrays.items()}
    change(fields, arrays)
    return seal(name, fields, arrays)


def damaged(blob: bytes, step: int = 1) -> Iterator[bytes]:
    """Each truncation of these bytes, and each with one bit changed; of long ones some."""
    for place in range(0, len(blob), step):
        yield blob[:place]
        yield blob[:place] + bytes([blob[place] ^ (1 << place % 8)]) + blob[place + 1 :]
