"""Sources of rows: a CSV file, one that grows, standard input, a folder that files drop into."""

from collections.abc import Sequence
from pathlib import Path

from elmgrove.device.sources.base import Bookmark, Item, Reading, Source
from elmgrove.device.sources.file import File, FollowedFile, StandardInput
from elmgrove.device.sources.folder import Folder
from elmgrove.device.sources.records import Bad, Records

__all__ = ["Bad", "Bookmark", "Item", "Reading", "Source", "open_source"]


def open_source(
    where: str,
    *,
    follow: bool,
    pattern: str = "*.csv",
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    bookmark: Bookmark | None = None,
) -> Source:
    """Opens the source of rows at ``where``: ``-`` for standard input, a folder, or a CSV file.

    ``follow`` waits for a file to appear and to grow; a folder is always watched (for files that
    match ``pattern``), standard input always ends with its writer. ``features`` picks and orders
    columns by name, ``drop`` leaves some out. With a bookmark, reading goes on right after the
    row that it came with.
    """
    records = Records(features, drop, bookmark)
    path = Path(where)
    if where == "-":
        return StandardInput(records)
    if path.is_dir():
        return Folder(path, pattern, records, bookmark)
    return (FollowedFile if follow else File)(path, records, bookmark)
