"""MNIST: handwritten digits of 28 × 28 pixels, in [0, 1]."""

import gzip
from pathlib import Path

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.data.labelled import Labelled
from elmgrove_papers.data.source import Source

SOURCE = Source(
    "MNIST",
    "https://yann.lecun.com/exdb/mnist (or Keras' mnist.npz)",
    "mnist.npz, or the four files train-images-idx3-ubyte(.gz) and so on",
)
#: The number at the end is that of dimensions.
_PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
#: The code for unsigned bytes in the head of an idx file.
_BYTES = 8
_NAMES = tuple(str(digit) for digit in range(10))


def mnist(folder: Path) -> Labelled:
    """Reads ``mnist.npz`` (Keras' names of arrays), or the four idx files as published."""
    archive = folder / "mnist.npz"
    if archive.exists():
        path, parts = archive, SOURCE.arrays(archive, "x_train", "y_train", "x_test", "y_test")
    else:
        path, parts = folder, _published(folder)
    with SOURCE.reading(path):
        train, train_label, test, test_label = parts
        return Labelled.loaded(_rows(train), train_label, _rows(test), test_label, _NAMES)


def _rows(pictures: Array) -> Array:
    if pictures.ndim != 3:
        raise ValueError(f"pictures of {pictures.ndim} dimensions instead of 3")
    rows: Array = pictures.reshape(len(pictures), -1) / 255.0
    return rows


def _published(folder: Path) -> list[Array]:
    found = {name: path for name in _PARTS if (path := _found(folder, name))}
    if not found:
        raise SOURCE.missing(folder)
    if lacking := [f"{name}-ubyte" for name in _PARTS if name not in found]:
        raise SOURCE.incomplete(folder, lacking)
    return [_idx(path, int(name[-1])) for name, path in found.items()]


def _found(folder: Path, name: str) -> Path | None:
    # Unpacking tools write a dot or a hyphen before the type.
    spellings = (f"{name}-ubyte", name.replace("-idx", ".idx") + "-ubyte")
    paths = (
        place / f"{spelled}{ending}"
        for place in (folder, folder / "mnist")
        for spelled in spellings
        for ending in ("", ".gz")
    )
    return next((path for path in paths if path.exists()), None)


def _idx(path: Path, expected: int) -> Array:
    """An array in the idx format: two zeros, type, dimensions, sizes (big-endian), values."""
    with SOURCE.reading(path):
        blob = path.read_bytes()
        blob = gzip.decompress(blob) if path.suffix == ".gz" else blob
        code, dimensions = blob[2], blob[3]
        if blob[:2] != b"\0\0" or code != _BYTES:
            raise ValueError("no idx file of bytes")
        if dimensions != expected:
            raise ValueError(f"{dimensions} dimensions instead of {expected}")
        start = 4 + 4 * dimensions
        shape = np.frombuffer(blob[4:start], ">u4")
        return np.frombuffer(blob[start:], np.uint8).reshape(shape.tolist())
