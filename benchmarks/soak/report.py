"""What a soak tells at its end: a table, and the ends of logs where something went wrong."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.exchange.output import Output

if TYPE_CHECKING:
    from benchmarks.soak.soak import Soak

_LEGEND = """
Each agent is a process that follows a file, saves and syncs; the server is one as well, on SQLite.
They are killed (SIGKILL) in the midst of whatever they do. Acknowledged is an entry that the server
has answered for; it is lost if the store holds neither it nor a newer one of that device. A sum is
wrong if it is not that of the contributions in the store, added up one by one."""
# Letters of a log that are shown.
_TAIL = 1500

_PAGE_MB = 4096 / 1e6


class Memory(NamedTuple):
    """Memory in use by processes, in MB: the one in the middle, and the largest."""

    median: float
    largest: float

    @classmethod
    def of(cls, processes: Sequence[int | None]) -> "Memory":
        """Measures processes; those that ended meanwhile are left out."""
        sizes = [size for pid in processes if pid and (size := _resident(pid))] or [0.0]
        return cls(statistics.median(sizes), max(sizes))


def _resident(pid: int) -> float:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0.0
    return int(pages) * _PAGE_MB


def syncs_in(logs: Sequence[Path]) -> int:
    """Counts the syncs that agents logged."""
    return sum(log.read_text(errors="replace").count(" sync: ") for log in logs if log.exists())


def report(soak: "Soak") -> bool:
    """Prints what was found; says whether all is as it should be."""
    output, fleet, server = Output("soak"), soak.fleet, soak.server
    output.say(_LEGEND)
    numbers: dict[str, int] = {
        "agents at a time": fleet.size,
        "joined": fleet.joined,
        "left": fleet.left,
        "agents killed": fleet.kills,
        "server killed": server.kills,
        "times that the agents' disk was full": soak.small.fills,
        "times that the server's disk was full": soak.store.fills,
        "syncs": syncs_in([device.log for device in fleet.devices]),
        "acknowledged": soak.heard.count,
        "sums compared": soak.sums,
    }
    faults = {
        "acknowledged and lost": sorted(soak.lost),
        "wrong sums": soak.wrong,
        "left and not gone": soak.not_gone,
        "agents that ended by themselves": [one.name for one in fleet.ended],
        "agents that ended badly": [one.name for one in soak.bad_ends],
        "ends of the server by itself": ["server"] * server.ended,
    }
    counted = numbers | {name: len(found) for name, found in faults.items()}
    output.table("Soak", ("", "number"), list(counted.items()))
    before, after = soak.began, soak.ended
    memory = [("server", before[0], after[0]), ("agents", before[1], after[1])]
    lines = [(who, one.median, one.largest, two.median, two.largest) for who, one, two in memory]
    columns = ("MB", "at the start", "largest", "at the end", "largest")
    output.table("Memory in use", columns, lines)
    for name, found in faults.items():
        if found:
            output.say(f"{name}: {', '.join(found[:10])}")
    for device in [*fleet.ended, *soak.bad_ends][:3]:
        output.say(f"{device.log}:\n{device.log.read_text(errors='replace')[-_TAIL:]}")
    output.write({**counted, "MB": [[who, *one, *two] for who, one, two in memory]})
    return not any(faults.values())
