"""Rows from lines that name their values: JSON objects, and points of InfluxDB line protocol."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from elmgrove.errors import BadInput
from elmgrove.reading.cells import plain_name
from elmgrove.reading.columns import Columns, Header
from elmgrove.reading.csv import LOOK, Cells, Numbers, whole_lines
from elmgrove.reading.layout import Layout

#: Reads a line as an object; None where it is none and need not be, ``BadInput`` where it is bad.
ObjectReader = Callable[[str, str | bytes], dict[str, Any] | None]


class ObjectBlock:
    """Some lines of a file of objects, one a line."""

    def __init__(
        self, name: str, text: bytes, first: int, keys: Sequence[str], read: ObjectReader
    ) -> None:
        self._name, self._text, self._first, self._keys = name, text, first, keys
        self._read = read

    def numbers(self, columns: Columns, decimal: str) -> Numbers | None:
        """None: objects are read one by one."""
        return None

    def records(self) -> Iterator[tuple[int, Cells]]:
        """The values of each object, in the order of the keys, with its line."""
        for line, data in enumerate(self._text.split(b"\n"), self._first):
            if not data.strip():
                continue
            try:
                found = self._read(f"{self._name}, line {line}", data)
            except BadInput as error:
                yield line, error
            else:
                if found is not None:
                    yield line, [found.get(key) for key in self._keys]


class ObjectText:
    """A file of objects, one a line: its first objects' keys are the columns."""

    unit = "line"

    def __init__(self, name: str, file: BinaryIO, layout: Layout, read: ObjectReader) -> None:
        self._name, self._file, self._encoding = name, file, layout.encoding
        self._read = read
        self.notes: list[str] = []
        found = _first_objects(name, next(self._texts(), b""), read)
        keys = list(dict.fromkeys(key for one in found for key in one))
        self.header = Header(name, keys, True, [[one.get(key) for key in keys] for one in found])

    def blocks(self) -> Iterator[ObjectBlock]:
        """The lines, many at a time."""
        line = 1
        for text in self._texts():
            yield ObjectBlock(self._name, text, line, self.header.cells, self._read)
            line += text.count(b"\n")

    def _texts(self) -> Iterator[bytes]:
        self._file.seek(0)
        return whole_lines(self._name, self._file, self._encoding)


def json_object(where: str, text: str | bytes) -> dict[str, Any]:
    """Reads a line as a JSON object; ``BadInput`` if it is none."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{where}: not JSON ({error})") from error
    except RecursionError as error:
        raise BadInput(f"{where}: JSON that is nested too deeply") from error
    if not isinstance(found, dict):
        raise BadInput(f'{where}: not a JSON object like {{"temp": 21.5}}, but {found!r:.40}')
    if not all(map(str.isprintable, found)):
        return {plain_name(key): value for key, value in found.items()}
    return found


def _first_objects(name: str, text: bytes, read: ObjectReader) -> list[dict[str, Any]]:
    """The first objects among lines; ``BadInput`` if all are bad."""
    found, bad = list[dict[str, Any]](), list[BadInput]()
    for line, data in enumerate(text.split(b"\n"), 1):
        try:
            one = read(f"{name}, line {line}", data) if data.strip() else None
        except BadInput as error:
            bad.append(error)
        else:
            found += [] if one is None else [one]
        if len(found) == LOOK:
            break
    if bad and not found:
        raise bad[0]
    return found
