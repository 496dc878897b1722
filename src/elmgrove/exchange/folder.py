"""A shared folder as exchange: a network drive, a synchronised directory, a stick."""

import hashlib
import json
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from elmgrove.cooperation import (
    Charter,
    Entry,
    Merged,
    Version,
    address_of,
    entry_from_bytes,
    follows,
)
from elmgrove.errors import BadFile, BadInput, ElmgroveError
from elmgrove.exchange.interface import Listing, Unreachable
from elmgrove.exchange.memory import listing_of, merged_of, version_of
from elmgrove.files import write

log = logging.getLogger("elmgrove.exchange")
CHARTER = "federation.json"
SUFFIX = ".entry"


class FolderExchange:
    """One file a device, which only that device writes, and ``federation.json``.

    Files are replaced as a whole, so a reader sees the old entry or the new one. Whoever may
    write in the folder may write in anybody's name: a folder is for devices that trust each other.
    A file that is damaged or does not belong is left out, with a warning.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.charter = _read_charter(folder)

    @staticmethod
    def create(folder: Path, charter: Charter) -> None:
        """Makes a folder the place of a federation; ``BadInput`` if it is another's already."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / CHARTER
        if path.exists() and _read_charter(folder) != charter:
            raise BadInput(f"{path} defines another federation")
        write(path, json.dumps(charter.fields, indent=2).encode())

    def publish(self, entry: Entry) -> None:
        """See ``Exchange``."""
        self.charter.require(entry)
        path = self._path(entry.origin)
        blob = entry.to_bytes()
        with reaching(self._folder):
            if follows(self._held(path), version_of(blob)):
                write(path, blob)

    def listings(self) -> list[Listing]:
        """See ``Exchange``."""
        return [listing_of(entry, path.stat().st_size) for path, entry in self._entries()]

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        """See ``Exchange``."""
        return [entry for _, entry in self._entries() if entry.origin in origins]

    def merged(self, without: str, known: Merged | None) -> Merged | None:
        """See ``Exchange``. Reads all files, unless none has changed since ``known``."""
        own = self._path(without)
        stamps = [
            (path.name, path.stat().st_size, path.stat().st_mtime_ns)
            for path in self._paths()
            if path != own
        ]
        revision = int.from_bytes(hashlib.sha256(repr(stamps).encode()).digest()[:7], "big")
        if known is not None and known.revision == revision:
            return None
        entries = [entry for path, entry in self._entries() if path != own]
        return merged_of(self.charter, revision, entries)

    def close(self) -> None:
        """See ``Exchange``."""

    def _held(self, path: Path) -> Version | None:
        try:
            return version_of(path.read_bytes()) if path.exists() else None
        except BadFile as error:
            log.warning("%s is damaged and will be replaced: %s", path, error)
            return None

    def _path(self, origin: str) -> Path:
        return self._folder / f"{address_of(origin)}{SUFFIX}"

    def _paths(self) -> list[Path]:
        if not (self._folder / CHARTER).exists():
            raise Unreachable(f"{self._folder} is not there (any more)")
        return sorted(self._folder.glob(f"*{SUFFIX}"))

    def _entries(self) -> Iterator[tuple[Path, Entry]]:
        for path in self._paths():
            try:
                entry = entry_from_bytes(path.read_bytes())
                self.charter.require(entry)
                if self._path(entry.origin) != path:
                    raise BadFile(f"an entry of {entry.origin!r} under another name")
            except (ElmgroveError, OSError) as error:
                log.warning("%s is left out: %s", path, error)
            else:
                yield path, entry


def _read_charter(folder: Path) -> Charter:
    path = folder / CHARTER
    with reaching(folder):
        text = path.read_text(encoding="utf-8")
    try:
        return Charter.from_fields(json.loads(text))
    except ValueError as error:
        raise BadFile(f"{path}: {error}") from error


@contextmanager
def reaching(folder: Path) -> Iterator[None]:
    """A folder that can't be read or written may be there again later."""
    try:
        yield
    except OSError as error:
        raise Unreachable(
            f"{folder}: {error.strerror}; is it there, and may it be used?"
        ) from error
