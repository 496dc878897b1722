"""Sources of rows: a file, one that grows, standard input, a folder, topics of a broker."""

from collections.abc import Sequence
from pathlib import Path

from elmgrove.algebra.basis import Categories
from elmgrove.device.sources.base import Bookmark, Records, Source, Timing
from elmgrove.device.sources.file import File, FollowedFile, PassOn, StandardInput
from elmgrove.device.sources.folder import Folder
from elmgrove.device.sources.mqtt import GATHERED, Messages, Subscription, gathering_for
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
    first_rows: int = 100,
    bookmark: Bookmark | None = None,
    pass_on: PassOn | None = None,
    subscription: Subscription | None = None,
    seconds: float = 0.0,
) -> Source:
    """Opens the source of rows at ``where``: ``-`` for standard input, a folder, or a file.

    ``follow`` waits for a file to appear and to grow; a folder is always watched (for files that
    match one of the patterns, or else have an ending of what is read), standard input always ends
    with its writer. ``layout`` says how the rows are written; ``features`` picks and orders columns
    by name, with the words of ``categories``. Where these are not known yet, the ``first_rows``
    tell them. With a bookmark, reading goes on right after the row that it came with.
    ``pass_on`` is given each line of standard input. With a ``subscription``, rows are the messages
    of a broker; of numbers that come one by one, there is a row every so many ``seconds``.
    """
    layout = layout or Layout()
    if subscription is not None:
        bookmark = bookmark if bookmark is not None and GATHERED in bookmark else None
        gathering = gathering_for(layout, features, categories, bookmark, seconds)
        records = Records(layout, features, categories, bookmark, first_rows)
        timing = Timing(live=True, bookmark=bookmark)
        return Messages(subscription, records, timing, layout, gathering, bookmark)
    # A bookmark among messages is no place in a file.
    bookmark = None if bookmark is not None and GATHERED in bookmark else bookmark
    records = Records(layout, features, categories, bookmark, first_rows)
    path = Path(where)
    live = where == STANDARD_INPUT or (follow and not path.is_dir())
    timing = Timing(live=live, bookmark=bookmark)
    if where == STANDARD_INPUT:
        return StandardInput(records, timing, layout, pass_on)
    if path.is_dir():
        return Folder(path, pattern, records, timing, bookmark, layout)
    return (FollowedFile if follow else File)(path, records, timing, bookmark, layout)
