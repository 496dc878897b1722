"""DCASE 2020 task 2: sounds of toy and real machines, one client for each machine."""

import re
import warnings
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from scipy.io import wavfile

from elmgrove.algebra import Array
from elmgrove_papers.data.mel import stacked_log_mel
from elmgrove_papers.data.source import Source

FOLDER = "dev_data"
SOURCE = Source(
    "DCASE 2020 task 2",
    "https://dcase.community/challenge2020 (task 2, development data)",
    f"{FOLDER}/ToyCar/train/normal_id_01_00000000.wav and so on",
)
_NAME = re.compile(r"(normal|anomaly)_(id_\d+)_\d+\.wav")


@dataclass(frozen=True)
class Machine:
    """One client: the files to learn from, and normal and anomalous ones to test with."""

    name: str
    train: tuple[Path, ...]
    normal: tuple[Path, ...]
    anomalous: tuple[Path, ...]


def machines(folder: Path) -> list[Machine]:
    """All machines (23 in the published set), by type and number; no sound is read."""
    root = folder / FOLDER
    files = sorted(root.glob("*/*/*.wav"))
    if not files:
        raise SOURCE.missing(folder)
    found: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for path in files:
        if named := _NAME.fullmatch(path.name):
            state, number = named.groups()
            part = "train" if path.parent.name == "train" else state
            found[f"{path.parent.parent.name}-{number}"][part].append(path)
    return [
        Machine(name, *(tuple(parts[part]) for part in ("train", "normal", "anomaly")))
        for name, parts in sorted(found.items())
    ]


def sound(path: Path) -> Array:
    """A recording as rows: each five frames of 128 log-mel bands, like the task's baseline."""
    with SOURCE.reading(path), warnings.catch_warnings():
        # SciPy only warns where a recording breaks off; here that is a damaged file.
        warnings.filterwarnings("error", "Reached EOF", wavfile.WavFileWarning)
        rate, samples = wavfile.read(path)
        return stacked_log_mel(samples, rate)
