"""A shared folder as exchange: a network drive, a synchronised directory, a stick."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmgrove.errors import BadFile, BadInput, ElmgroveError, Refused, Unreachable
from elmgrove.exchange.base import EntriesExchange, Held
from elmgrove.federation.aggregation import content_limit
from elmgrove.federation.charter import Charter, address_of
from elmgrove.federation.contribution import Entry, Version, follows
from elmgrove.storage.disk import takes_nothing, write
from elmgrove.storage.sealed import head_of

log = logging.getLogger("elmgrove.exchange")
CHARTER = "federation.json"


class FolderExchange(EntriesExchange):
    """One file a device, which only that device writes, and ``federation.json``.

    Files are replaced as a whole, so a reader sees the old entry or the new one. Any program that
    may write in the folder may write in any device's name: a folder is for devices that trust each
    other. A file that is damaged, too long or does not belong is left out, with a warning.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._charter: Charter | None = None
        # What was read of each file, with its stamp; None of one that is left out.
        self._read = dict[Path, tuple[object, Held | None]]()

    @property
    def charter(self) -> Charter:
        """The federation's charter, read once."""
        if self._charter is None:
            self._charter = _read_charter(self._folder)
        return self._charter

    def close(self) -> None:
        """Lets go of the charter, which is read again when it is needed."""
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
            if not follows(self._version(path), Held.of(blob).version):
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

    def held(self) -> dict[str, Held]:
        """Gives what is held of each device; of files that did not change only heads are read."""
        # First of all: without it nothing would belong.
        charter, read = self.charter, self._read
        with reaching(self._folder):
            paths = self._paths()
            self._read = {path: self._read_file(charter, path, read.get(path)) for path in paths}
        found = [held for _, held in self._read.values() if held is not None]
        return {held.entry.origin: held for held in found}

    def _read_file(
        self, charter: Charter, path: Path, read: tuple[object, Held | None] | None
    ) -> tuple[object, Held | None]:
        stamp, most = _stamp(path), content_limit(charter)
        if read is not None and read[0] == stamp:
            return read
        try:
            if path.stat().st_size > most:
                raise BadFile(f"longer than the {most:,} bytes it may have")
            held = Held.of(path.read_bytes())
            charter.require(held.entry)
            if self._path(held.entry.origin) != path:
                raise BadFile(f"an entry of {held.entry.origin!r} under another name")
        except ElmgroveError as error:
            log.warning("%s is left out: %s", path, error)
            return stamp, None
        return stamp, held

    def _version(self, path: Path) -> Version | None:
        try:
            return Held.of(_content(path)).version if path.exists() else None
        except BadFile as error:
            log.warning("%s is damaged and will be replaced: %s", path, error)
            return None

    def _path(self, origin: str) -> Path:
        return self._folder / f"{address_of(origin)}.entry"

    def _paths(self) -> list[Path]:
        if not (self._folder / CHARTER).exists():
            raise Unreachable(f"{self._folder} is not there (any more)")
        found = sorted(self._folder.glob("*.entry"))
        for path in found:
            _require_file(path)
        return found


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
