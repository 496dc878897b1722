"""The words of columns of words, as a whole file has them or the first lines of a stream."""

from collections.abc import Sequence
from io import BytesIO

from elmgrove.algebra import word_of
from elmgrove.errors import BadInput
from elmgrove.reading.blocks import Blocks, blocks_in
from elmgrove.reading.cells import is_missing
from elmgrove.reading.formats import JSON_LINES, Opened, format_of
from elmgrove.reading.layout import Layout
from elmgrove.reading.objects import json_object

# Words that a column may have.
_MOST_WORDS = 64


def found_words(source: Blocks, layout: Layout) -> dict[str, list[str]]:
    """Finds the words that a file has in each column of words, in their order."""
    places = source.header.places(layout.categories)
    found: list[set[str]] = [set() for _ in places]
    for block in source.blocks():
        for _, cells in block.records():
            if isinstance(cells, BadInput):
                continue
            for place, words in zip(places, found, strict=True):
                if place < len(cells) and not is_missing(cells[place]):
                    words.add(word_of(cells[place]))
        for name, words in zip(layout.categories, found, strict=True):
            if len(words) > _MOST_WORDS:
                raise BadInput(
                    f"{source.header.name}: column {name!r} has more than {_MOST_WORDS} different "
                    f"words, too many for categories; --drop {name}"
                )
    return {name: sorted(words) for name, words in zip(layout.categories, found, strict=True)}


def words_in(name: str, lines: Sequence[bytes], layout: Layout) -> dict[str, list[str]]:
    """Finds the words of categories in the first lines of a text; ``BadInput`` if it has none."""
    text = b"".join(lines)
    form = format_of(name, text, layout.encoding)
    if form == JSON_LINES:
        text = b"".join(line for line in lines if _is_object(line))
    file = Opened(name, BytesIO(text), form, lambda: 0)
    return found_words(blocks_in(file, layout, None), layout)


def _is_object(line: bytes) -> bool:
    try:
        json_object("", line)
    except BadInput:
        return False
    return True
