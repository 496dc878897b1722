"""Small data sets in the layouts in which the real ones are published."""

import gzip
import os
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from scipy.io import wavfile

from elmgrove_papers import require_package
from elmgrove_papers.data import Labelled

#: The folder with the published data sets, and the mark of tests that need it.
DATA = os.environ.get("ELMGROVE_DATA")
# The project holds none of them: they are large, and some may not be passed on.
real = pytest.mark.skipif(not DATA, reason="ELMGROVE_DATA names no folder with the data sets")

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, (22, 28, 28), np.uint8)
LABELS = (np.arange(22) % 10).astype(np.uint8)
FOLDER = "UAH-DRIVESET-v1"
#: Mean speed of a way to drive, and how far it goes up and down.
SPEEDS = {"NORMAL1": (70.0, 10.0), "AGGRESSIVE": (110.0, 25.0), "DROWSY": (50.0, 5.0)}
ARCHIVES = {"mnist": "mnist.npz", "har": "uci_har_time265.npz"}


def write_idx(path: Path, array: Any) -> None:
    """An idx file of bytes, as LeCun publishes them."""
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    blob = head + array.tobytes()
    path.write_bytes(gzip.compress(blob) if path.suffix == ".gz" else blob)


def write_digits(folder: Path, ending: str = "-ubyte") -> None:
    """The four files with 12 and 10 pictures."""
    for part, rows in (("train", slice(0, 12)), ("t10k", slice(12, 22))):
        write_idx(folder / f"{part}-images-idx3{ending}", IMAGES[rows])
        write_idx(folder / f"{part}-labels-idx1{ending}", LABELS[rows])


def write_archive(folder: Path, name: str, **changed: Any) -> None:
    """An archive of a data set, with some of its arrays changed."""
    if name == "mnist":
        parts = {"x_train": IMAGES[:12], "x_test": IMAGES[12:]}
        parts |= {"y_train": LABELS[:12], "y_test": LABELS[12:]}
    else:
        X, labels = rng.normal(size=(14, 265)).astype(np.float32), np.arange(14) % 6 + 1
        parts = {"X_train": X[:8], "X_test": X[8:], "activity_names": np.array(["", *"abcdef"])}
        parts |= {"y_train": labels[:8].astype(np.uint8), "y_test": labels[8:].astype(np.uint8)}
    np.savez(folder / ARCHIVES[name], **{**parts, **changed})


def write_har(folder: Path) -> Any:
    """The official folder with 14 rows of 561 features."""
    X, labels = rng.normal(size=(14, 561)).round(6), np.arange(14) % 6
    names = ("WALKING", "UP", "DOWN", "SIT", "STAND", "LAY")
    write_official(folder, Labelled(X[:8], labels[:8], X[8:], labels[8:], names))
    return X


