"""Sources of rows: a file, one that grows, standard input, a folder, topics of a broker."""

from collections.abc import Callable, Sequence
from pathlib import Path

from elmgrove.algebra.basis import Categories
from elmgrove.device.sources.folder import Folder
from elmgrove.device.sources.mqtt import GATHERED, Messages, Subscription, gathering_for
from elmgrove.device.sources.text import Bookmark, File, FollowedFile, Source, StandardInput
from elmgrove.reading.formats import STANDARD_INPUT
from elmgrove.reading.layout import Layout


def open_source(
    where: str,
    *,
    follow: bool,
    pattern: str = "",
    layout: Layout | None = None,
    features: Sequence[str] | None = None,
    categories: Categories | None = None,
    bookmark: Bookmark | None = None,
    pass_on: Callable[[bytes], None] | None = None,
    subscription: Subscription | None = None,
    seconds: float = 0.0,
) -> Source:
    """Opens the source of rows at ``where``: ``-`` for standard input, a folder, or a file.

    ``follow`` waits for a file to appear and to grow; a folder is always watched, for files that
    match one of the patterns. With a bookmark, reading goes on right after the row that it came
    with. ``pass_on`` is given each line of standard input. With a ``subscription``, rows are the
    messages of a broker; of numbers that come one by one, there is a row every ``seconds``.
    """
    layout = layout or Layout()
    if bookmark is not None and (GATHERED in bookmark) != (subscription is not None):
        # A bookmark among messages is no place in a file.
        bookmark = None
    reading = (layout, features, categories, bookmark)
    if subscription is not None:
        gathering = gathering_for(*reading, seconds)
        return Messages(subscription, gathering, *reading)
    path = Path(where)
    if where == STANDARD_INPUT:
        return StandardInput(pass_on, *reading)
    if path.is_dir():
        return Folder(path, pattern, *reading)
    return FollowedFile(path, *reading, live=True) if follow else File(path, *reading)
