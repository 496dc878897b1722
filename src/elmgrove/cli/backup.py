"""``elmgrove backup`` and ``restore``: all that a server's store holds, as one file."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from elmgrove.cli.options import bar, notes
from elmgrove.cli.store_option import StoreFile, StoreUrl, chosen_store, shown_store
from elmgrove.errors import require_extra

# Seconds after which there is something to see.
_SOON = 2.0


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The back-up to write.", dir_okay=False)],
    store: StoreUrl = "elmgrove.db",
    store_file: StoreFile = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file of that name.")] = False,
) -> None:
    """Write all that a store holds to one file, while servers go on.

    SQLite is copied by its own online back-up, PostgreSQL by pg_dump. All that devices were told to
    be stored before the back-up began is in it. It is read once more before it gets its name.

    Example: [bold]elmgrove backup --store fleet.db backup.db[/]
    """
    where = chosen_store(context, store, store_file)
    with _progress(f"Writing {file.name}") as tell:
        held = _server().back_up(where, file, tell=tell, force=force)
    notes.print(f"Wrote {file}: {held}.")


def restore(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="The back-up to restore.", exists=True, dir_okay=False)
    ],
    store: StoreUrl = "elmgrove.db",
    store_file: StoreFile = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace all that the store holds.")
    ] = False,
) -> None:
    """Put a back-up into a store that no server uses.

    The back-up is read to its end before anything is changed. Devices then publish what is newer,
    by themselves.

    Example: [bold]elmgrove restore backup.db --store fleet.db[/]
    """
    where = chosen_store(context, store, store_file)
    with _progress(f"Restoring {file.name}") as tell:
        held = _server().restore(file, where, tell=tell, force=force)
    notes.print(f"Restored {shown_store(where)}: {held}.")
    notes.print(
        "What was revoked or deleted since then is valid again: revoke and delete it once more. "
        "Devices that joined or got a new key since then need one again."
    )


def _server() -> Any:
    return require_extra("elmgrove.server", "server")


@contextmanager
def _progress(text: str) -> Iterator[Any]:
    """Gives what takes the share that is done, and shows it if that takes long."""
    begin, progress = time.monotonic(), bar()
    task = progress.add_task(text)

    def tell(share: float | None) -> None:
        if time.monotonic() - begin > _SOON:
            progress.start()
            known = {"total": None} if share is None else {"total": 1.0, "completed": share}
            progress.update(task, refresh=True, **known)

    try:
        yield tell
    finally:
        progress.stop()
