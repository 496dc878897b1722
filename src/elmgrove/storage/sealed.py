"""Arrays and settings as sealed bytes: safetensors, versioned, checksummed, never pickle."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from elmgrove.errors import BadFile, BadInput

Array = NDArray[Any]

#: The version written; newer ones are refused by name, and so is what came before 0.2.
VERSION = 2
_KEY = "elmgrove"
# More bytes than any header has (some 40,000 columns): what JSON makes of a stranger's takes thirty
# times as much memory.
_LONGEST = 2**22


def seal(format_: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Makes one blob that ``unseal`` opens; equal content gives equal bytes."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = _canonical({"format": format_, "version": VERSION, "fields": fields})
    text = _with_checksum(header, _checksum(header, arrays))
    blob = bytes(save(arrays, metadata={_KEY: text}))
    if _header_length(blob) > _LONGEST:
        raise BadInput(f"names and settings of more than {_LONGEST:,} bytes: use fewer columns")
    return blob


def unseal(format_: str, blob: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """Opens a blob that is whole and unaltered; ``BadFile`` for anything else."""
    header, unsigned = _header(blob)
    if header["format"] != format_:
        raise BadFile(f"this holds {header['format']!r}, not {format_!r}")
    if header["version"] != VERSION:
        age = "a newer Elmgrove" if header["version"] > VERSION else "an Elmgrove before 0.2"
        raise BadFile(
            f"written in version {header['version']} of the format by {age}; "
            f"this one reads version {VERSION}"
        )
    try:
        arrays = load(blob)
    except (SafetensorError, KeyError) as error:
        # KeyError: a type of number that safetensors knows and NumPy does not.
        raise BadFile(f"truncated or damaged: {error}") from error
    if header["sha256"] != _checksum(unsigned, arrays):
        raise BadFile("altered since it was written: the checksum does not fit the content")
    return header["fields"], arrays


def format_of(blob: bytes) -> str:
    """Reads what a blob says it holds."""
    return str(_header(blob)[0]["format"])


def head_of(file: BinaryIO) -> bytes:
    """Reads the beginning of a sealed file, which differs where the content does."""
    length = file.read(8)
    return length + file.read(min(int.from_bytes(length, "little"), _LONGEST))


@contextmanager
def unpacking(what: str) -> Iterator[None]:
    """Turns any error inside ``with`` into ``BadFile``: sealed, but not made by the rules."""
    try:
        yield
    except Exception as error:  # a stranger's fields can fail in any way there is
        raise BadFile(f"sealed by Elmgrove, but not as {what} should be: {error}") from error


def require_written_as(
    made: tuple[Mapping[str, Any], Mapping[str, Array]],
    fields: Mapping[str, Any],
    arrays: Mapping[str, Array],
) -> None:
    """Raises ``BadInput`` unless what was made would be written exactly as it was read.

    A field of the wrong type or an array of the wrong shape that nothing stumbled over would
    be half a model; such a one is never written the way it was read.
    """
    if _canonical(made[0]) != _canonical(fields) or not _same(made[1], arrays):
        raise BadInput("a field or an array does not fit the others")


def _same(made: Mapping[str, Array], read: Mapping[str, Array]) -> bool:
    # By their bytes: −0 is not 0 here, and what is no number equals itself.
    return made.keys() == read.keys() and all(
        array.dtype == read[name].dtype
        and array.shape == read[name].shape
        and array.tobytes() == read[name].tobytes()
        for name, array in made.items()
    )


def _header(blob: bytes) -> tuple[dict[str, Any], str]:
    """The header, and its text without the checksum."""
    length = _header_length(blob)
    try:
        if length > _LONGEST:
            raise ValueError("longer than any")
        text = json.loads(blob[8 : 8 + length])["__metadata__"][_KEY]
        header = json.loads(text)
        header["format"], header["version"] + 0, header["fields"]
        unsigned = _canonical({name: header[name] for name in header if name != "sha256"})
        # JSON has many ways to write one number, and some that are none (1e999): one is enough.
        if text != _with_checksum(unsigned, header["sha256"]):
            raise ValueError("not as it was written")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadFile("not a file of Elmgrove's, or its beginning is damaged") from error
    return dict(header), unsigned


def _with_checksum(header: str, checksum: str) -> str:
    # At its place in the order of names: writing all of them a second time takes a while.
    before, version, after = header.rpartition(',"version":')
    return f'{before},"sha256":"{checksum}"{version}{after}'


def _header_length(blob: bytes) -> int:
    return int.from_bytes(blob[:8], "little")


def _checksum(header: str, arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _canonical(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
