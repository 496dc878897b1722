"""``elmgrove backup``: all that a SQLite store holds, as one file."""

from pathlib import Path
from typing import Annotated

import typer

from elmgrove.cli.options import notes
from elmgrove.cli.serve import StoreFile, StoreUrl, chosen_store
from elmgrove.errors import require_extra


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The back-up to write.", dir_okay=False)],
    store: StoreUrl = "elmgrove.db",
    store_file: StoreFile = None,
) -> None:
    """Write all that a SQLite store holds to one new file, while a server goes on.

    All that devices were told to be stored before the back-up began is in it. To restore it, stop
    the server and copy it to the store's place. PostgreSQL is backed up with pg_dump.

    Example: [bold]elmgrove backup --store fleet.db backup.db[/]
    """
    where = chosen_store(context, store, store_file)
    require_extra("elmgrove.server.store.backup", "server").back_up(where, file)
    notes.print(f"Wrote {file}.")
