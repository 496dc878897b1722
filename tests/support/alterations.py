"""Sealed bytes that somebody has altered."""

from collections.abc import Iterator


def altered(blob: bytes) -> Iterator[bytes]:
    """Gives the bytes with one bit changed, at many places one after the other."""
    for place in range(0, len(blob), 37):
        yield blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :]
