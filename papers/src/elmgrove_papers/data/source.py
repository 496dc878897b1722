"""Where a data set comes from and where it belongs: for errors that say what to do."""

import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.io.wavfile import WavFileWarning

from elmgrove.algebra import Array
from elmgrove.errors import BadFile

#: What readers raise for files that are cut, altered or something else.
_DAMAGE = (
    *(ValueError, TypeError, KeyError, IndexError, EOFError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, struct.error, WavFileWarning),
)


class NotThere(BadFile):
    """No file of a data set is in the folder; one that is there but can't be used is a BadFile."""


@dataclass(frozen=True)
class Source:
    """A data set: its name, where to get it, and its place in the data folder.

    ``made`` is the name of a file that the address does not offer: people make it themselves
    from what is published there.
    """

    name: str
    address: str
    place: str
    made: str = ""

    @property
    def way(self) -> str:
        """How to get the data set into the folder."""
        return f"download it from {self.address} and put it there as {self.place}"

    def missing(self, folder: Path) -> NotThere:
        """Makes the error for a data set that is not there."""
        return NotThere(
            f"{self.name} is not in {folder}: {self.way} "
            "(--data or ELMGROVE_DATA names another folder)"
        )

    def incomplete(self, folder: Path, lacking: Iterable[str]) -> BadFile:
        """Makes the error for a data set of which only some files are there."""
        return BadFile(
            f"{self.name} is incomplete in {folder}: {', '.join(lacking)} missing; "
            f"download what is missing from {self.address}"
        )

    @contextmanager
    def reading(self, path: Path) -> Iterator[None]:
        """Turns whatever a reader raises for a damaged file into one clear error."""
        try:
            yield
        except BadFile:
            raise
        except _DAMAGE as error:
            raise self.damaged(path, repr(error)[:120]) from error
        except OSError as error:
            # A missing file is an OSError too, and so is a gzip or a picture that is cut.
            reason = error.strerror or repr(error)[:120]
            raise self.damaged(path, reason) from error

    def damaged(self, path: Path, reason: str) -> BadFile:
        """Makes the error for a file that can't be read."""
        again = (
            "make it again from the data of" if path.name == self.made else "download it again from"
        )
        return BadFile(
            f"{path} can't be read as a part of {self.name} ({reason}); {again} {self.address}"
        )

    def arrays(self, path: Path, *names: str) -> list[Array]:
        """Reads arrays of a NumPy archive, by their names."""
        # NumPy leaves a file open that turns out to be no archive.
        with self.reading(path), path.open("rb") as file, np.load(file) as archive:
            return [archive[name] for name in names]
