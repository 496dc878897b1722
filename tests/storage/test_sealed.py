"""Sealed bytes come back whole or not at all."""

import hashlib
import io
import json
import tracemalloc
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from elmgrove import BadFile
from elmgrove.errors import BadInput
from elmgrove.storage.sealed import VERSION, format_of, seal, unseal
from support.laws import law_examples
from support.places import GOLDEN

FIELDS = {"name": "Lüfter", "small": 1e-05, "count": 3, "none": None, "list": [1, [2.5, "x"]]}
ARRAYS = {
    "rows": np.arange(6.0).reshape(2, 3),
    "single": np.array([1.5], np.float32),
    "empty": np.empty((0, 4)),
    "flags": np.array([1, 2], np.int64),
}
BLOB = seal("kind", FIELDS, ARRAYS)

numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers()
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def as_one(fields: dict[str, Any], arrays: dict[str, np.ndarray]) -> object:
    """Something that is equal exactly when fields and arrays are, to the last bit."""
    parts = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}
    return fields, parts


def with_header(text: str) -> bytes:
    """What anybody could write who knows where the header goes."""
    return bytes(save(ARRAYS, metadata={"elmgrove": text}))


def header(**changes: Any) -> str:
    plain = {"format": "kind", "version": VERSION, "sha256": "0" * 64, "fields": {}}
    return json.dumps({**plain, **changes}, sort_keys=True, separators=(",", ":"))


# Whole


def test_what_was_sealed_comes_back_to_the_last_bit() -> None:
    assert as_one(*unseal("kind", BLOB)) == as_one(FIELDS, ARRAYS)
    assert format_of(BLOB) == "kind"


@settings(max_examples=law_examples(40), deadline=None)
@given(st.dictionaries(st.text(), json_values, max_size=4), st.randoms())
def test_any_fields_come_back_and_their_order_does_not_show(
    fields: dict[str, Any], random: Any
) -> None:
    blob = seal("kind", fields, ARRAYS)
    assert unseal("kind", blob)[0] == fields
    shuffled = list(fields.items())
    random.shuffle(shuffled)
    backwards = dict(reversed(ARRAYS.items()))
    assert seal("kind", dict(shuffled), backwards) == blob


@pytest.mark.parametrize(
    "name", ["state-2.elm", "state-2-loss.elm", "fan-1.evidence", "fan-1-loss.evidence"]
)
def test_a_file_can_be_read_and_checked_with_nothing_but_its_description(name: str) -> None:
    """docs/files.md, followed by hand: length, header, tensors, checksum."""
    blob = (GOLDEN / name).read_bytes()
    start = 8 + int.from_bytes(blob[:8], "little")
    outer = json.loads(blob[8:start])
    inner = json.loads(outer.pop("__metadata__")["elmgrove"])
    stated = inner.pop("sha256")
    digest = hashlib.sha256(json.dumps(inner, sort_keys=True, separators=(",", ":")).encode())
    dtypes = {"F64": "<f8", "F32": "<f4", "I64": "<i8"}
    for tensor in sorted(outer):
        shape, (low, high) = tuple(outer[tensor]["shape"]), outer[tensor]["data_offsets"]
        digest.update(f"{tensor} {dtypes[outer[tensor]['dtype']]} {shape}".encode())
        digest.update(blob[start + low : start + high])
    assert digest.hexdigest() == stated


# Damaged


def test_every_truncation_is_refused() -> None:
    for length in range(len(BLOB)):
        with pytest.raises(BadFile):
            unseal("kind", BLOB[:length])


def test_every_flipped_bit_is_refused() -> None:
    for place in range(len(BLOB)):
        for bit in range(8):
            altered = bytearray(BLOB)
            altered[place] ^= 1 << bit
            with pytest.raises(BadFile):
                unseal("kind", bytes(altered))


