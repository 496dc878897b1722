"""The demo's story: what happens to the fleet, chapter by chapter, and which promises are kept."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as Grid

from elmgrove.cli.demo.fleet import DemoFleet
from elmgrove.cli.demo.picture import Material
from elmgrove.cli.demo.pumps import (
    BREAKS,
    CLOGGED,
    DUTIES,
    LATE,
    LEAVES,
    MORNING,
    MOVES,
    NEXT,
    SENSORS,
    WARMS,
    Plant,
    PumpRow,
)
from elmgrove.detector.events import Event, normal_at
from elmgrove.detector.false_alarms import WATCHING
from elmgrove.detector.self_test import smallest_errors
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.federation.member import Member

Fields = Mapping[str, Any]
# Sensors whose smallest error is shown, and causes of an event.
_SHOWN, _CAUSES = ("vibration", "pressure"), 2


class Wording:
    """Prints the story as it goes on, a section for each chapter."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, seed: int) -> None:
        """Says what is real here and what is not."""
        self._say(
            f"Five pumps and a server. The pumps are [bold]simulated[/] (seed {seed}): equations "
            "make their rows, one a minute. The server and the pumps' agents are real processes on "
            "this machine."
        )

    def learned(self, found: Fields) -> None:
        """Says what each learned alone."""
        self._head("1. Each learns alone, from two and a half days on which nothing happened")
        grid = Grid(box=None, padding=(0, 2, 0, 0))
        for heading in ("pump", "duty", "rows", "smallest errors it notices"):
            grid.add_column(heading, justify="right" if heading == "rows" else "left")
        for name, one in found.items():
            sizes = [(sensor, one["notices"].get(sensor)) for sensor in _SHOWN]
            told = (f"{of} ± {size:.2g} {SENSORS[of]}" for of, size in sizes if size is not None)
            grid.add_row(name, DUTIES[name], f"{one['rows']:,}", ", ".join(told))
        self._console.print(Padding(grid, (0, 0, 0, 2), expand=False))

    def joined(self, found: Fields, dashboard: str) -> None:
        """Says that they joined, and where that can be looked at."""
        self._head("2. They join, and a night goes by")
        self._say(f"The server's dashboard, as long as this runs: {dashboard}")
        self._say(
            f"Each sent its sums, {found['bytes'] / 1024:.1f} KiB, and no row. From now on each "
            "asks the others about what it has never seen itself, and says who knows it."
        )
        self._say(
            f"After that night's {found['rows']:,} rows {found['watching']} of {len(DUTIES)} watch "
            f"(counting has shown that few normal rows are anomalous). Alarms: {found['events']}."
        )

    def day(self, found: Fields) -> None:
        """Says what the day brought: the move, the cold start and the fault."""
        self._head("3. A day on which three pumps do what they never did")
        move = found[MOVES]
        self._known(MOVES, "moves to another operating point, from 70 to 92 m³/h", move)
        if move["question"]:
            self._more(f"It asks: {escape(move['question'])}")
        self._more(f"Somebody accepts it: {escape(move['accepted'])}")
        self._more(f"Of the {move['rows after']} rows after that it flags {move['flagged after']}.")
        self._known(WARMS, "starts cold after two hours, and warms up", found[WARMS])
        fault = found[BREAKS]
        self._say(f"{_clock(fault['onset'])} {BREAKS}: its bearing begins to wear.")
        if fault["delay"] is None:
            self._more("There was no alarm.")
        else:
            self._more(
                f"[bold red]Alarm[/] after {fault['delay']} minutes; {fault['flagged']} rows, "
                f"normal nowhere: {causes(fault['events'][-1]['causes'])}."
            )
        if fault["question"]:
            self._more(f"It asks: {escape(fault['question'])}")
        events = sum(len(found[name]["events"]) for name in found)
        alone = sum(len(found[name]["events alone"]) for name in found)
        self._say(f"Alarms on that day: {events}. Had each been alone: {alone}.")

    def late(self, found: Fields) -> None:
        """Says what the late one made of few rows."""
        self._head(f"4. A late one: {LATE} is new, and learns a morning")
        self._say(
            f"It learns {found['learned']} rows that are known to be normal, and joins. Of its "
            f"next {found['rows']} rows, all normal, it flags {found['flagged']}."
        )
        if found["rows until the alarm"] is None:
            self._more("Its impeller clogs, and there was no alarm.")
        else:
            self._more(
                f"Its impeller clogs: [bold red]alarm[/] with row {found['rows until the alarm']}, "
                f"{found['found']:.0%} of rows flagged: {causes(found['events'][-1]['causes'])}."
            )

    def left(self, found: Fields) -> None:
        """Says what is left of the one that left."""
        self._head(f"5. {LEAVES} leaves")
        self._say(
            f"The sums that the others hold now are those of a fleet that never had {LEAVES}, "
            f"{_rounding(found['difference'])}."
        )
        self._say(
            f"What was accepted is {MOVES}'s own: still at 92 m³/h, it flags {found['flagged']} of "
            f"its next {found['rows']} rows."
        )

    def broken(self, promises: Mapping[str, bool]) -> bool:
        """Says which promises of the story this run did not keep; whether there are any."""
        broken = [promise for promise, kept in promises.items() if not kept]
        for promise in broken:
            self._say(f"[bold red]Not so in this run:[/] {promise}.")
        return bool(broken)

    def goes_on(self, dashboard: str, token: str) -> None:
        """Says that the fleet goes on, and where to look at it."""
        self._head("The fleet goes on, until Ctrl-C")
        self._say("A second is a minute: each pump has a row a second, and now and then a fault.")
        self._say(f"Dashboard: [bold]{dashboard}[/]")
        self._say(f"Log in with the administrator's token: [bold]{token}[/]")

    def happens(self, what: str) -> None:
        """Says what happens now."""
        self._say(f"{_clock(time.time())} {what}")

    def ended(self, files: Sequence[Path]) -> None:
        """Says what was written."""
        self._console.print(f"\nWrote {' and '.join(map(str, files))}.", soft_wrap=True)

    def closes(self, dashboard: str) -> None:
        """Says where the dashboard was, and how to keep it open."""
        self._console.print(f"Its dashboard was at {dashboard}; make demo-live keeps it open.")

    def _known(self, name: str, what: str, found: Fields) -> None:
        self._say(f"{_clock(found['onset'])} {name} {what}.")
        if not found["events"]:
            self._more("There was no alarm.")
        for event in found["events"]:
            where = normal_at(event["known"]) or "normal nowhere"
            self._more(
                f"[bold red]Alarm[/]: {event['rows']} rows, {escape(where)}; "
                f"{causes(event['causes'])}."
            )

    def _head(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/]")

    def _say(self, text: str) -> None:
        self._console.print(Padding(text, (0, 0, 0, 2), expand=False))

    def _more(self, text: str) -> None:
        self._console.print(Padding(text, (0, 0, 0, 8), expand=False))


