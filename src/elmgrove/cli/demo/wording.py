"""The demo's words: what each chapter of the story says, from what really happened."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as Grid

from elmgrove.cli.demo.plant import BREAKS, DUTIES, LATE, LEAVES, MOVES, WARMS
from elmgrove.cli.demo.pumps import SENSORS
from elmgrove.detector import normal_at

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
            f"(counting has shown that few normal rows are strange). Alarms: {found['events']}."
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
