"""``elmgrove demo``: a day of five simulated pumps, with a real server and real agents."""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

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
    picture = output / "demo.png"
    console, plant = Console(highlight=False), Plant(1)
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
        story = Story(fleet, plant, console)
        # Its own stream: the commands that run in this process have another one meanwhile.
        with Console(file=sys.stderr).status("Four pumps learn, each alone") as status:
            story.learn()
            status.update("The server starts, and four agents, which join")
            server.wait()
            story.join(server.dashboard)
            status.update("A day goes by; a fifth agent starts")
            story.day()
            status.update("The fifth one joins")
            story.late()
            status.update("One leaves")
            story.leave()
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
                stream(fleet, processes, plant, console)
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
    pumps = plant.pumps
    # Two loads that it knows by now, and one that others know.
    loads = cycle((1.05, 0.70, 0.92))
    batches = chain.from_iterable(chain([[]] * 15, plant.batch()) for _ in count())
    happens = {
        0: f"{LEAVES} works in batches; what was broken is repaired.",
        60: f"{BREAKS}: its bearing begins to wear.",
        140: f"{BREAKS} is repaired.",
        200: f"{MOVES} moves to another load.",
        300: f"{LATE}: its impeller clogs.",
        340: f"{LATE} is cleaned.",
        400: f"{WARMS} starts cold, after it stood still for 120 minutes.",
    }
    due = time.monotonic()
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
        due += 1.0
        time.sleep(max(due - time.monotonic(), 0.0))


