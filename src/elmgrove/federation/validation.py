"""What somebody else stated, checked field by field: each error names the field."""

import json
import sys
from collections.abc import Collection
from typing import Any

from elmgrove.errors import BadInput, require_time

# Whole numbers have 63 bits, as in data bases.
_HIGHEST = 2**63 - 1
# Objects and lists inside each other.
_DEEPEST = 12


def require_fields(what: str, stated: Any, names: Collection[str]) -> dict[str, Any]:
    """Gives an object that has these fields and no others."""
    if not isinstance(stated, dict):
        raise BadInput(f"{what} is an object of JSON, not {_shown(stated)}")
    missing = [n for n in names if n not in stated]
    unknown = [n for n in stated if n not in names]
    if missing:
        raise BadInput(f"{what} has no {missing[0]!r}")
    if unknown:
        raise BadInput(f"{what} has {', '.join(names)}, and no {_shown(unknown[0])}")
    return stated


def require_list(name: str, value: Any, most: int) -> list[Any]:
    """Gives a list of at most so many."""
    if not isinstance(value, list | tuple) or len(value) > most:
        raise BadInput(f"{name} is a list of at most {most}, not {_shown(value)}")
    return list(value)


def require_line(name: str, value: Any, most: int) -> str:
    """Gives a text of 1 to so many printable letters, such as a name."""
    if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
        raise BadInput(f"{name} has 1 to {most} printable letters: {_shown(value)}")
    return value


def require_text(name: str, value: Any, most: int) -> str:
    """Gives a text of at most so many letters, each of which a data base can hold."""
    if not isinstance(value, str) or len(value) > most or not _is_storable(value):
        raise BadInput(f"{name} is a text of at most {most} letters: {_shown(value)}")
    return value


def require_count(name: str, value: Any, most: int = _HIGHEST) -> int:
    """Gives a whole number from 0 to ``most``."""
    if type(value) is not int or not 0 <= value <= most:
        raise BadInput(f"{name} is a whole number from 0 to {most}, not {_shown(value)}")
    return value


def require_number(
    name: str,
    value: Any,
    least: float = -sys.float_info.max,
    most: float = sys.float_info.max,
) -> float:
    """Gives a finite number from ``least`` to ``most``."""
    # A whole number may be larger than any float.
    if type(value) not in (int, float) or not least <= value <= most:
        raise BadInput(f"{name} is a number from {least:g} to {most:g}, not {_shown(value)}")
    return float(value)


def require_moment(name: str, value: Any) -> float:
    """Gives a time in seconds since 1970 that a calendar has."""
    try:
        return require_time(require_number(name, value))
    except BadInput as error:
        raise BadInput(f"{name} is a time in seconds since 1970, not {_shown(value)}") from error


def require_flag(name: str, value: Any) -> bool:
    """Gives what is true or false."""
    if not isinstance(value, bool):
        raise BadInput(f"{name} is true or false, not {_shown(value)}")
    return value


def require_json(name: str, value: Any, most: int) -> None:
    """Raises ``BadInput`` unless it is JSON that any data base holds, of at most so many bytes.

    That is without NaN, NUL and halves of letters, of numbers of 64 bits, and not too deep.
    """
    _require_plain(name, value, _DEEPEST)
    if (size := json_size(value)) > most:
        raise BadInput(f"{name} has {size} bytes as JSON, and at most {most} are taken")


def json_size(value: Any) -> int:
    """Counts the bytes that something has as JSON, as it is sent."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _require_plain(name: str, value: Any, depth: int) -> None:
    if depth == 0:
        raise BadInput(f"{name} is nested more than {_DEEPEST} deep")
    if isinstance(value, dict):
        for key, one in value.items():
            if not isinstance(key, str) or not _is_storable(key):
                raise BadInput(f"{name} has a field called {_shown(key)}, which no name can be")
            _require_plain(name, one, depth - 1)
    elif isinstance(value, list | tuple):
        for one in value:
            _require_plain(name, one, depth - 1)
    elif not _is_scalar(value):
        raise BadInput(f"{name} holds {_shown(value)}, which it can't")


def _is_scalar(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        return _is_storable(value)
    if type(value) is int:
        return -_HIGHEST <= value <= _HIGHEST
    return type(value) is float and abs(value) <= sys.float_info.max


def _is_storable(text: str) -> bool:
    """Whether it is UTF-8 without NUL: JSON can write halves of letters, which nothing keeps."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _shown(value: Any) -> str:
    # Of numbers the size alone: a whole one may have more digits than can be written.
    if type(value) is int and abs(value) > _HIGHEST:
        return f"a number of {value.bit_length()} bits"
    return f"{value!a:.60}" if isinstance(value, str | int | float) else type(value).__name__
