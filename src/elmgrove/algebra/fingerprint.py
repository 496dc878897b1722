"""Fingerprints of settings, and a readable difference between two of them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Longer values are cut where a difference is printed.
_WIDTH = 60


def fingerprint(fields: Mapping[str, Any]) -> str:
    """Computes 32 hexadecimal digits that follow from the fields alone, on every platform."""
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def differences(mine: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> list[str]:
    """Lists each field that differs, a line each, down to the entry of a list or mapping."""
    lines: list[str] = []
    for name in sorted(mine.keys() | theirs.keys()):
        here, there = mine.get(name), theirs.get(name)
        if here != there:
            lines += _difference(f"{path}{name}", here, there)
    return lines


def _difference(path: str, here: Any, there: Any) -> list[str]:
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        return differences(here, there, f"{path}.")
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        at = [i for i, (a, b) in enumerate(zip(here, there, strict=True)) if a != b]
        more = f" (and {len(at) - 1} more)" if len(at) > 1 else ""
        return [f"{path}[{at[0]}]: {_short(here[at[0]])} here, {_short(there[at[0]])} there{more}"]
    return [f"{path}: {_short(here)} here, {_short(there)} there"]


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} values"
    text = repr(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
