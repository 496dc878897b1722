"""Who explains whom: how strange each device's rows are to the others' models, without a row."""

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass

from elmgrove.federation import Contribution, Judgement, judge
from elmgrove.server.auth import Caller
from elmgrove.server.damage import Reader

#: Devices that are compared, those that contributed last; and the bytes of what they contributed.
MOST_COMPARED, MOST_BYTES_COMPARED = 40, 64 * 2**20
#: Comparisons that are remembered.
_RECENT = 16
# From how many times worse than its own rows on a cell has the next colour.
_STEPS = (1.5, 3.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True)
class ExplainedCell:
    """How many times worse a model explains somebody's rows than its own; ``shade`` is 0 to 5."""

    times: float
    shade: int

    @property
    def text(self) -> str:
        """The number as a cell shows it: two figures, since no more can be told apart."""
        if not math.isfinite(self.times):
            return "∞" if self.times > 0 else "—"
        return f"{self.times:,.0f}" if self.times >= 10 else f"{self.times:.1f}"


@dataclass(frozen=True)
class Explained:
    """The devices that were compared, of how many there are, and a line for the model of each."""

    names: tuple[str, ...]
    lines: tuple[tuple[ExplainedCell, ...], ...]
    all_devices: int

    @property
    def foreign(self) -> list[str]:
        """The devices that explain none of the others' rows nearly as well as their own."""
        return [
            name
            for place, name in enumerate(self.names)
            if len(self.names) > 1
            and all(cell.shade >= 3 for n, cell in enumerate(self.lines[place]) if n != place)
        ]


class Comparisons:
    """Compares the devices of federations; what was found stays true until somebody contributes.

    One comparison is made at a time, in a thread: it can take a second of a core.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, float, int], Explained] = OrderedDict()
        self._lock = asyncio.Lock()

    async def of(self, caller: Caller) -> Explained:
        """Compares the devices of a caller's federation that contributed last."""
        async with self._lock:
            federation, store = caller.federation, caller.service.store
            revision = await store.revision(federation.name)
            key = (federation.name, federation.created, revision)
            if key not in self._known:
                held, all_devices = await _newest(caller)
                ridge = caller.charter.ridge
                judgement = await asyncio.to_thread(judge, held, ridge)
                self._known[key] = explained(judgement, all_devices)
                while len(self._known) > _RECENT:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return self._known[key]


def explained(judgement: Judgement, all_devices: int) -> Explained:
    """Sets each model's error on others' rows beside its error on its own."""
    lines = []
    for place, line in enumerate(judgement.error):
        own = line[place]
        lines.append(tuple(_cell(float(error), float(own)) for error in line))
    return Explained(judgement.names, tuple(lines), all_devices)


def _cell(error: float, own: float) -> ExplainedCell:
    if not own > 0.0:
        return ExplainedCell(math.nan, 0)
    times = error / own
    return ExplainedCell(times, sum(times >= step for step in _STEPS))


async def _newest(caller: Caller) -> tuple[list[Contribution], int]:
    """What was contributed last, by name, and how many devices have contributed."""
    service, federation = caller.service, caller.federation
    reader = Reader(federation, caller.charter, service.damage)
    entries = [one for one in await service.store.entries(federation.name) if not one.left]
    newest, size = list[str](), 0
    for entry in sorted(entries, key=lambda one: -one.revision)[:MOST_COMPARED]:
        size += entry.size
        if newest and size > MOST_BYTES_COMPARED:
            break
        newest.append(entry.origin)
    held = list[Contribution]()
    for name in sorted(newest):
        found = await service.store.blob(federation.name, name)
        if found is not None:
            entry, blob = found
            made = await asyncio.to_thread(reader.contribution, name, entry.revision, blob)
            held += [] if made is None else [made]
    return held, len(entries)
