"""``elmgrove serve``: the exchange as a service."""

from pathlib import Path
from typing import Annotated

import typer

from elmgrove.cli.options import notes
from elmgrove.cli.store_option import StoreFile, StoreUrl, chosen_store, shown_store
from elmgrove.errors import require_extra


def serve(
    context: typer.Context,
    store: StoreUrl = "elmgrove.db",
    store_file: StoreFile = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8470,
    admin_token: Annotated[
        str | None,
        typer.Option(
            envvar="ELMGROVE_ADMIN_TOKEN",
            help="The administrator's token \\[default: from the file below].",
        ),
    ] = None,
    admin_token_file: Annotated[
        Path, typer.Option(help="Where that token is kept; made the first time.")
    ] = Path("elmgrove.admin"),
    certificate: Annotated[
        Path | None, typer.Option(help="TLS certificate (PEM).", exists=True, dir_okay=False)
    ] = None,
    private_key: Annotated[
        Path | None, typer.Option(help="The certificate's key.", exists=True, dir_okay=False)
    ] = None,
    max_body: Annotated[int, typer.Option(help="Largest contribution, in bytes.", min=1)] = 2**26,
    audit_days: Annotated[
        float, typer.Option(help="Days for which the audit is kept; 0 = for ever.", min=0.0)
    ] = 365.0,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Run the exchange: devices put what they learned and get what the others learned.

    Example: [bold]elmgrove serve --store fleet.db --port 8470[/]
    """
    require_extra("starlette", "server")
    server = require_extra("elmgrove.server", "server")
    server.require_certificate_with_key(certificate, private_key)
    if admin_token is None:
        admin_token = server.load_admin_token(admin_token_file)
        notes.print(f"The administrator's token is in {admin_token_file}.")
    scheme = "http" if certificate is None else "https"
    where = chosen_store(context, store, store_file)
    notes.print(f"Serving {shown_store(where)} on {scheme}://{host}:{port} (Ctrl-C ends it).")
    server.listen(
        where,
        admin_token,
        host=host,
        port=port,
        certificate=certificate,
        private_key=private_key,
        max_body=max_body,
        audit_days=audit_days,
        log_level=log_level,
    )
