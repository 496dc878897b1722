"""``elmgrove serve``: the exchange as a service."""

import logging
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

import typer

from elmgrove.cli.logs import JSON, TEXT, LogFormat, require_log_format, write_json_lines
from elmgrove.cli.options import file_option, given_by_user, notes, option
from elmgrove.errors import BadInput, require_extra
from elmgrove.exchange.base import is_loopback

StoreUrl = Annotated[
    str, option("SQLite file, or postgresql://... for several servers.", envvar="ELMGROVE_STORE")
]
StoreFile = Annotated[
    Path | None, file_option("File with that URL, which nobody else may read: it has a password.")
]


def chosen_store(context: typer.Context, store: str, store_file: Path | None) -> str:
    given = given_by_user(context, "store") == "COMMANDLINE"
    if store_file is not None:
        if given:
            raise BadInput("give --store or --store-file, not both")
        return _read(store_file)
    if given and _has_password(store):
        notes.print(
            "The password in --store is seen by everybody who lists this machine's processes: "
            "put the URL into ELMGROVE_STORE, or into a file for --store-file."
        )
    return store


def shown_store(store: str) -> str:
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


log = logging.getLogger("elmgrove.server")


def serve(
    context: typer.Context,
    store: StoreUrl = "elmgrove.db",
    store_file: StoreFile = None,
    host: Annotated[str, option("Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, option("Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8470,
    admin_token_file: Annotated[
        Path, option("Keeps the administrator's token, unless ELMGROVE_ADMIN_TOKEN has it.")
    ] = Path("elmgrove.admin"),
    certificate: Annotated[Path | None, file_option("TLS certificate (PEM).")] = None,
    private_key: Annotated[Path | None, file_option("The certificate's key.")] = None,
    client_ca: Annotated[
        Path | None, file_option("Answer only callers with a certificate of this authority (PEM).")
    ] = None,
    root_path: Annotated[str, option("Prefix of paths that a proxy shows, like /elmgrove.")] = "",
    retention: Annotated[
        float, option("Days to keep events and audit, minutes for a week; 0: for ever.", min=0.0)
    ] = 365.0,
    open_metrics: Annotated[
        bool, option("Show /metrics to all, without a token.", "--open-metrics")
    ] = False,
    log_level: Annotated[str, option("debug, info, warning or error.")] = "info",
    log_format: LogFormat = TEXT,
) -> None:
    """Run the server of a fleet, with its dashboard.

    Devices send what they learned, and get what the others learned.

    Example: [bold]elmgrove serve --store fleet.db --port 8470[/]
    """
    for needed in ("starlette", "granian", "prometheus_client", "jinja2", "argon2", "itsdangerous"):
        require_extra(needed, "server")
    server = require_extra("elmgrove.server.app", "server")
    require_log_format(log_format)
    level = logging.getLevelNamesMapping().get(log_level.upper())
    if level is None:
        raise BadInput(f"--log-level: debug, info, warning or error, not {log_level!r}")
    say: Callable[[str], None] = notes.print
    if log_format == JSON:
        write_json_lines(level)
        say = log.info
    else:
        logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s")
    if root_path and not re.fullmatch(r"(/[\w.~-]+)+", root_path):
        raise BadInput(f"--root-path: {root_path!r} is no prefix of paths such as /elmgrove")
    own = ("ui", "v1", "health", "ready", "metrics", "openapi.json")
    if root_path and root_path.split("/")[1] in own:
        raise BadInput(f"--root-path: {root_path!r} is what the server's own paths begin with")
    server.require_certificate_with_key(certificate, private_key, client_ca)
    where = chosen_store(context, store, store_file)
    server.require_store(where)
    admin_token = os.environ.get("ELMGROVE_ADMIN_TOKEN")
    if not admin_token:
        secrets = require_extra("elmgrove.server.secrets", "server")
        admin_token = secrets.load_admin_token(admin_token_file)
        say(f"The administrator's token is in {admin_token_file}.")
    scheme = "http" if certificate is None else "https"

    def begin(port: int) -> None:
        say(f"Serving {shown_store(where)} on {scheme}://{host}:{port} (Ctrl-C ends it).")
        if certificate is None and not is_loopback(host):
            log.warning(
                "Without TLS whoever sees the traffic has tokens and keys: use --certificate and "
                "--private-key, or let a proxy in front do it and nobody else reach this port."
            )
        say(f"The dashboard is at {scheme}://{_reached(host)}:{port}{root_path}/ui/.")

    server.listen(
        where,
        admin_token,
        host=host,
        port=port,
        certificate=certificate,
        private_key=private_key,
        client_ca=client_ca,
        root_path=root_path,
        retention=retention,
        open_metrics=open_metrics,
        begin=begin,
    )


def _reached(host: str) -> str:
    """How a browser on this machine reaches a server that listens on an address."""
    if host in ("", "0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The back-up to write.", dir_okay=False)],
    store: StoreUrl = "elmgrove.db",
    store_file: StoreFile = None,
) -> None:
    """Copy a SQLite store while the server runs.

    To restore it, stop the server and copy it to the store's place. For PostgreSQL use pg_dump.

    Example: [bold]elmgrove backup --store fleet.db backup.db[/]
    """
    where = chosen_store(context, store, store_file)
    require_extra("elmgrove.server.store.store", "server").back_up(where, file)
    notes.print(f"Wrote {file}.")
