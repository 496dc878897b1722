"""MNIST: handwritten digits of 28 × 28 pixels, in [0, 1]."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.papers.data.labelled import Labelled
from elmgrove.papers.data.source import Source

Array = NDArray[Any]
SOURCE = Source(
    "MNIST",
    "https://yann.lecun.com/exdb/mnist (or Keras' mnist.npz)",
    "mnist.npz, or the four files train-images-idx3-ubyte(.gz) and so on",
)
_PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
#: The code for unsigned bytes in the head of an idx file.
_BYTES = 8


def mnist(folder: Path) -> Labelled:
    """From ``mnist.npz`` (Keras' names of arrays), or from the four idx files as published."""
    archive = folder / "mnist.npz"
    if archive.exists():
        parts = SOURCE.arrays(archive, "x_train", "y_train", "x_test", "y_test")
    else:
        parts = [_idx(_found(folder, name)) for name in _PARTS]
    with SOURCE.reading(archive if archive.exists() else folder):
        train, train_label, test, test_label = parts
        if len(train) != len(train_label) or len(test) != len(test_label):
            raise ValueError("not as many labels as pictures")
        pixels = [part.reshape(len(part), -1) / 255.0 for part in (train, test)]
        names = tuple(str(digit) for digit in range(10))
        return Labelled(pixels[0], train_label, pixels[1], test_label, names)


def _found(folder: Path, name: str) -> Path:
    for place in (folder, folder / "mnist"):
        # Unpacking tools write a dot or a hyphen before the kind.
        for spelled in (f"{name}-ubyte", name.replace("-idx", ".idx") + "-ubyte"):
            for path in (place / spelled, place / f"{spelled}.gz"):
                if path.exists():
                    return path
    raise SOURCE.missing(folder)


def _idx(path: Path) -> Array:
    """An array in the idx format: two zeros, type, dimensions, sizes (big-endian), values."""
    with SOURCE.reading(path):
        blob = path.read_bytes()
        blob = gzip.decompress(blob) if path.suffix == ".gz" else blob
        kind, dimensions = blob[2], blob[3]
        if blob[:2] != b"\0\0" or kind != _BYTES:
            raise ValueError("no idx file of bytes")
        start = 4 + 4 * dimensions
        shape = np.frombuffer(blob[4:start], ">u4")
        return np.frombuffer(blob[start:], np.uint8).reshape(shape.tolist())
