"""Which store a command is about: a URL with a password has no place on the command line."""

import os
import stat
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

import typer

from elmgrove.cli.options import notes
from elmgrove.errors import BadInput

StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        help="SQLite file, or postgresql://... for several servers at once.",
        envvar="ELMGROVE_STORE",
    ),
]
StoreFile = Annotated[
    Path | None,
    typer.Option(
        "--store-file",
        help="File with that URL, which nobody else may read: for one with a password.",
        exists=True,
        dir_okay=False,
    ),
]


def chosen_store(context: typer.Context, store: str, store_file: Path | None) -> str:
    """Gives the URL of the store: that of the file, or what was given."""
    source = context.get_parameter_source("store")
    # By name: releases of Typer bring the enumeration from different packages.
    given = source is not None and source.name == "COMMANDLINE"
    if store_file is not None and given:
        raise BadInput("give --store or --store-file, not both")
    if store_file is not None:
        return _read(store_file)
    if given and _has_password(store):
        notes.print(
            "The password in --store is seen by everybody who lists this machine's processes: "
            "put the URL into ELMGROVE_STORE, or into a file for --store-file."
        )
    return store


def shown_store(store: str) -> str:
    """Gives what may be shown of a store: neither user nor password."""
    if "://" not in store:
        return store
    parts = urlsplit(store)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else store


def _read(path: Path) -> str:
    mode, credentials = path.stat().st_mode, os.environ.get("CREDENTIALS_DIRECTORY")
    # What systemd hands to a service is that service's alone, whatever its mode says.
    handed = credentials is not None and path.absolute().is_relative_to(credentials)
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077 and not handed:
        raise BadInput(f"{path} can be read by others: chmod 600 {path}")
    text = path.read_text(encoding="utf-8").strip()
    if not text:
        raise BadInput(f"{path} is empty: write the URL of the store into it")
    return text


def _has_password(store: str) -> bool:
    if "://" not in store:
        return False
    parts = urlsplit(store)
    return ":" in parts.netloc.rpartition("@")[0] or "password" in dict(parse_qsl(parts.query))
