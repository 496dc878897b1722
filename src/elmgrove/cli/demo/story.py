"""``elmgrove demo``: a day of five simulated pumps, with a real server and real agents."""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from elmgrove.cli.demo.processes import DemoFleet, DemoProcesses, DemoServer
from elmgrove.cli.demo.pumps import (
    BREAKS,
    DUTIES,
    END,
    LATE,
    LEAVES,
    MOVES,
    SENSORS,
    WARMS,
    Plant,
    PumpRow,
)
from elmgrove.detector.decision import WATCHING
from elmgrove.detector.events import normal_at
from elmgrove.detector.self_test import smallest_errors
from elmgrove.errors import require_extra
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.federation.member import Member

Found = dict[str, Any]


def demo(
    output: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo"),
    live: Annotated[
        bool, typer.Option("--live", help="Go on until Ctrl-C, with the dashboard open.")
    ] = False,
) -> None:
    """Show a day of five pumps that learn from each other.

    One warms up, one moves, one breaks, one is late, one leaves. The pumps are simulated; the
    server and the agents are real processes on this machine, and end with the demo. If a run does
    not keep what the story promises, it says so, and the exit code is 1.

    Example: [bold]elmgrove demo --live[/]
    """
    require_extra("matplotlib", "demo")
    output.mkdir(parents=True, exist_ok=True)
    picture, console = output / "demo.png", Console(highlight=False)
    with (
        TemporaryDirectory(prefix="elmgrove-demo-") as scratch,
        DemoProcesses(Path(scratch)) as processes,
    ):
        server = DemoServer(processes)
        # Minute 0 is that of a Monday, 2026-03-02; with --live, rows lead up to now.
        first = time.time() - 60.0 * END if live else 1772409600.0
        fleet = DemoFleet(Path(scratch), processes, server, first)
        console.print(
            "  Five pumps and a server. The pumps are [bold]simulated[/]: "
            "equations make their rows,\n  one a minute. The server and the pumps' agents are "
            "real processes on this machine."
        )
        story = Story(fleet, console)
        chapters = {
            "Four pumps learn, each alone": story.learn,
            "The server starts, and four agents, which join": story.join,
            "A day goes by; a fifth agent starts": story.day,
            "The fifth one joins": story.late,
            "One leaves": story.leave,
        }
        # Its own stream: the commands that run in this process have another one meanwhile.
        with Console(file=sys.stderr).status("") as status:
            for text, tell in chapters.items():
                status.update(text)
                tell()
        story.draw(picture)
        broken = [promise for promise, kept in story.promises.items() if not kept]
        kept = f"{len(story.promises) - len(broken)} of {len(story.promises)} promises were kept"
        console.print(f"\n{kept}. Wrote {picture}.", soft_wrap=True)
        for promise in broken:
            console.print(f"  [bold red]Not so in this run:[/] {promise}.")
        if live:
            console.print(
                "\n[bold]The fleet goes on, until Ctrl-C[/]\n"
                "  A second is a minute: each pump has a row a second, and now and then a fault.\n"
                f"  Dashboard: [bold]{server.dashboard}[/]\n"
                f"  Log in with the administrator's token: [bold]{server.admin_token}[/]",
                soft_wrap=True,
            )
            with suppress(SystemExit):
                stream(fleet, processes, story.plant, console)
        else:
            console.print(f"Its dashboard was at {server.dashboard}; make demo-live keeps it open.")
    if broken:
        raise typer.Exit(1)


def stream(fleet: DemoFleet, processes: DemoProcesses, plant: Plant, console: Console) -> None:
    """Write a row a second for each pump, with the time at which it is written, until a signal.

    A second is a minute of a pump's life. Within ten minutes something happens to each of them.
    """
    fleet.start(LEAVES)
    for name, rows in plant.rest().items():
        fleet.give(name, rows)
    # Two loads that it knows by now, and one that others know.
    pumps, loads = plant.pumps, cycle((1.05, 0.70, 0.92))
    batches = chain.from_iterable(chain([[]] * 15, plant.batch()) for _ in count())
    happens = {
        0: f"{LEAVES} works in batches; what was broken is repaired.",
        60: f"{BREAKS}: its bearing begins to wear; it is repaired soon.",
        200: f"{MOVES} moves to another load.",
        300: f"{LATE}: its impeller clogs; it is cleaned soon.",
        400: f"{WARMS} starts cold, after it stood still for 120 minutes.",
    }
    begin = time.monotonic()
    for second in count():
        processes.require_running()
        at = second % 600
        if at in happens:
            console.print(f"  {datetime.now(UTC):%H:%M} {happens[at]}")
        if at == 200:
            pumps[MOVES].load = next(loads)
        if at == 400:
            pumps[WARMS].rest(120)
        pumps[LATE].clog = float(300 <= at < 340)
        wear = min((at - 59) / 40, 1.0) if 60 <= at < 140 else 0.0
        for name, pump in pumps.items():
            rows = next(batches) if name == LEAVES else pump.run(1, wear * (name == BREAKS))
            fleet.give(name, rows, time.time())
        time.sleep(max(begin + second + 1.0 - time.monotonic(), 0.0))


