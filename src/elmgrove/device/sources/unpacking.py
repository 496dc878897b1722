"""What arrives as text in lines: unpacked where it is gzip, recoded where it is no plain text."""

import codecs
import zlib

from elmgrove.errors import BadInput

_GZIP = b"\x1f\x8b"
# What makes zlib read gzip.
_GZIP_BITS = 31


class Unpacking:
    """Makes pieces of a file, as they arrive, pieces of text that can be split into lines of bytes.

    What begins as gzip does is unpacked. An encoding in which a line feed is not one byte, as in
    UTF-16, becomes UTF-8. All else stays as it is.
    """

    def __init__(self, name: str, encoding: str = "utf-8") -> None:
        self._name = name
        plain = "x\n".encode(encoding).endswith(b"x\n")
        #: The encoding of the text that is given.
        self.encoding = encoding if plain else "utf-8"
        self._decoder = None if plain else codecs.getincrementaldecoder(encoding)("replace")
        self._first: bytes | None = b""
        self._zip: zlib._Decompress | None = None

    def feed(self, data: bytes) -> bytes:
        """Takes the next piece, and gives the text that it brings."""
        if self._first is not None:
            self._first = data = self._first + data
            if len(data) < len(_GZIP) and _GZIP.startswith(data):
                return b""
            if data.startswith(_GZIP):
                self._zip = zlib.decompressobj(_GZIP_BITS)
            self._first = None
        return self._recoded(data if self._zip is None else self._unzipped(data))

    def end(self) -> bytes:
        """Gives what is left at the end; ``BadInput`` where gzip was cut short."""
        rest, self._first = self._first or b"", None
        if self._zip is not None and not self._zip.eof:
            raise self._damaged("it ends too early")
        return self._recoded(rest, final=True)

    @property
    def changes(self) -> bool:
        """Whether the text has other bytes than the file, so that places differ."""
        return self._zip is not None or self._decoder is not None

    def _unzipped(self, data: bytes) -> bytes:
        found = b""
        while data:
            assert self._zip is not None
            if self._zip.eof:
                # One packed file may follow another, or zeros that fill a tape's block.
                data = data.lstrip(b"\0")
                self._zip = zlib.decompressobj(_GZIP_BITS) if data else self._zip
            try:
                found += self._zip.decompress(data)
            except zlib.error as error:
                raise self._damaged(str(error)) from error
            data = self._zip.unused_data
        return found

    def _recoded(self, data: bytes, *, final: bool = False) -> bytes:
        return data if self._decoder is None else self._decoder.decode(data, final).encode()

    def _damaged(self, why: str) -> BadInput:
        return BadInput(f"{self._name}: this is gzip, but damaged or cut short ({why})")
