"""Several blobs as one: each after its length."""

from collections.abc import Iterable, Iterator

from elmgrove.errors import BadFile

_LENGTH = 8


def framed(blob: bytes) -> bytes:
    """One blob as it stands in a bundle."""
    return len(blob).to_bytes(_LENGTH, "little") + blob


def bundle(blobs: Iterable[bytes]) -> bytes:
    """All of them in one; ``unbundle`` gives them back."""
    return b"".join(map(framed, blobs))


def unbundle(bundled: bytes) -> Iterator[bytes]:
    """The blobs of a bundle; ``BadFile`` where it breaks off."""
    start = 0
    while start < len(bundled):
        begin = start + _LENGTH
        end = begin + int.from_bytes(bundled[start:begin], "little")
        if begin > len(bundled) or end > len(bundled):
            raise BadFile("a bundle of contributions that breaks off in the middle")
        yield bundled[begin:end]
        start = end
