"""Silencing: whether others take anything from a device's alarms.

Each device of a fleet learns its normal rows and is tested alone, with all others by name, and with
all others at once, as a server tells of them. What it tells must be the same: others inform.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.quality.sets import ARCHIVES, Device, archived, archived_names
from benchmarks.quality.windows import Matrix
from elmgrove.algebra.basis import Basis
from elmgrove.detector.thresholds import FalseAlarmRate
from elmgrove.detector.verdict import Verdict
from elmgrove.federation.aggregation import StandingOthers
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove_papers.data import recordings
from elmgrove_papers.data.fans import NORMAL

#: The fleets of NAB, by what the names of their devices begin with.
NAB = {"Twitter": "Twitter_volume_", "EC2": "ec2_cpu_utilization_"}
FANS = "fans"
ALONE, BY_NAME, AT_ONCE = WAYS = ("alone", "others by name", "others at once")
#: The fleets, and the files that they are in.
FLEETS = {**dict.fromkeys(NAB, ARCHIVES["NAB"]), FANS: "cooling_fan.npz"}


@dataclass(frozen=True)
class Told:
    """What a device told: labelled stretches with an event, of how many; rows of events in them.

    ``known`` counts those of the rows that the verdict says are normal elsewhere.
    """

    stretches: int
    found: frozenset[int]
    rows: int
    known: int


class Beside(NamedTuple):
    """What a device of a fleet told, alone and beside others, by way."""

    fleet: str
    device: str
    told: dict[str, Told]

    @property
    def lost(self) -> int:
        """The labelled stretches with an event alone, and none beside others in some way."""
        alone = self.told[ALONE].found
        return len(alone - (self.told[BY_NAME].found & self.told[AT_ONCE].found))

    def as_json(self) -> dict[str, Any]:
        """Gives the numbers as JSON holds them."""
        told = {way: asdict(one) | {"found": sorted(one.found)} for way, one in self.told.items()}
        return {"fleet": self.fleet, "device": self.device, "told": told}


def compared(name: str, folder: Path) -> list[Beside]:
    """Tests the devices of a fleet, by its name."""
    return [Beside(name, *one) for one in measured(fleet_of(name, folder)).items()]


def fleet_of(name: str, folder: Path) -> dict[str, Device]:
    """Reads a fleet by its name."""
    return _fans(folder) if name == FANS else _nab(NAB[name], folder)


def _nab(begin: str, folder: Path) -> dict[str, Device]:
    names = [name for name in archived_names("NAB", folder) if name.startswith(begin)]
    return {name: archived("NAB", name, folder) for name in names}


def _fans(folder: Path) -> dict[str, Device]:
    """Reads each size in each room; tested are those of which damaged ones were recorded."""
    known, found = recordings(folder), dict[str, Device]()
    for device in sorted({one.device for one in known}):
        mine = [one for one in known if one.device == device]
        runs = [one for one in mine if one.speed == "hmlo"]
        if all(one.damage == NORMAL for one in mine):
            runs = []
        steady = [one.rows for one in mine if one.speed != "hmlo" and one.damage == NORMAL]
        train = np.vstack(steady)
        labels = [np.full(len(one.rows), one.damage != NORMAL) for one in runs]
        test = np.vstack([train[:0], *(one.rows for one in runs)])
        found[device] = Device(device, train, test, np.concatenate([np.zeros(0, bool), *labels]))
    return found


def measured(fleet: Mapping[str, Device]) -> dict[str, dict[str, Told]]:
    """Tests each device in each way; gives what it told, by device and way."""
    rows = np.vstack([one.train for one in fleet.values()])
    charter = Charter("fleet", Basis.fitted(rows, None, scaling="standard"))
    states = {name: _learned(charter, name, one.train) for name, one in fleet.items()}
    given = [Member.from_bytes(state).contribution() for state in states.values()]
    return {
        name: {way: _told(member, one) for way, member in _ways(charter, states[name], given)}
        for name, one in fleet.items()
        if one.labels.any()
    }


def _learned(charter: Charter, name: str, rows: Matrix) -> bytes:
    member = charter.start(name, threshold=FalseAlarmRate(confidence=0.0))
    member.detector.learn_many(rows)
    return member.to_bytes()


def _ways(
    charter: Charter, state: bytes, given: Sequence[Contribution]
) -> Iterator[tuple[str, Member]]:
    yield ALONE, Member.from_bytes(state)
    named = Member.from_bytes(state)
    named.receive_all(one for one in given if one.origin != named.name)
    yield BY_NAME, named
    standing, at_once = StandingOthers(charter), Member.from_bytes(state)
    for one in given:
        standing.take(one)
    at_once.set_prior(standing.others(1, at_once.name))
    yield AT_ONCE, at_once


def _told(member: Member, one: Device) -> Told:
    verdicts = member.detector.observe_many(one.test)
    told = np.array([verdict.event is not None for verdict in verdicts])
    edges = np.flatnonzero(np.diff(np.concatenate([[False], one.labels, [False]]).astype(int)))
    spans = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
    found = [place for place, (begin, end) in enumerate(spans) if told[begin:end].any()]
    inside = told & one.labels
    known = sum(_is_known(verdicts[place]) for place in np.flatnonzero(inside).tolist())
    return Told(len(spans), frozenset(found), int(inside.sum()), known)


def _is_known(verdict: Verdict) -> bool:
    return bool(verdict.known)
