"""Settings as a user meets them: from a TOML file, with their help, their types and groups."""

import tomllib
import typing
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from elmgrove.device.settings import Settings
from elmgrove.errors import BadInput


def read_settings(path: Path | None, given: dict[str, Any]) -> Settings:
    """Reads the file, if there is one; what flags and environment say takes precedence."""
    table = {} if path is None else _read(path)
    told = table | given
    if str(told.get("token", "")).startswith("@"):
        told["token"] = _secret_in(Path(told["token"][1:]))
    made = Settings(**told)
    # Not a field, since every field is a setting.
    object.__setattr__(made, "given", frozenset(table | given))
    return made


def _secret_in(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"token: {path} can't be read: {error}") from error


def help_of(setting: str) -> str:
    """Gives the sentence that says what a setting is for."""
    return str(_hint(setting).__metadata__[0])


def type_of(setting: str) -> Any:
    """Gives the type of a setting's value."""
    return typing.get_args(_hint(setting))[0]


def group_of(setting: str) -> str:
    """Gives the group in which a setting is shown."""
    return str(_hint(setting).__metadata__[1])


def _hint(setting: str) -> Any:
    return typing.get_type_hints(Settings, include_extras=True)[setting]


def _read(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error
    known = {one.name for one in fields(Settings)}
    for key, value in table.items():
        if key not in known:
            near = get_close_matches(key, known, n=2)
            meant = f"did you mean {' or '.join(near)}? " if near else ""
            if isinstance(value, dict):
                meant = f"settings stand above any [{key}]; "
            raise BadInput(
                f"{path}: no setting is called {key!r}; {meant}'elmgrove device settings' lists all"
            )
        table[key] = _fitting(path, key, value)
    return table


def _fitting(path: Path, key: str, value: Any) -> Any:
    wanted = type_of(key)
    if wanted is float and type(value) is int:
        return float(value)
    if wanted == list[str]:
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
    else:
        fits = type(value) is wanted
    if not fits:
        raise BadInput(
            f"{path}: {key} = {value!r} is not of type {getattr(wanted, '__name__', wanted)}"
        )
    return value