class Day(NamedTuple):
    """What an agent made of some rows: the events in them, and what it asks."""

    rows: list[PumpRow]
    verdicts: list[Found]
    events: list[Found]
    question: str

    def names(self, sensors: set[str], among: int) -> bool:
        """Whether there is one event, with one of these sensors among its first causes."""
        causes = [cause["feature"] for one in self.events for cause in one["causes"][:among]]
        return len(self.events) == 1 and not sensors.isdisjoint(causes)

    def known_at(self, name: str) -> bool:
        """Whether there was an event, and each names this pump as knowing most of its rows."""
        return bool(self.events) and all(name in str(one["known"]) for one in self.events)

    def known_nowhere(self) -> bool:
        return not any(one["known"] for one in self.events)


class Story:
    """Five chapters, in this order; ``promises`` says which were kept."""

    def __init__(self, fleet: DemoFleet, console: Console) -> None:
        self._fleet, self._console = fleet, console
        self.plant = Plant(1)
        self._days = dict[str, Day]()
        self.promises = dict[str, bool]()

    def learn(self) -> None:
        self._head("1. Each learns alone, from two and a half days on which nothing happened")
        for name, rows in sorted(self.plant.learned().items()):
            detector = self._fleet.learn(name, rows, None if name == BREAKS else BREAKS).detector
            notices = {one.feature: one.size for one in smallest_errors(detector)}
            sizes = [(sensor, notices.get(sensor)) for sensor in ("vibration", "pressure")]
            errors = [f"{of} ± {size:.2g} {SENSORS[of]}" for of, size in sizes if size is not None]
            self._say(
                f"{name} ({DUTIES[name]}): {detector.learned:,} rows. It would notice an error of "
                f"{', '.join(errors)}."
            )

    def join(self) -> None:
        fleet = self._fleet
        fleet.found(BREAKS)
        for name in DUTIES:
            fleet.start(name)
        # Who knows nobody yet may alarm where others could have told it better.
        fleet.settle(DUTIES, DUTIES)
        night = self.plant.night()
        for name, rows in night.items():
            fleet.give(name, rows)
        fleet.catch_up(*DUTIES)
        fleet.settle(DUTIES, DUTIES)
        members = [fleet.member(name) for name in DUTIES]
        largest = max(len(one.to_bytes()) for one in fleet.held().values())
        watching = sum(one.detector.state == WATCHING for one in members)
        events = sum(len(_events(one)) for one in members)
        self.promises |= {
            "all watch after a night": watching == len(DUTIES),
            "a night on which nothing happens brings no alarm": not events,
        }
        self._head("2. They join, and a night goes by")
        self._say(f"The server's dashboard, as long as this runs: {fleet.server.dashboard}")
        self._say(
            f"Each sent its sums, {largest / 1024:.1f} KiB, and no row. From now on each "
            "asks the others about what it has never seen itself, and says who knows it."
        )
        self._say(
            f"After that night's {sum(map(len, night.values())):,} rows {watching} of "
            f"{len(DUTIES)} watch (counting has shown that few normal rows are anomalous). Alarms: "
            f"{events}."
        )

    def day(self) -> None:
        self._days = days = self._judged(self.plant.day())
        fault, move, start, usual = (days[name] for name in (BREAKS, MOVES, WARMS, LEAVES))
        accepted = self._fleet.accept(MOVES).strip().partition(". ")[0]
        after = self._next_of(MOVES, 120)
        onset, alarms = self.plant.onsets[BREAKS], _alarms(fault)
        delay = fault.rows[alarms[0]].minute - onset if alarms else -1
        self.promises |= {
            "the fault is found within an hour": 0 <= delay <= 60,
            "the fault is explained": fault.names({"vibration", "temperature"}, 1),
            "the fault is normal nowhere": fault.known_nowhere(),
            f"the move is an event that names {LEAVES}": move.known_at(LEAVES),
            f"the question about the move names {LEAVES}": f"(normal at {LEAVES}" in move.question,
            f"the cold start is an event that names {LEAVES}": start.known_at(LEAVES),
            "a usual day brings no alarm": not usual.events,
            "what was accepted is normal": _few(after),
        }
        self._head("3. A day on which three pumps do what they never did")
        self._known(MOVES, "moves to another operating point, from 70 to 92 m³/h")
        self._question(move)
        self._more(
            f"Somebody accepts it: {escape(accepted)}. Of the {len(after)} rows after that it "
            f"flags {_flagged(after)}."
        )
        self._known(WARMS, "starts cold after two hours, and warms up")
        self._say(f"{self._clock(BREAKS)} {BREAKS}: its bearing begins to wear.")
        if alarms:
            self._more(
                f"[bold red]Alarm[/] after {delay} minutes; {_flagged(fault.verdicts)} rows, "
                f"normal nowhere: {_causes(fault.events[-1])}."
            )
        else:
            self._more("There was no alarm.")
        self._question(fault)
        self._say(f"Alarms on that day: {sum(len(one.events) for one in days.values())}.")

    def late(self) -> None:
        plant, fleet = self.plant, self._fleet
        morning = plant.run(LATE, 300)
        fleet.learn(LATE, morning, BREAKS)
        fleet.start(LATE)
        fleet.settle([LATE], (*DUTIES, LATE))
        normal = plant.run(LATE, 120)
        plant.pumps[LATE].clog = 1.0
        found = self._judged({LATE: [*normal, *plant.run(LATE, 40)]})[LATE]
        self._days[LATE] = found
        before, on_fault = found.verdicts[: len(normal)], found.verdicts[len(normal) :]
        alarms = [at + 1 - len(normal) for at in _alarms(found) if at >= len(normal)]
        self.promises |= {
            "the late one finds its fault": bool(alarms)
            and alarms[0] <= 10
            and found.names({"pressure", "power"}, 3),
            "the late one flags few normal rows": _few(before),
            "its fault is normal nowhere": found.known_nowhere(),
        }
        self._head(f"4. A late one: {LATE} is new, and learns a morning")
        self._say(
            f"It learns {len(morning)} rows that are known to be normal, and joins. Of its next "
            f"{len(normal)} rows, all normal, it flags {_flagged(before)}."
        )
        if alarms:
            self._more(
                f"Its impeller clogs: [bold red]alarm[/] with row {alarms[0]}, "
                f"{_flagged(on_fault) / len(on_fault):.0%} of rows flagged: "
                f"{_causes(found.events[-1])}."
            )
        else:
            self._more("Its impeller clogs, and there was no alarm.")

    def leave(self) -> None:
        rest = [name for name in (*DUTIES, LATE) if name != LEAVES]
        self._fleet.leave(LEAVES)
        self._fleet.settle(rest, rest)
        never = self._fleet.in_memory()
        difference = max(_difference(self._fleet.member(name), never) for name in rest)
        after = self._next_of(MOVES, 90)
        self.promises |= {
            "nothing is left of the one that left": difference < 1e-9,
            "what was accepted stays normal": _few(after),
        }
        self._head(f"5. {LEAVES} leaves")
        rounding = f"to {difference:.0e}" if difference else "to the last bit"
        self._say(
            f"The sums that the others hold now are those of a fleet that never had {LEAVES}, "
            f"{rounding}."
        )
        self._say(
            f"What was accepted is {MOVES}'s own: still at 92 m³/h, it flags "
            f"{_flagged(after)} of its next {len(after)} rows."
        )

    def draw(self, path: Path) -> None:
        require_extra("matplotlib", "demo").use("Agg")
        pyplot = require_extra("matplotlib.pyplot", "demo")
        figure, panels = pyplot.subplots(4, figsize=(10, 12), layout="constrained")
        lines = {
            MOVES: f"moves to where {LEAVES} has been",
            WARMS: f"starts cold, as {LEAVES} does before each batch",
            BREAKS: "has a bearing that wears",
            LATE: "is new, and its impeller clogs",
        }
        for panel, (name, what) in zip(panels, lines.items(), strict=True):
            rows, verdicts, events, _ = self._days[name]
            hours = np.array([row.minute % 1440 / 60 for row in rows])
            scores = np.array([(v["score"] or 0.0) / (v["threshold"] or np.inf) for v in verdicts])
            flagged, known = (
                np.array([bool(one[key]) for one in verdicts]) for key in ("anomalous", "known")
            )
            kinds = {
                "normal here": (~flagged, "#9a9a9a"),
                "anomalous here, normal at another pump": (flagged & known, "#0072B2"),
                "anomalous here, normal nowhere": (flagged & ~known, "#D55E00"),
            }
            for label, (at, colour) in kinds.items():
                panel.plot(hours[at], scores[at], ".", color=colour, markersize=3, label=label)
            alarms = {0: "no alarm", 1: "an alarm"}.get(len(events), "alarms")
            panel.set_title(f"{name} {what}: {alarms}", loc="left", fontweight="bold")
            panel.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
            panel.set(xlabel="hour of the day", ylabel="score, × threshold", yscale="log")
            panel.set_ylim(0.1)
            panel.yaxis.set_major_formatter("{x:g}")
        legend = figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3
        )
        # Its title is the figure's: one of the figure itself would lie behind it.
        legend.set_title("A day of simulated pumps, as their agents judged it", {"size": 14})
        figure.savefig(path, dpi=100)
        pyplot.close(figure)

    def _judged(self, rows: Mapping[str, list[PumpRow]]) -> dict[str, Day]:
        """Give rows to the agents of pumps, and see what they make of them."""
        fleet = self._fleet
        before = {name: len(fleet.verdicts(name)) for name in rows}
        for name in rows:
            fleet.give(name, rows[name])
        fleet.catch_up(*rows)
        found = dict[str, Day]()
        for name in sorted(rows):
            member = fleet.member(name)
            question = str(member.detector.drift.report or "")
            verdicts = fleet.verdicts(name, before[name])
            found[name] = Day(rows[name], verdicts, _events(member), question)
        return found

    def _next_of(self, name: str, minutes: int) -> list[Found]:
        return self._judged({name: self.plant.run(name, minutes)})[name].verdicts

    def _known(self, name: str, what: str) -> None:
        self._say(f"{self._clock(name)} {name} {what}.")
        events = self._days[name].events
        if not events:
            self._more("There was no alarm.")
        for event in events:
            where = normal_at(event["known"]) or "normal nowhere"
            self._more(
                f"[bold red]Alarm[/]: {event['rows']} rows, {escape(where)}; {_causes(event)}."
            )

    def _question(self, found: Day) -> None:
        if found.question:
            self._more(f"It asks: {escape(found.question)}")

    def _clock(self, name: str) -> str:
        when = self._fleet.time_of(self.plant.onsets[name])
        return f"{datetime.fromtimestamp(when, UTC):%H:%M}"

    def _head(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/]")

    def _say(self, text: str, indent: int = 2) -> None:
        self._console.print(Padding(text, (0, 0, 0, indent), expand=False))

    def _more(self, text: str) -> None:
        self._say(text, 8)


