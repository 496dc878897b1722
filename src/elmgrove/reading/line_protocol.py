"""InfluxDB line protocol, as Telegraf speaks it: a point a line, read and written."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from elmgrove.errors import BadInput
from elmgrove.reading.cells import plain_name

# As in Telegraf's grammar, a backslash takes the next character with it.
_NAME = r"(?:\\.|[^\\, ])++"
_KEY = r"(?:\\.|[^\\,= ])++"
_STRING = r'"(?:\\.|[^\\"])*+"'
_FIELD = rf'{_KEY}=(?:{_STRING}|[^", ]++)'
_SERIES = re.compile(rf"({_NAME})((?:,{_KEY}={_KEY})*+)")
_LINE = re.compile(rf"{_SERIES.pattern} +({_FIELD}(?:,{_FIELD})*+)(?: +([+-]?\d+))?")
_TAGS = re.compile(rf",({_KEY})=({_KEY})")
_FIELDS = re.compile(rf"({_KEY})=({_STRING}|[^,]++)")
_FLOAT = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?")
_WHOLE = re.compile(r"([+-]?\d+)i|(\d+)u")
_BOOLEANS = {
    **dict.fromkeys(("t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("f", "F", "false", "False", "FALSE"), False),
}


class Point(NamedTuple):
    """One line: what was measured, its tags and fields, and when.

    ``tag_text`` and ``time`` are as they stand in the line, so that a line about the point can have
    them unchanged.
    """

    measurement: str
    tags: dict[str, str]
    fields: dict[str, Any]
    time: str | None = None
    tag_text: str = ""

    def line(self, measurement: str, fields: Mapping[str, Any]) -> str:
        """Writes a point with the tags and the time of this one; without a field, nothing.

        A field that is None, empty or not finite is left out; a list or an object is its JSON.
        """
        written = {key: _written(value) for key, value in fields.items()}
        said = ",".join(f"{key}={value}" for key, value in written.items() if value is not None)
        time = "" if self.time is None else f" {self.time}"
        return f"{measurement}{self.tag_text} {said}{time}\n" if said else ""


def point_of(where: str, text: str) -> Point | None:
    """Reads a line; None where it is blank or a remark, ``BadInput`` where it is no point."""
    text = text.strip(" \t\r\n")
    if not text or text.startswith("#"):
        return None
    found = _LINE.fullmatch(text)
    if found is None:
        raise BadInput(
            f"{where}: not InfluxDB line protocol like cpu,host=a usage=21.5 1714564800000000000, "
            f"but {text!r:.60}"
        )
    name, tags, fields, time = found.groups()
    values = {
        plain_name(_unescaped(key)): _value(where, key, value)
        for key, value in _FIELDS.findall(fields)
    }
    return Point(_unescaped(name), _tags(tags), values, time, tags)


class Measurement:
    """Picks the points of one measurement, and gives each as an object: its fields, and its time.

    ``wanted`` is written as a line begins: a measurement, and tags that a point must have. Without
    it the first point decides, or where ``columns`` are known the first that has one of them.
    """

    def __init__(self, wanted: str | None, columns: Callable[[], list[str]] = list) -> None:
        self._columns, self._stated = columns, wanted is not None
        self._name: str | None = None
        self._tags: dict[str, str] = {}
        if wanted is not None:
            self._name, self._tags = series_of(wanted)
        #: The last point that was picked.
        self.point: Point | None = None
        #: The beginning of the first line that was not.
        self.other: str | None = None
        #: What is worth telling once.
        self.notes: list[str] = []
        self._mixed = False

    def __call__(self, where: str, text: str | bytes) -> dict[str, Any] | None:
        """Reads a line; None where it is no point, or one that was not wanted."""
        try:
            point = point_of(where, text.decode() if isinstance(text, bytes) else text)
        except UnicodeDecodeError as error:
            raise BadInput(f"{where}: not text in UTF-8") from error
        if point is None:
            return None
        if not self._picks(point):
            self._leave(where, point)
            return None
        self._note_mixed(where, point)
        self.point = point
        # Line protocol reserves the name, so no field has it.
        time = {} if point.time is None else {"time": point.time}
        # First of all: a field such as boot_time looks like a time, too.
        return {**time, **point.fields, **time}

    def _picks(self, point: Point) -> bool:
        if self._name is None:
            known = {*self._columns()}
            if not known or known & point.fields.keys():
                self._name = point.measurement
        return point.measurement == self._name and self._tags.items() <= point.tags.items()

    def _leave(self, where: str, point: Point) -> None:
        if self.other is None and self.point is not None and not self._stated:
            self.notes.append(
                f"{where}: rows are the lines of {self._name!r}, and those of "
                f"{point.measurement!r} are none; --measurement chooses"
            )
        self.other = self.other or point.measurement + point.tag_text

    def _note_mixed(self, where: str, point: Point) -> None:
        before = self.point
        if self._mixed or before is None or point.tags == before.tags:
            return
        self._mixed = True
        self.notes.append(
            f"{where}: lines with other tags ({point.tag_text[1:] or 'none'}) than before are rows "
            f"as well; --measurement {point.measurement}{before.tag_text} chooses"
        )


def series_of(text: str) -> tuple[str, dict[str, str]]:
    """Reads a measurement with or without tags, as a line begins."""
    found = _SERIES.fullmatch(text)
    if found is None:
        raise BadInput(
            f"measurement: a name, or a name with tags like cpu,cpu=cpu-total, not {text!r}; "
            "a space, comma or equals sign in it stands behind a backslash"
        )
    return _unescaped(found[1]), _tags(found[2])


def _tags(text: str) -> dict[str, str]:
    return {_unescaped(key): _unescaped(value) for key, value in _TAGS.findall(text)}


def _unescaped(text: str) -> str:
    return re.sub(r"\\([,= ])", r"\1", text) if "\\" in text else text


def _value(where: str, key: str, text: str) -> Any:
    if text.startswith('"'):
        text = text[1:-1]
        return re.sub(r'\\(["\\])', r"\1", text) if "\\" in text else text
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _FLOAT.fullmatch(text):
        return float(text)
    if found := _WHOLE.fullmatch(text):
        # Digits of a number that fits are few; Python refuses to read thousands of them.
        number = int(text[:-1]) if len(text) < 32 else None
        # What 64 bits hold, with a sign and without.
        held = range(-(1 << 63), 1 << 63) if found[1] else range(1 << 64)
        if number is not None and number in held:
            return number
    raise BadInput(f"{where}, field {key!r}: {text!r:.60} is no value of InfluxDB line protocol")


def _written(value: Any) -> str | None:
    if value is None or value in ([], {}):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}i"
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # A line break would end the point.
    text = " ".join(text.splitlines())
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