@settings(max_examples=law_examples(150), deadline=None)
@given(st.data())
def test_any_other_alteration_is_refused_or_changes_nothing(data: st.DataObject) -> None:
    """Nothing is changed by other blanks between header and tensors: they mean nothing."""
    start = data.draw(st.integers(0, len(BLOB)))
    end = data.draw(st.integers(start, min(len(BLOB), start + 20)))
    altered = BLOB[:start] + data.draw(st.binary(max_size=20)) + BLOB[end:]
    try:
        read = unseal("kind", altered)
    except BadFile:
        return
    assert as_one(*read) == as_one(FIELDS, ARRAYS)


@settings(max_examples=law_examples(150), deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_are_refused(noise: bytes, with_length: bool) -> None:
    blob = len(noise).to_bytes(8, "little") + noise if with_length else noise
    with pytest.raises(BadFile, match="not a file of Elmgrove's"):
        unseal("kind", blob)


# Foreign


def a_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "a")
    return buffer.getvalue()


FOREIGN = {
    "empty": b"",
    "short": b"elm",
    "text": b"temperature,load\n1,2\n" * 20,
    "json": b'{"elmgrove": 1}',
    "zip": a_zip(),
    "plain safetensors": bytes(save(ARRAYS)),
    "safetensors of somebody else": bytes(save(ARRAYS, metadata={"format": "pt"})),
    "length beyond the end": (10**6).to_bytes(8, "little") + BLOB[8:],
    "length beyond any memory": b"\xff" * 8 + BLOB[8:],
    "length 0": bytes(8) + BLOB[8:],
    "header without content": with_header("{}"),
    "header that is a list": with_header("[1, 2]"),
    "header that is no JSON": with_header("elmgrove"),
    "no fields": with_header('{"format":"kind","version":1,"sha256":"0"}'),
    "a version that is no number": with_header(header(version="one")),
    "a version that is a list": with_header(header(version=[1])),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_refused_by_name(name: str) -> None:
    for read in (lambda: unseal("kind", FOREIGN[name]), lambda: format_of(FOREIGN[name])):
        with pytest.raises(BadFile, match="not a file of Elmgrove's"):
            read()


@pytest.mark.parametrize("depth", [10, 500, *range(960, 1000), 5000, 100_000])
def test_nested_lists_break_no_reader(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    bomb = nested.encode()
    sealed_bomb = '{"format":"kind","version":1,"sha256":"0","fields":' + nested + "}"
    for blob in (len(bomb).to_bytes(8, "little") + bomb, with_header(sealed_bomb)):
        with pytest.raises(BadFile):
            unseal("kind", blob)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 5000])
@pytest.mark.parametrize("place", ["version", "fields"])
def test_numbers_that_are_none_are_refused(number: str, place: str) -> None:
    text = header(**{place: 12345}).replace("12345", number)
    with pytest.raises(BadFile):
        unseal("kind", with_header(text))


def test_a_header_that_is_longer_than_any_is_neither_read_nor_written() -> None:
    """Read as JSON, sixty megabytes of it once took more than a gigabyte."""
    room = (1 << 22) - len(header(fields={"name": ""})) - 1000
    assert unseal("kind", seal("kind", {"name": "x" * room}, {}))[0] == {"name": "x" * room}
    with pytest.raises(BadInput, match="fewer columns"):
        seal("kind", {"name": "x" * (1 << 22)}, {})
    text = b'{"__metadata__": {"elmgrove": [' + b"[]," * 1_400_000 + b"1]}}"
    tracemalloc.start()
    try:
        with pytest.raises(BadFile, match="not a file of Elmgrove's"):
            format_of(len(text).to_bytes(8, "little") + text)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_the_checksum_is_not_optional() -> None:
    with pytest.raises(BadFile, match="checksum"):
        unseal("kind", with_header(header()))


# Of another format or time


@pytest.mark.parametrize("version", [VERSION + 1, 10**6])
def test_a_newer_version_is_named_and_needs_nothing_else_to_fit(version: int) -> None:
    with pytest.raises(BadFile, match=f"version {version} of the format by a newer Elmgrove"):
        unseal("kind", with_header(header(version=version)))
