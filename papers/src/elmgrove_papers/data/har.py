"""UCI HAR: six activities of 30 people, from the sensors of a smartphone (Anguita 2013)."""

from pathlib import Path

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.data.labelled import Labelled
from elmgrove_papers.data.source import Source

FOLDER, ARCHIVE = "UCI HAR Dataset", "uci_har_time265.npz"
SOURCE = Source(
    "UCI HAR",
    "https://archive.ics.uci.edu/dataset/240",
    f"the unpacked folder '{FOLDER}', or {ARCHIVE}, made from it",
    made=ARCHIVE,
)
#: What the official folder has, and the papers use.
FEATURES = 561


def har(folder: Path) -> Labelled:
    """Reads all 561 features from the official folder, else the time domain's 265 from an archive.

    Figures from the archive are not the papers': they use all features. Labels count from 0.
    """
    if (folder / FOLDER).is_dir():
        return _official(folder / FOLDER)
    if (folder / ARCHIVE).exists():
        return _archived(folder / ARCHIVE)
    raise SOURCE.missing(folder)


def har_scaled(folder: Path) -> Labelled:
    """Reads HAR with values in [0, 1]; published ones lie in [−1, 1].

    Networks that end in a sigmoid can't give back what is below 0; every model gets these, so
    that their losses can be compared.
    """
    return har(folder).rescaled(-1.0, 1.0)


def _official(folder: Path) -> Labelled:
    train, train_label = _part(folder, "train")
    test, test_label = _part(folder, "test")
    labels = folder / "activity_labels.txt"
    with SOURCE.reading(labels):
        names = tuple(line.split()[1] for line in labels.read_text().splitlines() if line.strip())
    with SOURCE.reading(folder):
        return _labelled(train, train_label, test, test_label, names)


def _part(folder: Path, part: str) -> tuple[Array, Array]:
    tables = []
    for name in (f"X_{part}.txt", f"y_{part}.txt"):
        path = folder / part / name
        with SOURCE.reading(path):
            tables.append(np.loadtxt(path, ndmin=2))
    return tables[0], tables[1][:, 0]


def _archived(path: Path) -> Labelled:
    names = ("X_train", "y_train", "X_test", "y_test", "activity_names")
    train, train_label, test, test_label, activities = SOURCE.arrays(path, *names)
    with SOURCE.reading(path):
        # The archive counts activities from 1 as the folder does, with an empty name before.
        known = tuple(str(name) for name in activities[1:])
        return _labelled(train, train_label, test, test_label, known)


def _labelled(
    train: Array, train_label: Array, test: Array, test_label: Array, names: tuple[str, ...]
) -> Labelled:
    rows = [np.asarray(part, np.float64) for part in (train, test)]
    # As floats: a label 0 of an unsigned type would become a large one.
    labels = [np.asarray(part, np.float64) - 1.0 for part in (train_label, test_label)]
    return Labelled.loaded(rows[0], labels[0], rows[1], labels[1], names)
