"""The page of a federation: who explains whom, its groups, its settings, and how devices join."""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.errors import NotFound, Problem, SingularSystem, StoreUnavailable
from elmgrove.federation.charter import is_admitted
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.selection import Judgement, judge
from elmgrove.server.auth import Caller
from elmgrove.server.dashboard.rendering import exchange_of, page
from elmgrove.server.dashboard.session import Form, User
from elmgrove.server.federations import renewed_token
from elmgrove.server.live_sums import Reader
from elmgrove.server.store.federations import FederationRow


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

    def _is_foreign(self, place: int, foreign: int = 3) -> bool:
        others = [n for n in range(len(self.names)) if n != place]
        explains = any(self.lines[place][n].shade < foreign for n in others)
        is_explained = any(self.lines[n][place].shade < foreign for n in others)
        return bool(others) and not (explains and is_explained)


class Comparisons:
    """Compares the devices of federations; what was found stays true until somebody contributes.

    A comparison is made in a thread, and one at a time of each federation: it can take a second of
    a core. Where many devices are at work each moment brings something new: for some seconds what
    was found is shown again all the same.
    """

    #: Devices that are compared, those that contributed last; and seconds for which that is shown.
    MOST, SECONDS = 40, 10.0

    def __init__(self) -> None:
        # With the revision of which it was found.
        self._known: OrderedDict[tuple[str, float], tuple[int, Explained]] = OrderedDict()
        self._locks = WeakValueDictionary[tuple[str, float], asyncio.Lock]()

    async def of(self, caller: Caller) -> Explained:
        """Compare the devices of a caller's federation that contributed last."""
        key = (caller.federation.name, caller.federation.created)
        async with self._locks.setdefault(key, asyncio.Lock()):
            revision = await caller.service.store.contributions.revision(caller.federation.name)
            known = self._known.get(key)
            if known is None or (
                known[0] != revision and time.time() - known[1].made > self.SECONDS
            ):
                known = self._known[key] = revision, await _compared(caller)
                while len(self._known) > 16:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return known[1]


async def _compared(caller: Caller) -> Explained:
    made, (held, all_devices) = time.time(), await _newest(caller)
    judgement = await asyncio.to_thread(judged, held, caller.charter.ridge)
    left_out = tuple(one.origin for one in held if one.origin not in judgement.names)
    return replace(explained(judgement, all_devices), left_out=left_out, made=made)


def judged(held: Sequence[Contribution], ridge: float) -> Judgement:
    """Judge all models on all evidences, but for those of which there is no model."""
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
    """Set each model's error on others' rows beside its error on its own."""
    lines = []
    for place, line in enumerate(judgement.error):
        own = line[place]
        lines.append(tuple(_cell(float(error), float(own)) for error in line))
    return Explained(judgement.names, tuple(lines), all_devices)


def _cell(error: float, own: float) -> ExplainedCell:
    if not own > 0.0:
        return ExplainedCell(math.nan, 0)
    times = error / own
    return ExplainedCell(times, sum(times >= step for step in (1.5, 3.0, 10.0, 30.0, 100.0)))


async def _newest(caller: Caller) -> tuple[list[Contribution], int]:
    """What was contributed last, by name, and how many devices have contributed."""
    service, federation = caller.service, caller.federation
    reader = Reader(federation, caller.charter, service.corrupt)
    entries = [
        one for one in await service.store.contributions.entries(federation.name) if not one.left
    ]
    newest, size = list[str](), 0
    for entry in sorted(entries, key=lambda one: -one.revision)[: Comparisons.MOST]:
        size += entry.size
        if newest and size > 64 * 2**20:
            break
        newest.append(entry.origin)
    held = list[Contribution]()
    for name in sorted(newest):
        found = await service.store.contributions.blob(federation.name, name)
        if found is not None:
            entry, blob = found
            made = await asyncio.to_thread(reader.contribution, name, entry.revision, blob)
            held += [] if made is None else [made]
    return held, len(entries)


def invitation(request: Request, federation: FederationRow) -> dict[str, Any]:
    """Say what a command needs to join a federation of the server that was asked."""
    exchange, members = exchange_of(request, federation.name), federation.members
    return {
        "exchange": exchange,
        "name": example(members),
        "members": ", ".join(members or ()),
        # With a certificate, which may be nobody's but the user's.
        "is_tls": exchange.startswith("https:"),
    }


def example(members: tuple[str, ...] | None) -> str:
    """Return a name that may join, with the part to be filled in.

    >>> example(("fan-*", "pump")), example(None), example(("fan [12]",))
    ('fan-NAME', 'NAME', 'NAME')
    """
    made = "NAME" if not members else members[0].replace("*", "NAME")
    # What a shell or a folder would take for something else is no example.
    is_plain = made.replace("-", "").replace("_", "").isalnum()
    return made if is_plain and is_admitted(members, made) else "NAME"


log = logging.getLogger("elmgrove.server")
T = TypeVar("T")


