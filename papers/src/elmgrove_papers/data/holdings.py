"""What a folder holds of the data sets: found, damaged, or where to get it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from elmgrove.errors import BadFile
from elmgrove_papers.data import celeba, dcase, fans, uah
from elmgrove_papers.data.har import ARCHIVE, FEATURES, FOLDER, har
from elmgrove_papers.data.har import SOURCE as HAR
from elmgrove_papers.data.labelled import Labelled
from elmgrove_papers.data.mnist import SOURCE as MNIST
from elmgrove_papers.data.mnist import mnist
from elmgrove_papers.data.source import NotThere, Source


class Holding(NamedTuple):
    """What is said about a data set, and whether its files are there but can't be used."""

    text: str
    damaged: bool


def holdings(folder: Path) -> Iterator[Holding]:
    """Says of each data set what is there. Tables are read; of pictures and sounds the lists."""
    for source, places, told in _KNOWN:
        try:
            content = told(folder)
        except BadFile as error:
            yield Holding(str(error), damaged=not isinstance(error, NotThere))
        else:
            found = next(path for place in places for path in sorted(folder.glob(place)))
            yield Holding(f"{source.name}: {found}, {content}", damaged=False)


def ways() -> Iterator[str]:
    """Says in a line on each data set how to get it into a folder."""
    for source, _, _ in _KNOWN:
        yield f"{source.name}: {source.way}"


def _labelled(data: Labelled) -> str:
    return f"{len(data.train):,} + {len(data.test):,} rows of {data.width} features"


def _har(folder: Path) -> str:
    data = har(folder)
    every = data.width == FEATURES
    return _labelled(data) + ("" if every else f" (the papers have {FEATURES})")


def _drives(folder: Path) -> str:
    unnamed, repeated = list[str](), list[str]()
    found = uah.drives(folder, unnamed.append)
    rows = sum(len(one.rows(repeated.append)) for one in found)
    if unnamed:
        raise BadFile(f"{uah.SOURCE.name}: {unnamed[0]}")
    drivers = len({one.driver for one in found})
    held = f"{len(found)} drives of {drivers} drivers, {rows:,} rows of {uah.LEVELS**2} features"
    return ". ".join([held, *repeated]).removesuffix(".")


def _fans(folder: Path) -> str:
    found = fans.recordings(folder)
    rows = sum(len(one.rows) for one in found)
    return f"{len(found)} recordings in which a fan runs, {rows:,} rows"


_KNOWN: tuple[tuple[Source, tuple[str, ...], Callable[[Path], str]], ...] = (
    (
        MNIST,
        ("mnist.npz", "train-images*", "mnist/train-images*"),
        lambda folder: _labelled(mnist(folder)),
    ),
    (HAR, (FOLDER, ARCHIVE), _har),
    (uah.SOURCE, (uah.FOLDER,), _drives),
    (fans.SOURCE, (fans.ARCHIVE,), _fans),
    (
        celeba.SOURCE,
        (celeba.FOLDER, "data/raw"),
        lambda folder: f"{len(celeba.celebrities(folder)):,} celebrities with enough pictures",
    ),
    (
        dcase.SOURCE,
        (dcase.FOLDER,),
        lambda folder: f"{len(dcase.machines(folder))} machines",
    ),
)