def _difference(member: Member, never: MemoryExchange) -> float:
    """How far the sums that a device got are from another fleet's, relatively."""
    merged, wanted = member.merged, never.others(member.name)
    assert merged is not None
    assert wanted is not None
    if LEAVES in str(merged.labels) or len(merged.loans) != len(wanted.loans):
        return 1.0
    pairs = [(merged.evidence, wanted.evidence), *zip(merged.loans, wanted.loans, strict=True)]
    return max(
        float(np.abs(here - there).max() / max(np.abs(there).max(), 1.0))
        for one, other in pairs
        for here, there in zip(one.arrays.values(), other.arrays.values(), strict=True)
    )


def _events(member: Member) -> list[Found]:
    events = member.detector.events
    return [one.fields for one in (*events.closed, events.open) if one is not None]


def _causes(event: Found) -> str:
    return ", ".join(
        f"{one['feature']} {one['seen']:.3g} {SENSORS[one['feature']]} (not {one['expected']:.3g})"
        for one in event["causes"][:2]
    )


def _alarms(found: Day) -> list[int]:
    return [place for place, one in enumerate(found.verdicts) if one["alarm"]]


def _flagged(verdicts: Sequence[Found]) -> int:
    return sum(one["anomalous"] for one in verdicts)


def _few(verdicts: Sequence[Found]) -> bool:
    """Whether hardly any row is anomalous, where none should be."""
    return _flagged(verdicts) <= 0.1 * len(verdicts)