@dataclass(frozen=True)
class GroupCircle:
    """A group: where its circle is, the dots in it, and who they are."""

    number: int
    names: tuple[str, ...]
    x: float
    y: float
    radius: float
    dots: tuple[tuple[float, float], ...]

    @property
    def said(self) -> str:
        shown, more = ", ".join(self.names[:12]), len(self.names) - 12
        return f"{shown} and {more:,} more" if more > 0 else shown


@dataclass(frozen=True)
class GroupPicture:
    """The circles of the largest groups, of how many there are, in as many lines as they need."""

    circles: tuple[GroupCircle, ...]
    height: float
    all_groups: int
    #: In the units of the picture.
    width: float = 960.0

    @classmethod
    def of(cls, groups: Mapping[int, Sequence[str]]) -> "GroupPicture":
        """Place a circle for each group that somebody is in, the largest first."""
        x = y = tall = 0.0
        gap = 28.0
        circles = list[GroupCircle]()
        order = sorted((one for one in groups if groups[one]), key=lambda n: (-len(groups[n]), n))
        for number in order[:100]:
            count = min(len(groups[number]), 200)
            radius = 10.0 + 13.5 * math.sqrt(count)  # dots have a radius of 5
            wide = max(2.0 * radius, 76.0)  # for its name
            if circles and x + wide > cls.width:
                x, y, tall = 0.0, y + tall + gap, 0.0
            centre = (x + wide / 2.0, y + radius)
            dots = tuple(_placed(n, *centre) for n in range(count))
            circles.append(GroupCircle(number, tuple(groups[number]), *centre, radius, dots))
            x, tall = x + wide + gap, max(tall, 2.0 * radius + 18.0)
        return cls(tuple(circles), y + tall, len(order))


def _placed(number: int, x: float, y: float) -> tuple[float, float]:
    # Turned by the golden angle each, dots fill a circle evenly.
    far, angle = 12.5 * math.sqrt(number), number * math.pi * (3.0 - math.sqrt(5.0))
    return (round(x + far * math.cos(angle), 1), round(y + far * math.sin(angle), 1))


async def show(request: Request, user: User) -> Response:
    """Show what a federation is like: its devices beside each other, and what they agreed on."""
    caller = await user.caller(request)
    groups, no_groups = await _tried(_groups(caller))
    compared, no_comparison = await _tried(request.app.state.comparisons.of(caller))
    return page(
        request,
        user,
        "federation.html",
        federation=caller.federation.name,
        compared=compared,
        unlike=caller.service.live_others.unlike(caller.federation),
        no_comparison=no_comparison,
        picture=groups,
        no_groups=no_groups,
        settings=_settings(caller),
    )


async def take(request: Request, user: User, form: Form) -> Response:
    """Make a new token with which devices join, and shows it this once; the old one ends."""
    caller = await user.caller(request)
    if form.get("do") != "token":
        raise Problem("malformed", "do: this page makes a token, and nothing else")
    name, how = caller.federation.name, invitation(request, caller.federation)
    # Nothing else is on this page: what could fail would take the token with it.
    token = await renewed_token(request, caller)
    return page(request, user, "token.html", federation=name, token=token, invitation=how)


async def _tried(found: Awaitable[T]) -> tuple[T | None, str]:
    """What was found, or a sentence that says why not: the rest of the page does not need it."""
    try:
        return await found, ""
    except Problem as problem:
        return None, str(problem)
    except (NotFound, StoreUnavailable):
        raise
    except Exception:  # one device's sums, whatever is wrong with them, must not hide all others
        log.exception("a part of a federation's page could not be made")
        return None, "This could not be computed; the server's log says why."


async def _groups(caller: Caller) -> GroupPicture | None:
    """The groups as they stand; None while they are made."""
    others = caller.service.live_others.of(caller.federation, caller.charter)
    # Where they take longer than a moment, the page shows them later.
    grouped = await others.grouped(0.2)
    return None if grouped is None else GroupPicture.of(grouped)


def _settings(caller: Caller) -> list[tuple[str, str, Any]]:
    """What devices have in common: what it is called, what it means, and its value."""
    charter = caller.charter
    basis, terms = charter.basis, charter.terms
    members = "any with the token" if charter.members is None else ", ".join(charter.members)
    columns = ", ".join(basis.names[:50]) + (" …" if len(basis.names) > 50 else "")
    lasts = "for ever" if terms.key_days is None else f"{terms.key_days:g} days"
    return [
        ("Columns", f"what a row has, {len(basis.names):,}", columns),
        ("Window", "rows side by side that are one input", basis.window),
        ("Hidden units", f"of a layer with {basis.inputs:,} inputs", basis.layer.units),
        ("Score", "how anomalous a row is", basis.score),
        ("Scaling", "how columns are made alike", basis.scaling.kind),
        (
            "Model",
            "what decides on a device",
            "one of all devices" if charter.merged else "its own",
        ),
        ("Least", "other devices in a sum before it is given out", terms.least),
        ("Keys last", "until a device needs another", lasts),
        ("Members", "which names may join", members),
    ]
