"""Mixtures of devices whose kinds are known: simulated machines, servers, fans; some poisoned."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.quality.battery import calm, faulty
from benchmarks.quality.machines import Machine, machine, sibling
from benchmarks.quality.sets import devices_of
from benchmarks.quality.windows import Labels, Matrix
from elmgrove_papers.data import recordings
from elmgrove_papers.data.fans import NORMAL

POISONED = "poisoned"
#: What a poisoned device sends: its sums; those as if it had so many times the rows; or so many
#: times everybody's sums, and the fault in as large a share.
PLAIN, COUNTED, COPIED = "plain", "counted", "copied"
TIMES, COPIES = 1e6, 3.0
#: The share of a poisoned device's rows that has a fault.
SHARE = 0.1
SENSORS = 8
#: How far apart levels are: of machines of one kind, in residual σ; of two kinds, in σ.
LEVEL, APART = 0.25, 3.0
#: How much of its last row a machine's next one remembers, where rows follow each other in time.
MEMORY = 0.95
SEEDS = (1, 2)
#: Of each fan's rows, blocks of so many are dealt to so many devices.
BLOCK, DEALT = 10, 3


class OfKind(NamedTuple):
    """A device of a mixture: its kind, rows to learn, and rows with labels to test, if any.

    Of a poisoned one no labels, and in place of the tests those of its rows that have the fault.
    """

    kind: str
    train: Matrix
    test: Matrix | None = None
    labels: Labels | None = None


Devices = dict[str, OfKind]


@dataclass(frozen=True)
class Mixture:
    """A mixture: how its devices are made, of which folder and seed, and what poison there is."""

    title: str
    devices: Callable[[Path, int], Devices]
    file: str | None = None
    poison: str = PLAIN
    #: Whether devices of one kind are alike: a server of one group is not like another.
    alike: bool = True
    #: None is what suits the first device's rows.
    window: int | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds with which it is made: one of what is recorded."""
        return SEEDS if self.file is None else SEEDS[:1]


# Simulated machines


def _of_laws(laws: Sequence[tuple[Machine, int]], memory: float, seed: int) -> Devices:
    """Makes so many machines of each law."""
    made = {}
    for kind, (law, count) in enumerate(laws):
        for number in range(count):
            one = sibling(law, 1000 * seed + 100 * kind + number, memory, LEVEL)
            # In windows a fault is seen for as long as it is in one.
            labels = ~calm(one) if memory else faulty(one)
            made[f"{seed}: {kind}-{number}"] = OfKind(f"{kind}", one.train, one.test, labels)
    return made


def _law(seed: int) -> Machine:
    return machine("shared load", SENSORS, seed)


def _moved(law: Machine, kind: int) -> Machine:
    """The same machine with every third sensor some deviations higher."""
    higher = np.arange(SENSORS) % 3 == kind
    return replace(law, mean=law.mean + APART * np.sqrt(np.diag(law.covariance)) * higher)


def _turned(law: Machine, other: Machine) -> Machine:
    """The same levels and deviations, with the correlations of another one."""
    rate = np.sqrt(np.diag(law.covariance) / np.diag(other.covariance))
    return replace(law, covariance=rate[:, None] * other.covariance * rate)


def _with_poisoned(devices: Devices, law: Machine, memory: float, seed: int) -> Devices:
    """Adds a machine of this law that has a fault in some of its rows."""
    one = sibling(law, 1000 * seed + 999, memory, LEVEL)
    rows, fault = one.train.copy(), one.faults[0]
    bad = np.random.default_rng(seed).permutation(len(rows))[: round(SHARE * len(rows))]
    rows[bad, fault.sensor] += fault.size * one.residual[fault.sensor]
    return devices | {POISONED: OfKind(POISONED, rows, rows[bad])}


def _one_kind(folder: Path, seed: int) -> Devices:
    return _with_poisoned(_of_laws([(_law(seed), 6)], 0.0, seed), _law(seed), 0.0, seed)


def _by_level(folder: Path, seed: int) -> Devices:
    return _of_laws([(_moved(_law(seed), kind), 4) for kind in range(3)], 0.0, seed)


def _by_correlation(folder: Path, seed: int) -> Devices:
    laws = [_turned(_law(seed), _law(seed + 50 * kind)) for kind in range(3)]
    return _of_laws([(law, 4) for law in laws], 0.0, seed)


def _many_and_few(folder: Path, seed: int) -> Devices:
    law = _law(seed)
    return _of_laws([(law, 6), (_turned(law, _law(seed + 50)), 3)], 0.0, seed)


def _in_time(folder: Path, seed: int) -> Devices:
    law = _law(seed)
    laws = [(law, 4), (_moved(law, 1), 4), (_turned(law, _law(seed + 50)), 4)]
    return _with_poisoned(_of_laws(laws, MEMORY, seed), law, MEMORY, seed)


# Recorded ones


def _servers(folder: Path, seed: int) -> Devices:
    return {
        name: OfKind(name.split("-")[0], one.train, one.test, one.labels)
        for name, one in devices_of("SMD", folder, False).items()
    }


def _fans(folder: Path, chosen: Callable[[str], bool]) -> Devices:
    """Deals the rows of each fan to some devices; only some fans were also recorded damaged."""
    known = [one for one in recordings(folder) if chosen(one.device)]
    tested = devices_of("fans", folder, False)
    made = {}
    for fan in sorted({one.device for one in known}):
        steady = [
            one.rows
            for one in known
            if one.device == fan and one.damage == NORMAL and one.speed != "hmlo"
        ]
        for number in range(DEALT):
            turns = [rows[np.arange(len(rows)) // BLOCK % DEALT == number] for rows in steady]
            test = tested.get(fan)
            shown = (test.test, test.labels) if test is not None else (None, None)
            made[f"{fan} {number}"] = OfKind(fan, np.vstack(turns), *shown)
    return made


def _fans_of_sizes(folder: Path, seed: int) -> Devices:
    return _fans(folder, lambda device: device.endswith("silentA"))


def _fans_in_rooms(folder: Path, seed: int) -> Devices:
    return _fans(folder, lambda device: device.startswith("12cm"))


MIXTURES = {
    one.title: one
    for one in (
        Mixture("pumps of one kind, one poisoned", _one_kind),
        Mixture("pumps of one kind, one poisoned with counts × 10⁶", _one_kind, poison=COUNTED),
        Mixture("pumps of one kind, one with 3 × everybody's sums", _one_kind, poison=COPIED),
        Mixture("pumps of three kinds: levels", _by_level),
        Mixture("pumps of three kinds: correlations", _by_correlation),
        Mixture("pumps of two kinds: six and three", _many_and_few),
        Mixture("pumps of three kinds in time, one poisoned", _in_time, window=10),
        Mixture("SMD's servers, m1 and m2", _servers, "smd_servers.npz", alike=False),
        Mixture("fans of three sizes, dealt", _fans_of_sizes, "cooling_fan.npz"),
        Mixture("fans in three rooms, dealt", _fans_in_rooms, "cooling_fan.npz"),
    )
}