class Story:
    """Five chapters, in this order; ``promises`` says which were kept."""

    def __init__(self, fleet: DemoFleet, plant: Plant, console: Console) -> None:
        self._fleet, self._plant, self._console = fleet, plant, console
        self._rows = dict[str, list[PumpRow]]()
        self._verdicts = dict[str, list[Found]]()
        self._alarms = dict[str, int]()
        self.promises = dict[str, bool]()

    def learn(self) -> None:
        """Each of the first four learns alone, from days on which nothing happened."""
        first = next(iter(DUTIES))
        self._head("1. Each learns alone, from two and a half days on which nothing happened")
        for name, rows in sorted(self._plant.learned().items()):
            detector = self._fleet.learn(name, rows, None if name == first else first).detector
            notices = {one.feature: one.size for one in smallest_errors(detector)}
            sizes = [(sensor, notices.get(sensor)) for sensor in ("vibration", "pressure")]
            errors = [f"{of} ± {size:.2g} {SENSORS[of]}" for of, size in sizes if size is not None]
            self._say(
                f"{name} ({DUTIES[name]}): {detector.learned:,} rows. It would notice an error of "
                f"{', '.join(errors)}."
            )

    def join(self, dashboard: str) -> None:
        """The four join and run for a night: each sends its sums, and knows the others'."""
        fleet = self._fleet
        fleet.found(next(iter(DUTIES)))
        for name in DUTIES:
            fleet.start(name)
        # Who knows nobody yet may alarm where others could have told it better.
        fleet.settle(DUTIES, DUTIES)
        night = self._plant.night()
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
        self._say(f"The server's dashboard, as long as this runs: {dashboard}")
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
        """One breaks, one moves, one starts cold, one has a day as usual; the move is accepted."""
        before = {name: len(self._fleet.verdicts(name)) for name in DUTIES}
        self._rows |= self._plant.day()
        for name in DUTIES:
            self._fleet.give(name, self._rows[name])
        self._fleet.catch_up(*DUTIES)
        found = {name: self._watched(name, before[name]) for name in sorted(DUTIES)}
        fault, move, start, usual = (found[name] for name in (BREAKS, MOVES, WARMS, LEAVES))
        accepted = self._fleet.accept(MOVES).strip().partition(". ")[0]
        after = self._judged(self._plant.run(MOVES, 120))
        self.promises |= {
            "the fault is found within an hour": fault["delay"] is not None
            and 0 <= fault["delay"] <= 60,
            "the fault is explained": _names(fault["events"], {"vibration", "temperature"}, 1),
            "the fault is normal nowhere": not any(one["known"] for one in fault["events"]),
            f"the move is an event that names {LEAVES}": _known_at(move, LEAVES),
            f"the question about the move names {LEAVES}": f"(normal at {LEAVES}"
            in (move["question"] or ""),
            f"the cold start is an event that names {LEAVES}": _known_at(start, LEAVES),
            "a usual day brings no alarm": not usual["events"],
            "what was accepted is normal": _few(after),
        }
        self._head("3. A day on which three pumps do what they never did")
        self._known(MOVES, "moves to another operating point, from 70 to 92 m³/h", move)
        self._question(move)
        self._more(
            f"Somebody accepts it: {escape(accepted)}. Of the {len(after)} rows after that it "
            f"flags {_flagged(after)}."
        )
        self._known(WARMS, "starts cold after two hours, and warms up", start)
        self._say(f"{_clock(fault['onset'])} {BREAKS}: its bearing begins to wear.")
        if fault["delay"] is None:
            self._more("There was no alarm.")
        else:
            self._more(
                f"[bold red]Alarm[/] after {fault['delay']} minutes; {fault['flagged']} rows, "
                f"normal nowhere: {_causes(fault['events'][-1])}."
            )
        self._question(fault)
        self._say(f"Alarms on that day: {sum(len(one['events']) for one in found.values())}.")

    def late(self) -> None:
        """A fifth one learns a morning and joins; after an afternoon it has a fault."""
        plant, fleet = self._plant, self._fleet
        morning = plant.run(LATE, 300)
        fleet.learn(LATE, morning, next(iter(DUTIES)))
        fleet.start(LATE)
        fleet.settle([LATE], (*DUTIES, LATE))
        normal = plant.run(LATE, 120)
        plant.pumps[LATE].clog = 1.0
        faulty = plant.run(LATE, 40)
        self._rows[LATE] = [*normal, *faulty]
        fleet.give(LATE, self._rows[LATE])
        fleet.catch_up(LATE)
        verdicts = self._verdicts[LATE] = fleet.verdicts(LATE)
        on_fault = verdicts[len(normal) :]
        alarms = [number for number, one in enumerate(on_fault, start=1) if one["alarm"]]
        events = _events(fleet.member(LATE))
        self._alarms[LATE] = len(events)
        found_soon = bool(alarms) and alarms[0] <= 10
        self.promises |= {
            "the late one finds its fault": found_soon and _names(events, {"pressure", "power"}, 3),
            "the late one flags few normal rows": _few(verdicts[: len(normal)]),
            "its fault is normal nowhere": not any(one["known"] for one in events),
        }
        self._head(f"4. A late one: {LATE} is new, and learns a morning")
        self._say(
            f"It learns {len(morning)} rows that are known to be normal, and joins. Of its next "
            f"{len(normal)} rows, all normal, it flags {_flagged(verdicts[: len(normal)])}."
        )
        if not alarms:
            self._more("Its impeller clogs, and there was no alarm.")
        else:
            self._more(
                f"Its impeller clogs: [bold red]alarm[/] with row {alarms[0]}, "
                f"{_flagged(on_fault) / len(faulty):.0%} of rows flagged: {_causes(events[-1])}."
            )

    def leave(self) -> None:
        """One leaves: nothing of it is left, and what was accepted stays."""
        rest = [name for name in (*DUTIES, LATE) if name != LEAVES]
        self._fleet.leave(LEAVES)
        self._fleet.settle(rest, rest)
        never = self._fleet.in_memory()
        difference = max(_difference(self._fleet.member(name), never) for name in rest)
        verdicts = self._judged(self._plant.run(MOVES, 90))
        self.promises |= {
            "nothing is left of the one that left": difference < 1e-9,
            "what was accepted stays normal": _few(verdicts),
        }
        self._head(f"5. {LEAVES} leaves")
        rounding = f"to {difference:.0e}" if difference else "to the last bit"
        self._say(
            f"The sums that the others hold now are those of a fleet that never had {LEAVES}, "
            f"{rounding}."
        )
        self._say(
            f"What was accepted is {MOVES}'s own: still at 92 m³/h, it flags "
            f"{_flagged(verdicts)} of its next {len(verdicts)} rows."
        )

    def draw(self, path: Path) -> None:
        """Draw the scores of each pump to which something happened."""
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
            verdicts = self._verdicts[name]
            hours = np.array([row.minute % 1440 / 60 for row in self._rows[name]])
            scores = [(one["score"] or 0.0) / (one["threshold"] or np.inf) for one in verdicts]
            flagged, known = (
                np.array([bool(one[key]) for one in verdicts]) for key in ("anomalous", "known")
            )
            for label, chosen, colour in (
                ("normal here", ~flagged, "#9a9a9a"),
                ("anomalous here, normal at another pump", flagged & known, "#0072B2"),
                ("anomalous here, normal nowhere", flagged & ~known, "#D55E00"),
            ):
                shown = np.array(scores)[chosen]
                panel.plot(hours[chosen], shown, ".", color=colour, markersize=3, label=label)
            alarms = {0: "no alarm", 1: "an alarm"}.get(self._alarms[name], "alarms")
            panel.set_title(f"{name} {what}: {alarms}", loc="left", fontweight="bold")
            panel.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
            panel.set(xlabel="hour of the day", ylabel="score, × threshold", yscale="log")
            panel.set_ylim(0.1, None)
            panel.yaxis.set_major_formatter("{x:g}")
        legend = figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3
        )
        # Its title is the figure's: one of the figure itself would lie behind it.
        legend.set_title("A day of simulated pumps, as their agents judged it", {"size": 14})
        figure.savefig(path, dpi=100)
        pyplot.close(figure)

    def _watched(self, name: str, before: int) -> Found:
        """What an agent made of its day."""
        member, rows = self._fleet.member(name), self._rows[name]
        verdicts = self._verdicts[name] = self._fleet.verdicts(name, before)
        onset = self._plant.onsets.get(name)
        alarms = [row.minute for row, one in zip(rows, verdicts, strict=True) if one["alarm"]]
        report, events = member.detector.drift.report, _events(member)
        self._alarms[name] = len(events)
        return {
            "onset": None if onset is None else self._fleet.time_of(onset),
            "delay": alarms[0] - onset if alarms and onset is not None else None,
            "flagged": _flagged(verdicts),
            "events": events,
            "question": None if report is None else str(report),
        }

    def _judged(self, rows: list[PumpRow]) -> list[Found]:
        """The verdicts of the mover's agent on its next rows."""
        before = len(self._fleet.verdicts(MOVES))
        self._fleet.give(MOVES, rows)
        self._fleet.catch_up(MOVES)
        return self._fleet.verdicts(MOVES, before)

    def _known(self, name: str, what: str, found: Found) -> None:
        self._say(f"{_clock(found['onset'])} {name} {what}.")
        if not found["events"]:
            self._more("There was no alarm.")
        for event in found["events"]:
            where = normal_at(event["known"]) or "normal nowhere"
            self._more(
                f"[bold red]Alarm[/]: {event['rows']} rows, {escape(where)}; {_causes(event)}."
            )

    def _question(self, found: Found) -> None:
        if found["question"]:
            self._more(f"It asks: {escape(found['question'])}")

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
    found = [one for one in (*events.closed, events.open) if one is not None]
    return [{**one.fields, "text": str(one)} for one in found]


def _causes(event: Mapping[str, Any]) -> str:
    """The first two causes of an event: what was seen and what was expected."""
    return ", ".join(
        f"{one['feature']} {one['seen']:.3g} {SENSORS[one['feature']]} (not {one['expected']:.3g})"
        for one in event["causes"][:2]
    )


def _clock(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%H:%M")


def _flagged(verdicts: Sequence[Found]) -> int:
    return sum(one["anomalous"] for one in verdicts)


def _few(verdicts: Sequence[Found]) -> bool:
    """Whether hardly any row is anomalous, where none should be."""
    return _flagged(verdicts) <= 0.1 * len(verdicts)


def _names(events: Sequence[Found], sensors: set[str], among: int) -> bool:
    """Whether there is one event, with one of these sensors among its first causes."""
    if len(events) != 1:
        return False
    return bool(sensors & {cause["feature"] for cause in events[0]["causes"][:among]})


def _known_at(found: Found, name: str) -> bool:
    """Whether there was an event, and each names this pump as knowing most of its rows."""
    return bool(found["events"]) and all(name in str(one["known"]) for one in found["events"])
