"""CelebA as LEAF keeps it: one client for each celebrity, smiling or not."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers import require_package
from elmgrove_papers.data.source import Source

FOLDER = "celeba/data/raw"
SOURCE = Source(
    "CelebA",
    "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    f"{FOLDER}/img_align_celeba/*.jpg, list_attr_celeba.txt and identity_CelebA.txt",
)
#: LEAF leaves out celebrities with fewer pictures.
LEAST_PICTURES = 5
#: Pictures are 178 × 218; the middle square, in grey, at this width, is what a model sees.
PIXELS = 32


@dataclass(frozen=True)
class Celebrity:
    """One client: the files of the pictures in which it smiles, and of the others."""

    name: str
    smiling: tuple[Path, ...]
    serious: tuple[Path, ...]


def celebrities(folder: Path) -> list[Celebrity]:
    """Lists all celebrities with enough pictures, by their numbers; no picture is opened."""
    raw = next((p for p in (folder / FOLDER, folder / "data/raw") if p.is_dir()), None)
    if raw is None:
        raise SOURCE.missing(folder)
    smiles = _smiles(raw / "list_attr_celeba.txt")
    pictures: dict[int, list[str]] = defaultdict(list)
    path = raw / "identity_CelebA.txt"
    with SOURCE.reading(path):
        for line in path.read_text().splitlines():
            file, number = line.split()
            pictures[int(number)].append(file)
        return [
            _celebrity(raw / "img_align_celeba", number, sorted(files), smiles)
            for number, files in sorted(pictures.items())
            if len(files) >= LEAST_PICTURES
        ]


def _celebrity(images: Path, number: int, files: list[str], smiles: dict[str, bool]) -> Celebrity:
    parts = {
        state: tuple(images / f for f in files if smiles[f] is state) for state in (True, False)
    }
    return Celebrity(f"celebrity-{number}", parts[True], parts[False])


def _smiles(path: Path) -> dict[str, bool]:
    """The attribute of each file: a line with their number, one with the names, then 1 or −1."""
    with SOURCE.reading(path):
        count, names, *lines = path.read_text().splitlines()
        if int(count) != len(lines):
            raise ValueError(f"{count.strip()} lines announced, {len(lines)} there")
        column = names.split().index("Smiling") + 1
        cells = (line.split() for line in lines)
        return {row[0]: int(row[column]) > 0 for row in cells}


def picture(path: Path) -> Array:
    """Reads a picture as a row of grey values in [0, 1]."""
    image = require_package("PIL.Image")
    with SOURCE.reading(path), image.open(path) as opened:
        width, height = opened.size
        side = min(width, height)
        left, top = (width - side) // 2, (height - side) // 2
        square = opened.convert("L").crop((left, top, left + side, top + side))
        grey = np.asarray(square.resize((PIXELS, PIXELS)), np.float64)
        return grey.reshape(-1) / 255.0
