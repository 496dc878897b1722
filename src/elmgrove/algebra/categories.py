"""Columns of words: each word is a feature of its own, 1 in rows that have it and 0 in others."""

from collections.abc import Mapping, Sequence
from typing import Any

from elmgrove.errors import BadInput

#: The words of columns that hold words, by column.
Categories = Mapping[str, Sequence[str]]
#: The same, fixed: pairs of a column and its words.
Words = tuple[tuple[str, tuple[str, ...]], ...]


def fixed_words(categories: Categories | Words) -> Words:
    """Gives words by column in a form that can't change; ``BadInput`` if they are none."""
    try:
        made = tuple((name, tuple(words)) for name, words in dict(categories).items())
    except (TypeError, ValueError) as error:
        raise BadInput(f"categories must be words by column, not {categories!r:.60}") from error
    if not all(isinstance(text, str) for name, words in made for text in (name, *words)):
        raise BadInput("the words of categories must be text")
    return made


def word_of(cell: Any) -> str:
    """Gives a value as a word; a whole number without a point, whatever it came in.

    >>> word_of(3.0), word_of(3), word_of(" auto ")
    ('3', '3', 'auto')
    """
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def features_of(columns: Sequence[str], categories: Categories) -> tuple[str, ...]:
    """Names the features that columns become: one for each word, or the column itself.

    >>> features_of(["temp", "mode"], {"mode": ["auto", "off"]})
    ('temp', 'mode=auto', 'mode=off')
    """
    return tuple(
        feature
        for name in columns
        for feature in (
            [_named(name, w) for w in categories[name]] if name in categories else [name]
        )
    )


def columns_of(features: Sequence[str], categories: Categories) -> list[str]:
    """Names the columns that features come from: their own, or that of their words.

    >>> columns_of(["temp", "mode=auto", "mode=off"], {"mode": ["auto", "off"]})
    ['temp', 'mode']
    """
    source = {_named(name, word): name for name, words in categories.items() for word in words}
    return list(dict.fromkeys(source.get(feature, feature) for feature in features))


def _named(column: str, word: str) -> str:
    return f"{column}={word}"