def causes(told: Sequence[Fields], many: int = _CAUSES) -> str:
    """Says what was seen and what was expected, for the first causes of an event."""
    return ", ".join(
        f"{one['feature']} {one['seen']:.3g} {SENSORS[one['feature']]} (not {one['expected']:.3g})"
        for one in told[:many]
    )


def _rounding(difference: float) -> str:
    return f"to {difference:.0e}" if difference else "to the last bit"


def _clock(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%H:%M")


Found = dict[str, Any]
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
        self._verdicts = dict[str, list[Found]]()
        self.found: Found = {}
        self.promises = dict[str, bool]()

    def learn(self) -> Found:
        """Lets each of the first four learn alone, from days on which nothing happened."""
        first, found = next(iter(DUTIES)), Found()
        for name, rows in sorted(self._learned.items()):
            member = self._fleet.learn(name, rows, None if name == first else first)
            found[name] = {
                "rows": member.detector.learned,
                "state": member.detector.state,
                "threshold": member.detector.threshold,
                "notices": {one.feature: one.size for one in smallest_errors(member.detector)},
            }
        return self._told("learned", found, {})

    def join(self) -> Found:
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

    def day(self) -> Found:
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

    def late(self) -> Found:
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

    def leave(self) -> Found:
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

    def _accepted(self) -> Found:
        first = self._fleet.accept(MOVES).strip().partition(". ")[0]
        after = self._judged(self._plant.accepted())
        flagged = sum(one["anomalous"] for one in after)
        return {"accepted": f"{first}.", "rows after": len(after), "flagged after": flagged}

    def _judged(self, rows: list[PumpRow]) -> list[Found]:
        """Gives the mover rows, and what its agent says of each."""
        before = len(self._fleet.verdicts(MOVES))
        self._fleet.give(MOVES, rows)
        self._fleet.catch_up([MOVES])
        return self._fleet.verdicts(MOVES, before)

    def _told(self, chapter: str, found: Found, kept: dict[str, bool]) -> Found:
        self.found[chapter] = found
        self.promises |= kept
        return found

    def _watched(self, name: str) -> Found:
        """What an agent said of its day, and what it would have said alone."""
        member, rows = self._fleet.member(name), self._rows[name]
        said = self._verdicts[name] = self._fleet.verdicts(name, self._before[name])
        taught = Member.from_bytes(self._taught[name])
        taught.set_prior(None)
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


def _events(member: Member) -> list[Found]:
    events = member.detector.events
    return [_told_of(one) for one in (*events.closed, events.open) if one is not None]


def _told_of(event: Event) -> Found:
    return {**event.fields, "text": str(event)}


def _question(member: Member) -> str | None:
    """What the agent asks a person, if it asks."""
    report = member.detector.drift.report
    return None if report is None else str(report)


def _is_in(delay: int | None, rows: int) -> bool:
    return delay is not None and 0 <= delay <= rows


def _names(found: Found, sensors: set[str], among: int) -> bool:
    """Whether one event was told, with one of these sensors among its first causes."""
    if len(found["events"]) != 1:
        return False
    return bool(sensors & {cause["feature"] for cause in found["events"][0]["causes"][:among]})


def _known_at(found: Found, name: str) -> bool:
    """Whether there was an event, and each names this one as knowing most of its rows."""
    return bool(found["events"]) and all(name in str(one["known"]) for one in found["events"])


def _asks_naming(found: Found, name: str) -> bool:
    return f"(normal at {name}" in (found["question"] or "")
