"""Real data sets, split in one fixed way: what each device learns, and is tested with."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.windows import Labels, Matrix
from elmgrove_papers.data import recordings
from elmgrove_papers.data.fans import NORMAL

SEED = 1
#: Of the rows of small sets that are normal, this share is learned.
TRAINING_SHARE = 0.6
#: Splits of a set that is one machine and small.
SPLITS = 5
#: Rows that a server learns in a quick run.
QUICK_ROWS = 6000
#: Files of one layout: the names of devices, and of each its rows to learn, later ones and labels.
ARCHIVES = {
    "SMD": "smd_servers.npz",
    "TEP": "tep.npz",
    "SMAP/MSL": "smap_msl.npz",
    "NAB": "fleets_nab.npz",
    "C-MAPSS": "cmapss.npz",
}
# Labels beside 0, which is normal.
_ANOMALOUS, _NOT_JUDGED = 1, 2


@dataclass(frozen=True)
class Device:
    """Rows of one device: normal ones to learn, and later ones with labels (True: anomalous)."""

    name: str
    train: Matrix
    test: Matrix
    labels: Labels
    #: Whether rows follow each other in time, so that windows make sense.
    series: bool = False
    #: The test rows that count; None where all do.
    judged: Labels | None = None

    def testing(self, rows: NDArray[np.int_]) -> "Device":
        """Gives the device with these of its test rows, in this order."""
        judged = None if self.judged is None else self.judged[rows]
        return replace(self, test=self.test[rows], labels=self.labels[rows], judged=judged)


class Placed(NamedTuple):
    """A device, and whether its place in its file is odd: constants were chosen on the even."""

    set: str
    device: str
    odd: bool

    @classmethod
    def all(cls, name: str, devices: Iterable[str]) -> "list[Placed]":
        """Places the devices of a set."""
        return [cls(name, device, bool(place % 2)) for place, device in enumerate(devices)]


@dataclass(frozen=True)
class DataSet:
    """A named set of devices, what was done to it, and whether it needs the data folder."""

    name: str
    about: str
    devices: Callable[[Path, bool], Iterator[Device]]
    file: str | None = None

    def found(self, folder: Path | None) -> bool:
        """Says whether its file is there, if it needs one."""
        return self.file is None or (folder is not None and (folder / self.file).exists())


def archived_names(name: str, folder: Path) -> list[str]:
    """Names the devices of a set that is an archive, in the order of its file."""
    with np.load(folder / ARCHIVES[name]) as archive:
        return [str(one) for one in archive["machines" if name == "SMD" else "NAMES"]]


def archived(name: str, device: str, folder: Path) -> Device:
    """Reads one device of a set that is an archive."""
    scale = 1e-4 if name == "SMD" else 1.0
    with np.load(folder / ARCHIVES[name]) as archive:
        train, test, labels = (archive[f"{device}_{part}"] for part in ("train", "test", "label"))
    rows = (train.astype(np.float64) * scale, test.astype(np.float64) * scale)
    judged = labels != _NOT_JUDGED
    return Device(device, *rows, labels == _ANOMALOUS, series=True, judged=judged)


def _smd(folder: Path, quick: bool) -> Iterator[Device]:
    for name in archived_names("SMD", folder)[: 2 if quick else None]:
        found = archived("SMD", name, folder)
        yield replace(found, train=found.train[-QUICK_ROWS:]) if quick else found


def _fans(folder: Path, quick: bool) -> Iterator[Device]:
    known = recordings(folder)
    rooms = sorted({one.device for one in known if one.damage != NORMAL})
    for device in rooms[:1] if quick else rooms:
        mine = [one for one in known if one.device == device]
        runs = [one for one in mine if one.speed == "hmlo"]
        steady = [one.rows for one in mine if one.speed != "hmlo" and one.damage == NORMAL]
        labels = [np.full(len(one.rows), one.damage != NORMAL) for one in runs]
        test = np.vstack([one.rows for one in runs])
        yield Device(device, np.vstack(steady), test, np.concatenate(labels))


def _shuttle(folder: Path, quick: bool) -> Iterator[Device]:
    rows = list(import_module("river.datasets").Shuttle())
    names = sorted(rows[0][0])
    X = np.array([[float(x[name]) for name in names] for x, _ in rows])
    y = np.array([label for _, label in rows], bool)
    half, end = (5000, 10000) if quick else (len(X) // 2, len(X))
    yield Device("shuttle", X[:half][~y[:half]], X[half:end], y[half:end])


def _breast_cancer(folder: Path, quick: bool) -> Iterator[Device]:
    data: Any = import_module("sklearn.datasets").load_breast_cancer()
    malignant = data.target == 0
    for number in range(2 if quick else SPLITS):
        yield _one_class(f"split {number + 1}", data.data, malignant, number)


def _digits(folder: Path, quick: bool) -> Iterator[Device]:
    data: Any = import_module("sklearn.datasets").load_digits()
    for digit in range(2 if quick else 10):
        yield _one_class(f"digit {digit}", data.data, data.target != digit, digit)


def _one_class(name: str, X: Matrix, anomalous: Labels, number: int) -> Device:
    """Learns a share of the normal rows, at random; all others are tested."""
    order = np.random.default_rng((SEED, number)).permutation(np.flatnonzero(~anomalous))
    learned = order[: round(TRAINING_SHARE * len(order))]
    tested = np.setdiff1d(np.arange(len(X)), learned)
    return Device(name, X[learned], X[tested], anomalous[tested])


SETS = {
    one.name: one
    for one in (
        DataSet(
            "SMD",
            "twelve servers, 38 metrics a minute; publishers' split; windows make sense "
            f"(quick: two servers, their last {QUICK_ROWS} training rows)",
            _smd,
            ARCHIVES["SMD"],
        ),
        DataSet(
            "fans",
            "12 cm fans in three rooms, 512 bins; learned at steady speeds, tested with runs "
            "through all speeds, normal and damaged, without rows of a fan at rest; other sizes "
            "have no damaged fan; no windows, since rows are wide and recordings short (quick: "
            "one room)",
            _fans,
            "cooling_fan.npz",
        ),
        DataSet(
            "shuttle",
            "River's Shuttle, 9 columns; normal rows of the first half learned, the second half "
            "tested (quick: 5,000 rows each)",
            _shuttle,
        ),
        DataSet(
            "breast cancer",
            "scikit-learn's, 30 columns; 60 % of the benign rows learned, all others tested, five "
            "splits (quick: two)",
            _breast_cancer,
        ),
        DataSet(
            "digits",
            "scikit-learn's, 64 pixels; 60 % of one digit's rows learned, its others and all other "
            "digits tested, ten digits (quick: two)",
            _digits,
        ),
    )
}


@cache
def devices_of(name: str, folder: Path, quick: bool) -> dict[str, Device]:
    """Reads a set once in a process."""
    return {device.name: device for device in SETS[name].devices(folder, quick)}
