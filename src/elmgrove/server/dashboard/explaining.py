"""Who explains whom: how strange each device's rows are to the others' models, without a row."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from elmgrove.errors import SingularSystem
from elmgrove.federation import Contribution, Judgement, judge
from elmgrove.server.auth import Caller
from elmgrove.server.damage import Reader

#: Devices that are compared, those that contributed last; and the bytes of what they contributed.
MOST_COMPARED, MOST_BYTES_COMPARED = 40, 64 * 2**20
#: Seconds for which a comparison is shown again, whatever was contributed meanwhile.
SECONDS_SHOWN_AGAIN = 10.0
# Comparisons that are remembered.
_RECENT = 16
# From how many times worse than its own rows on a cell has the next colour.
_STEPS = (1.5, 3.0, 10.0, 30.0, 100.0)
# The colour from which on rows are foreign to a model.
_FOREIGN = 3


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
    """The devices that were compared, of how many there are, and a line for the model of each.

    ``left_out`` are those with too few rows for a model, ``made`` is when it was found out.
    """

    names: tuple[str, ...]
    lines: tuple[tuple[ExplainedCell, ...], ...]
    all_devices: int
    left_out: tuple[str, ...] = ()
    made: float = 0.0

    @property
    def foreign(self) -> list[str]:
        """The devices that explain none of the others' rows nearly as well as their own.

        Also those whose rows nobody else explains: a wide normal explains all others'.
        """
        return [name for place, name in enumerate(self.names) if self._is_foreign(place)]

    def _is_foreign(self, place: int) -> bool:
        others = [n for n in range(len(self.names)) if n != place]
        explains = any(self.lines[place][n].shade < _FOREIGN for n in others)
        is_explained = any(self.lines[n][place].shade < _FOREIGN for n in others)
        return bool(others) and not (explains and is_explained)


class Comparisons:
    """Compares the devices of federations; what was found stays true until somebody contributes.

    A comparison is made in a thread, and one at a time of each federation: it can take a second of
    a core. Where many devices are at work each moment brings something new: for some seconds what
    was found is shown again all the same.
    """

    def __init__(self) -> None:
        # With the revision of which it was found.
        self._known: OrderedDict[tuple[str, float], tuple[int, Explained]] = OrderedDict()
        self._locks = WeakValueDictionary[tuple[str, float], asyncio.Lock]()

    async def of(self, caller: Caller) -> Explained:
        """Compares the devices of a caller's federation that contributed last."""
        key = (caller.federation.name, caller.federation.created)
        async with self._locks.setdefault(key, asyncio.Lock()):
            revision = await caller.service.store.revision(caller.federation.name)
            known = self._known.get(key)
            if known is None or (
                known[0] != revision and time.time() - known[1].made > SECONDS_SHOWN_AGAIN
            ):
                known = self._known[key] = revision, await _compared(caller)
                while len(self._known) > _RECENT:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return known[1]


async def _compared(caller: Caller) -> Explained:
    made, (held, all_devices) = time.time(), await _newest(caller)
    judgement = await asyncio.to_thread(judged, held, caller.charter.ridge)
    left_out = tuple(one.origin for one in held if one.origin not in judgement.names)
    return replace(explained(judgement, all_devices), left_out=left_out, made=made)


def judged(held: Sequence[Contribution], ridge: float) -> Judgement:
    """Judges all models on all evidences, but for those of which there is no model."""
    try:
        return judge(held, ridge)
    except SingularSystem:
        return judge([one for one in held if _has_model(one, ridge)], ridge)


def _has_model(one: Contribution, ridge: float) -> bool:
    try:
        judge([one], ridge)
    except SingularSystem:
        return False
    return True


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
