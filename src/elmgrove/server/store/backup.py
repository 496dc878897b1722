"""Back-ups of a SQLite store, made while a server goes on."""

import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import mkstemp

from elmgrove.errors import BadFile, BadInput
from elmgrove.server.store.store import sqlite_path


def back_up(store: str, path: Path) -> None:
    """Write one state of a SQLite store to a new file, whole or not at all.

    All that devices were told to be stored before it began is there. Only its owner may read it.
    Devices' and administrators' secrets are in it as hashes.
    """
    source = sqlite_path(store)
    if source is None:
        raise BadInput("PostgreSQL is backed up with pg_dump: docs/backup.md says how")
    if path.exists():
        raise BadInput(f"{path} is there already: choose another name")
    descriptor, temporary = mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as held:
            held.execute("VACUUM INTO $1", [temporary])
        with closing(sqlite3.connect(temporary)) as copy, copy:
            # Where the copy is restored, revisions count from an earlier number again. For a device
            # that remembers one from before, the same number must not mean the same sums.
            later = random.uniform(1e-5, 1e-3)
            copy.execute("UPDATE federation SET created = created + $1", [later])
        os.fsync(descriptor)
        Path(temporary).rename(path)
    except sqlite3.Error as error:
        raise BadFile(f"{source} could not be backed up: {error}") from error
    finally:
        os.close(descriptor)
        Path(temporary).unlink(missing_ok=True)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
