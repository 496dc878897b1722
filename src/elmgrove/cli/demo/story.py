"""The demo's story: what happens to the fleet, chapter by chapter, and which promises are kept."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from elmgrove.cli.demo.demo_fleet import DemoFleet
from elmgrove.cli.demo.picture import Material
from elmgrove.cli.demo.plant import (
    BREAKS,
    CLOGGED,
    DUTIES,
    LATE,
    LEAVES,
    MORNING,
    MOVES,
    NEXT,
    WARMS,
    Plant,
)
from elmgrove.cli.demo.pumps import PumpRow
from elmgrove.detector import WATCHING, Event, smallest_errors
from elmgrove.exchange import MemoryExchange
from elmgrove.federation import Member

Fields = dict[str, Any]
#: The most that sums without the one that left may differ from those of a fleet that never had it.
EXACT = 1e-9
# Rows after which a fault should have been found, at most: of the bearing, and of the late one.
_HOUR, _SOON = 60, 10
# The share of rows that may be anomalous where none should be.
_HARDLY_ANY = 0.1
# Causes that a message names, and what a worn bearing and a clogged impeller act upon.
_NAMED = 3
_WORN, _CLOGGED = {"vibration", "temperature"}, {"pressure", "power"}


class Story:
    """Five chapters, in this order; ``found`` is what came of them, ``promises`` what was kept."""

    def __init__(self, fleet: DemoFleet, plant: Plant) -> None:
        self._fleet, self._plant = fleet, plant
        # Each as it was before the day, and the rows that it had read by then.
        self._taught = dict[str, bytes]()
        self._before = dict[str, int]()
        self._learned = plant.learned()
        self._rows = dict[str, list[PumpRow]]()
        self._verdicts = dict[str, list[Fields]]()
        self.found: Fields = {}
        self.promises = dict[str, bool]()

    def learn(self) -> Fields:
        """Lets each of the first four learn alone, from days on which nothing happened."""
        first, found = next(iter(DUTIES)), Fields()
        for name, rows in sorted(self._learned.items()):
            member = self._fleet.learn(name, rows, None if name == first else first)
            found[name] = {
                "rows": member.detector.learned,
                "state": member.detector.state,
                "threshold": member.detector.threshold,
                "notices": {one.feature: one.size for one in smallest_errors(member.detector)},
            }
        return self._told("learned", found, {})

    def join(self) -> Fields:
        """Lets the four join and run for a night: each sends its sums, and knows the others'."""
        self._fleet.found(next(iter(DUTIES)))
        for name in DUTIES:
            self._fleet.start(name)
        # Who hears from nobody yet may alarm where others could have told it better.
        self._fleet.settle(DUTIES, DUTIES)
        for name, rows in self._plant.night().items():
            self._fleet.give(name, rows)
            self._before[name] = len(rows)
        self._fleet.catch_up(DUTIES)
        self._fleet.settle(DUTIES, DUTIES)
        members = [self._fleet.member(name) for name in DUTIES]
        self._taught = {one.name: one.to_bytes() for one in members}
        found = {
            "address": self._fleet.address,
            "bytes": max(len(one.to_bytes()) for one in self._fleet.held().values()),
            "rows": sum(self._before.values()),
            "watching": sum(one.detector.state == WATCHING for one in members),
            "events": sum(len(_events(one)) for one in members),
        }
        kept = {
            "all watch after a night": found["watching"] == len(DUTIES),
            "a night on which nothing happens brings no alarm": not found["events"],
        }
        return self._told("joined", found, kept)

    def day(self) -> Fields:
        """Gives each a day: one breaks, one moves, one starts cold, and one has a day as usual.

        Then somebody accepts the move.
        """
        self._rows |= self._plant.day()
        for name in DUTIES:
            self._fleet.give(name, self._rows[name])
        self._fleet.catch_up(DUTIES)
        found = {name: self._watched(name) for name in sorted(DUTIES)}
        fault, move, start, usual = (found[name] for name in (BREAKS, MOVES, WARMS, LEAVES))
        move |= self._accepted()
        few = move["flagged after"] <= _HARDLY_ANY * move["rows after"]
        return self._told(
            "day",
            found,
            {
                "the fault is found within an hour": _is_in(fault["delay"], _HOUR),
                "the fault is explained": _names(fault, _WORN, 1),
                "the fault is normal nowhere": not any(one["known"] for one in fault["events"]),
                f"the move is an event that names {LEAVES}": _known_at(move, LEAVES),
                f"the question about the move names {LEAVES}": _asks_naming(move, LEAVES),
                f"the cold start is an event that names {LEAVES}": _known_at(start, LEAVES),
                "what others know takes no alarm away": all(
                    len(one["events"]) == len(one["events alone"]) for one in found.values()
                ),
                "a usual day brings no alarm": not usual["events"],
                "what was accepted is normal": few,
            },
        )

    def late(self) -> Fields:
        """Lets the late one learn a morning and join; gives it an afternoon, and then a fault."""
        self._learned[LATE] = self._plant.morning()
        self._fleet.learn(LATE, self._learned[LATE], next(iter(DUTIES)))
        self._fleet.start(LATE)
        self._fleet.settle([LATE], (*DUTIES, LATE))
        rows = self._plant.afternoon()
        self._fleet.give(LATE, rows)
        self._fleet.catch_up([LATE])
        member, said = self._fleet.member(LATE), self._fleet.verdicts(LATE)
        normal, faulty = said[:NEXT], said[NEXT:]
        self._rows[LATE], self._verdicts[LATE] = rows, said
        alarm = [number for number, one in enumerate(faulty, start=1) if one["alarm"]]
        found = {
            "learned": MORNING,
            "rows": NEXT,
            "flagged": sum(one["anomalous"] for one in normal),
            "rows until the alarm": alarm[0] if alarm else None,
            "found": sum(one["anomalous"] for one in faulty) / CLOGGED,
            "events": _events(member),
        }
        useful = _is_in(found["rows until the alarm"], _SOON) and _names(found, _CLOGGED, _NAMED)
        kept = {
            "the late one finds its fault": useful,
            "the late one flags few normal rows": found["flagged"] <= _HARDLY_ANY * NEXT,
            "its fault is normal nowhere": not any(one["known"] for one in found["events"]),
        }
        return self._told("late", found, kept)

    def leave(self) -> Fields:
        """Takes one out, checks that nothing of it is left, and that what was accepted stays."""
        rest = [name for name in (*DUTIES, LATE) if name != LEAVES]
        self._fleet.leave(LEAVES)
        self._fleet.settle(rest, rest)
        difference = self._difference(rest)
        said = self._judged(self._plant.left())
        flagged = sum(one["anomalous"] for one in said)
        found = {"difference": difference, "rows": len(said), "flagged": flagged}
        kept = {
            "nothing is left of the one that left": difference < EXACT,
            "what was accepted stays normal": flagged <= _HARDLY_ANY * len(said),
        }
        return self._told("left", found, kept)

    @property
    def material(self) -> Material:
        """What a picture of the day is made of."""
        watched = {**self.found["day"], LATE: self.found["late"]}
        return Material(
            self._learned,
            self._rows,
            self._verdicts,
            {name: len(found["events"]) for name, found in watched.items()},
            self._plant.onsets,
        )

    def _accepted(self) -> Fields:
        first = self._fleet.accept(MOVES).strip().partition(". ")[0]
        after = self._judged(self._plant.accepted())
        flagged = sum(one["anomalous"] for one in after)
        return {"accepted": f"{first}.", "rows after": len(after), "flagged after": flagged}

    def _judged(self, rows: list[PumpRow]) -> list[Fields]:
        """Gives the mover rows, and what its agent says of each."""
        before = len(self._fleet.verdicts(MOVES))
        self._fleet.give(MOVES, rows)
        self._fleet.catch_up([MOVES])
        return self._fleet.verdicts(MOVES, before)

    def _told(self, chapter: str, found: Fields, kept: dict[str, bool]) -> Fields:
        self.found[chapter] = found
        self.promises |= kept
        return found

    def _watched(self, name: str) -> Fields:
        """What an agent said of its day, and what it would have said alone."""
        member, rows = self._fleet.member(name), self._rows[name]
        said = self._verdicts[name] = self._fleet.verdicts(name, self._before[name])
        taught = Member.from_bytes(self._taught[name])
        taught.rest_on(None)
        alone, events = _replayed(taught, rows)
        onset = self._plant.onsets.get(name)
        alarms = [row.minute for row, one in zip(rows, said, strict=True) if one["alarm"]]
        return {
            "rows": len(rows),
            "onset": None if onset is None else self._fleet.time_of(onset),
            "delay": alarms[0] - onset if alarms and onset is not None else None,
            "flagged": sum(one["anomalous"] for one in said),
            "events": _events(member),
            "question": _question(member),
            "flagged alone": sum(alone),
            "events alone": [_told_of(one) for one in events],
        }

    def _difference(self, rest: Iterable[str]) -> float:
        """Compares what each holds of the others with a fleet that never had the one that left."""
        never = self._fleet.in_memory()
        return max(_apart(self._fleet.member(name), never) for name in rest)


