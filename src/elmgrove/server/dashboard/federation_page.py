"""The page of a federation: who explains whom, its groups, its settings, and how devices join."""

import logging
import math
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.server.auth import Caller
from elmgrove.server.dashboard.forms import Form
from elmgrove.server.dashboard.invitation import Invitation
from elmgrove.server.dashboard.shell import page
from elmgrove.server.dashboard.visitors import Visitor
from elmgrove.server.problems import Problem
from elmgrove.server.registry import renewed_token
from elmgrove.server.store import NoSuchFederation, StoreUnavailable

log = logging.getLogger("elmgrove.server")
T = TypeVar("T")

#: How wide the picture is, in its own units.
WIDTH = 960.0
#: Circles, dots of a circle, and names beside it, at most.
MOST_CIRCLES, MOST_DOTS, MOST_NAMES = 100, 200, 12
_DOT, _GAP = 5.0, 28.0
# What a circle's name needs, however small the circle is.
_NARROWEST = 76.0
# The angle by which each dot is further than the one before it fills a circle evenly.
_GOLDEN = math.pi * (3.0 - math.sqrt(5.0))
#: Seconds that the page waits for the groups; where they take longer, it shows them later.
PATIENCE = 0.2


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
        """Who is in it, in words."""
        shown = ", ".join(self.names[:MOST_NAMES])
        more = len(self.names) - MOST_NAMES
        return f"{shown} and {more:,} more" if more > 0 else shown


@dataclass(frozen=True)
class GroupPicture:
    """The circles of the largest groups, of how many there are, in as many lines as they need."""

    circles: tuple[GroupCircle, ...]
    height: float
    all_groups: int

    @classmethod
    def of(cls, groups: Mapping[int, Sequence[str]]) -> "GroupPicture":
        """Places a circle for each group that somebody is in, the largest first."""
        x = y = tall = 0.0
        circles = list[GroupCircle]()
        order = sorted((one for one in groups if groups[one]), key=lambda n: (-len(groups[n]), n))
        for number in order[:MOST_CIRCLES]:
            count = min(len(groups[number]), MOST_DOTS)
            radius = 2.0 * _DOT + 1.35 * _DOT * 2.0 * math.sqrt(count)
            wide = max(2.0 * radius, _NARROWEST)
            if circles and x + wide > WIDTH:
                x, y, tall = 0.0, y + tall + _GAP, 0.0
            centre = (x + wide / 2.0, y + radius)
            dots = tuple(_placed(n, *centre) for n in range(count))
            circles.append(GroupCircle(number, tuple(groups[number]), *centre, radius, dots))
            x, tall = x + wide + _GAP, max(tall, 2.0 * radius + 18.0)
        return cls(tuple(circles), y + tall, len(order))


def _placed(number: int, x: float, y: float) -> tuple[float, float]:
    far = 1.25 * _DOT * 2.0 * math.sqrt(number)
    return (
        round(x + far * math.cos(number * _GOLDEN), 1),
        round(y + far * math.sin(number * _GOLDEN), 1),
    )


async def show(request: Request, visitor: Visitor) -> Response:
    """Shows what a federation is like: its devices beside each other, and what they agreed on."""
    caller = await visitor.caller(request)
    groups, no_groups = await _tried(_groups(caller))
    compared, no_comparison = await _tried(request.app.state.comparisons.of(caller))
    return page(
        request,
        visitor,
        "federation.html",
        federation=caller.federation.name,
        compared=compared,
        unlike=caller.service.live_others.unlike(caller.federation),
        no_comparison=no_comparison,
        picture=groups,
        no_groups=no_groups,
        width=WIDTH,
        settings=_settings(caller),
    )


async def take(request: Request, visitor: Visitor, form: Form) -> Response:
    """Makes a new token with which devices join, and shows it this once; the old one ends."""
    caller = await visitor.caller(request)
    if form.get("do") != "token":
        raise Problem("malformed", "do: this page makes a token, and nothing else")
    name, invitation = caller.federation.name, Invitation.of(request, caller.federation)
    # Nothing else is on this page: what could fail would take the token with it.
    token = await renewed_token(request, caller)
    return page(request, visitor, "token.html", federation=name, token=token, invitation=invitation)


async def _tried(found: Awaitable[T]) -> tuple[T | None, str]:
    """What was found, or a sentence that says why not: the rest of the page does not need it."""
    try:
        return await found, ""
    except Problem as problem:
        return None, str(problem)
    except (NoSuchFederation, StoreUnavailable):
        raise
    except Exception:  # one device's sums, whatever is wrong with them, must not hide all others
        log.exception("a part of a federation's page could not be made")
        return None, "This could not be computed; the server's log says why."


async def _groups(caller: Caller) -> GroupPicture | None:
    """The groups as they stand; None while they are made."""
    others = caller.service.live_others.of(caller.federation, caller.charter)
    grouped = await others.grouped(PATIENCE)
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
        ("Score", "how strange a row is", basis.score),
        ("Scaling", "how columns are made alike", basis.scaling.kind),
        (
            "Model",
            "what decides on a device",
            "one of all devices" if charter.merged else "its own",
        ),
        ("Shows", "what devices see of each other", terms.shows),
        ("Least", "other devices behind a sum before it is told", terms.least),
        ("Keys last", "until a device needs another", lasts),
        ("Members", "which names may join", members),
    ]
