"""A shared folder as exchange: a network drive, a synchronised directory, a stick."""

import hashlib
import json
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from elmgrove.errors import BadFile, BadInput, ElmgroveError, Refused, Unreachable
from elmgrove.exchange.base import BareExchange, Listing, listing_of, version_of
from elmgrove.federation.charter import Charter, address_of
from elmgrove.federation.contribution import Entry, entry_from_bytes
from elmgrove.federation.ledger import Version, follows
from elmgrove.federation.others import content_limit
from elmgrove.storage.disk import takes_nothing, write
from elmgrove.storage.sealed import head_of

log = logging.getLogger("elmgrove.exchange")
CHARTER = "federation.json"
SUFFIX = ".entry"


class FolderExchange(BareExchange):
    """One file a device, which only that device writes, and ``federation.json``.

    Files are replaced as a whole, so a reader sees the old entry or the new one. Any program that
    may write in the folder may write in any device's name: a folder is for devices that trust each
    other. A file that is damaged, too long or does not belong is left out, with a warning.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._charter: Charter | None = None
        # Why files were left out the last time: the same is told once.
        self._left_out = dict[Path, str]()

    @property
    def charter(self) -> Charter:
        """The federation's charter, read once."""
        if self._charter is None:
            self._charter = _read_charter(self._folder)
        return self._charter

    def forget_charter(self) -> None:
        """Lets the charter be read again."""
        self._charter = None

    @staticmethod
    def create(folder: Path, charter: Charter) -> None:
        """Makes a folder the place of a federation; ``BadInput`` if it is another's already."""
        path = folder / CHARTER
        with reaching(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if path.exists() and _read_charter(folder) != charter:
                raise BadInput(f"{path} defines another federation")
            write(path, json.dumps(charter.fields, indent=2).encode())

    def publish(self, entry: Entry) -> None:
        """Writes a device's entry in the place of its former one; see ``Exchange``.

        A folder that is full or read-only refuses it, and what others left there can be read.
        """
        self.charter.require(entry)
        path = self._path(entry.origin)
        blob = entry.to_bytes()
        with reaching(self._folder):
            if not follows(self._held(path), version_of(blob)):
                return
            try:
                write(path, blob)
            except OSError as error:
                if not takes_nothing(error):
                    raise
                raise Refused(
                    f"{self._folder} takes nothing new: {error.strerror}; make room in it, and "
                    "let this device write there"
                ) from error

    def listings(self) -> list[Listing]:
        """Lists what is held of every device, in the order of the names."""
        with reaching(self._folder):
            entries = [(entry, path.stat().st_size) for path, entry in self._entries()]
        # Files are not in the order of the names: "fan-2.entry" comes before "fan.entry".
        entries.sort(key=lambda pair: pair[0].origin)
        return [listing_of(entry, size) for entry, size in entries]

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        """Reads the entries of these devices that are there."""
        wanted = {self._path(origin) for origin in origins}
        with reaching(self._folder):
            return [entry for _, entry in self._entries(wanted)]

    def _revision(self, without: str | None) -> int:
        """Names the state of the files, of which only the heads are read."""
        with reaching(self._folder):
            return _revision(self._paths_but(without))

    def _entries_but(self, without: str | None) -> list[Entry]:
        with reaching(self._folder):
            return [entry for _, entry in self._entries(self._paths_but(without))]

    def _paths_but(self, without: str | None) -> set[Path]:
        return set(self._paths()) - (set() if without is None else {self._path(without)})

    def close(self) -> None:
        """Does nothing: a folder holds no connection."""

    def _held(self, path: Path) -> Version | None:
        try:
            return version_of(_content(path)) if path.exists() else None
        except BadFile as error:
            log.warning("%s is damaged and will be replaced: %s", path, error)
            return None

    def _path(self, origin: str) -> Path:
        return self._folder / f"{address_of(origin)}{SUFFIX}"

    def _paths(self) -> list[Path]:
        if not (self._folder / CHARTER).exists():
            raise Unreachable(f"{self._folder} is not there (any more)")
        found = sorted(self._folder.glob(f"*{SUFFIX}"))
        for path in found:
            _require_file(path)
        return found

    def _entries(self, wanted: Collection[Path] | None = None) -> Iterator[tuple[Path, Entry]]:
        # First of all: without it nothing would belong.
        charter, most = self.charter, content_limit(self.charter)
        for path in self._paths():
            if wanted is not None and path not in wanted:
                continue
            try:
                if path.stat().st_size > most:
                    raise BadFile(f"longer than the {most:,} bytes it may have")
                entry = entry_from_bytes(path.read_bytes())
                charter.require(entry)
                if self._path(entry.origin) != path:
                    raise BadFile(f"an entry of {entry.origin!r} under another name")
            except ElmgroveError as error:
                if self._left_out.get(path) != str(error):
                    log.warning("%s is left out: %s", path, error)
                self._left_out[path] = str(error)
            else:
                self._left_out.pop(path, None)
                yield path, entry


def _revision(paths: Collection[Path]) -> int:
    """Names the state of some files."""
    stamps = [(path.name, *_stamp(path)) for path in sorted(paths)]
    return int.from_bytes(hashlib.sha256(repr(stamps).encode()).digest()[:7], "big")


def _stamp(path: Path) -> tuple[int, int, bytes]:
    # Time and size show a file that was cut off or completed. They do not show each new entry:
    # the clock of a stick ticks every two seconds, and sizes are all alike. The head does.
    status = path.stat()
    with path.open("rb") as file:
        return status.st_size, status.st_mtime_ns, head_of(file)


def _read_charter(folder: Path) -> Charter:
    path = folder / CHARTER
    with reaching(folder):
        text = _content(path)
    try:
        return Charter.from_fields(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path}: {error}") from error


def _content(path: Path) -> bytes:
    _require_file(path)
    return path.read_bytes()


def _require_file(path: Path) -> None:
    """Raises ``Unreachable`` for a pipe, a device and the like: who reads one may wait for ever."""
    if path.exists() and not path.is_file():
        raise Unreachable(f"{path} is no file, and nothing is read before it is gone")


@contextmanager
def reaching(folder: Path) -> Iterator[None]:
    """Turns an error of the file system into ``Unreachable``: it may work later."""
    try:
        yield
    except Unreachable:
        raise
    except OSError as error:
        raise Unreachable(
            f"{folder}: {error.strerror}; is it there, and may it be used?"
        ) from error