def _apart(member: Member, never: MemoryExchange) -> float:
    """How far the sums that a device was told of are from another fleet's, relatively."""
    told, wanted = member.merged, never.others(member.name, None)
    assert told is not None
    assert wanted is not None
    if LEAVES in str(told.labels) or len(told.loans) != len(wanted.loans):
        return 1.0
    pairs = [(told.evidence, wanted.evidence), *zip(told.loans, wanted.loans, strict=True)]
    return max(
        float(np.abs(here - there).max() / max(np.abs(there).max(), 1.0))
        for one, other in pairs
        for here, there in zip(one.arrays.values(), other.arrays.values(), strict=True)
    )


def _replayed(member: Member, rows: Sequence[PumpRow]) -> tuple[list[bool], list[Event]]:
    """What a device that asks nobody makes of rows: which it flags, and its events."""
    detector, before = member.detector, rows[0].minute - 1
    flagged = []
    for row in rows:
        if row.minute != before + 1:
            detector.interrupt()
        before = row.minute
        flagged.append(detector.observe(row.values, 60.0 * row.minute).anomalous)
    events = detector.events
    return flagged, [*events.closed, *([] if events.open is None else [events.open])]


def _events(member: Member) -> list[Fields]:
    events = member.detector.events
    return [_told_of(one) for one in (*events.closed, events.open) if one is not None]


def _told_of(event: Event) -> Fields:
    return {**event.fields, "text": str(event)}


def _question(member: Member) -> str | None:
    """What the agent asks a person, if it asks."""
    drift = member.detector.drift
    report = None if drift is None else drift.report
    return None if report is None else str(report)


def _is_in(delay: int | None, rows: int) -> bool:
    return delay is not None and 0 <= delay <= rows


def _names(found: Fields, sensors: set[str], among: int) -> bool:
    """Whether one event was told, with one of these sensors among its first causes."""
    if len(found["events"]) != 1:
        return False
    return bool(sensors & {cause["feature"] for cause in found["events"][0]["causes"][:among]})


def _known_at(found: Fields, name: str) -> bool:
    """Whether there was an event, and each names this one as knowing most of its rows."""
    return bool(found["events"]) and all(name in str(one["known"]) for one in found["events"])


def _asks_naming(found: Fields, name: str) -> bool:
    return f"(normal at {name}" in (found["question"] or "")