def write_official(folder: Path, data: Labelled, width: int = 561) -> None:
    """Any rows as UCI HAR's official folder; columns are repeated until there are as many."""
    folder = folder / "UCI HAR Dataset"
    for part, rows, labels in (
        ("train", data.train, data.train_label),
        ("test", data.test, data.test_label),
    ):
        (folder / part).mkdir(parents=True)
        wide = np.tile(rows, -(-width // data.width))[:, :width]
        np.savetxt(folder / part / f"X_{part}.txt", wide, " %.7e")
        np.savetxt(folder / part / f"y_{part}.txt", labels + 1, "%d")
    lines = [f"{number} {name}\n" for number, name in enumerate(data.names, 1)]
    (folder / "activity_labels.txt").write_text("".join(lines))


def write_fans(folder: Path, **changed: Any) -> None:
    """Three recordings: at high speed, through all speeds, and off."""
    lengths = [5, 235, 3]
    parts = {
        "X": np.arange(sum(lengths) * 4).reshape(-1, 4).astype(np.float16),
        "rec_id": np.repeat([0, 1, 2], lengths).astype(np.uint8),
        "rec_name": ["12cm_h", "12cm_hmlo", "12cm_o"],
        "rec_size": ["12cm"] * 3,
        "rec_speed": ["h", "hmlo", "o"],
        "rec_type": ["normal", "damage1", "normal"],
        "rec_env": ["noisy"] * 3,
    }
    np.savez(folder / "cooling_fan.npz", **{**parts, **changed})


def write_faces(folder: Path, clients: int = 1, pictures: int = 6) -> None:
    """CelebA as LEAF keeps it: each client has a face, and smiles in two of three pictures."""
    raw = folder / "celeba/data/raw"
    (raw / "img_align_celeba").mkdir(parents=True)
    image = require_package("PIL.Image")
    attributes, identities = [], []
    for number in range(1, pictures * clients + 1):
        name, smiles = f"{number:06}.jpg", number % 3 != 0
        client = (number - 1) // pictures
        face = np.random.default_rng(client).integers(40, 216, (8, 8))
        face[5:7, 2:6] += 40 if smiles else -40
        pixels = np.kron(face, np.ones((28, 23)))[:218, :178, np.newaxis]
        noisy = pixels + rng.normal(0.0, 20.0, (218, 178, 3))
        image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(raw / "img_align_celeba" / name)
        attributes.append(f"{name} -1 {' 1' if smiles else '-1'}")
        identities.append(f"{name} {client + 40}")
    head = [str(len(attributes)), "Young Smiling"]
    (raw / "list_attr_celeba.txt").write_text("\n".join([*head, *attributes, ""]))
    (raw / "identity_CelebA.txt").write_text("\n".join([*identities, ""]))


#: Types of machines, and how many of each: 23 in all, as published.
MACHINES = {"ToyCar": 4, "ToyConveyor": 3, "fan": 4, "pump": 4, "slider": 4, "valve": 4}


def write_sounds(
    folder: Path,
    machines: Mapping[str, int] = MappingProxyType({"ToyCar": 1, "pump": 1}),
    counts: tuple[int, int, int] = (12, 9, 3),
) -> None:
    """DCASE's layout: half a second each, a tone with noise; anomalies have another tone.

    ``counts`` are those of the recordings to learn from, and to test with: normal and anomalous.
    """
    time = np.arange(8000) / 16000
    parts = (("train", "normal"), ("test", "normal"), ("test", "anomaly"))
    for kind, often in machines.items():
        for machine, ((part, state), count) in product(
            range(1, often + 1), zip(parts, counts, strict=True)
        ):
            for number in range(count):
                path = (
                    folder / "dev_data" / kind / part / f"{state}_id_{machine:02}_{number:08}.wav"
                )
                path.parent.mkdir(parents=True, exist_ok=True)
                pitch = 440 * machine if state == "normal" else 3000
                wave = np.sin(2 * np.pi * pitch * time) + 0.1 * rng.normal(size=len(time))
                wavfile.write(path, 16000, (wave * 8000).astype(np.int16))


def write_drive(
    folder: Path, driver: str, pattern: str, speeds: Sequence[float], road: str = "SECONDARY"
) -> Path:
    """A drive as published: nine columns a second, of which only time and speed count."""
    name = f"20151110175712-16km-{driver}-{pattern}-{road}"
    path = folder / FOLDER / driver / name / "RAW_GPS.txt"
    path.parent.mkdir(parents=True)
    rest = "40.51 -3.35 700.2 5 8 120.5 0.1"
    lines = [f"{time + 5.23:.2f} {speed:.1f} {rest} \n" for time, speed in enumerate(speeds)]
    path.write_text("".join(lines))
    return path


def write_driveset(
    folder: Path, drivers: int = 2, seconds: int = 900, road: str = "SECONDARY"
) -> None:
    """Drivers whose speed wanders about a mean that is their way to drive."""
    rng = np.random.default_rng(0)
    for number in range(1, drivers + 1):
        for pattern, (mean, spread) in SPEEDS.items():
            steps = rng.normal(size=(seconds, 8)).mean(axis=1) * np.sqrt(8)
            wave = np.sin(np.arange(seconds) / 20.0)
            speeds = np.clip(mean + spread * wave + 3.0 * steps, 0.0, None)
            write_drive(folder, f"D{number}", pattern, speeds.tolist(), road)
