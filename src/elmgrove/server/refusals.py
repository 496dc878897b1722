"""Refusals are answered; those of callers that are known are recorded, those of strangers counted.

Strangers must not be able to fill the disk, nor may a device that is refused again and again.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, field

from starlette.requests import Request

from elmgrove.errors import Problem, StoreUnavailable
from elmgrove.exchange.responses import plain
from elmgrove.server.problems import KINDS, problem_of
from elmgrove.server.service import service_of

log = logging.getLogger("elmgrove.server")

#: For so many seconds the same refusal of the same caller is recorded once...
WHILE = 3600.0
#: ...and so many different ones at most.
MOST = 20
#: Seconds between two lines of the log about strangers.
MINUTE = 60.0
#: Callers that are remembered before those are looked through whose time is over.
MANY = 10_000
# What tells something about the caller; that a thing is not there, or the server busy, does not.
_RECORDED = (400, 403, 408, 409, 413, 422)


@dataclass
class _Told:
    """What was recorded of one caller since some moment, and how much was not."""

    since: float
    reasons: set[str] = field(default_factory=set)
    unrecorded: int = 0


class Refusals:
    """Takes note of requests that failed, all of the whole application."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], _Told] = {}
        self._strangers = 0

    async def noted(self, request: Request, error: Exception) -> Problem:
        """Gives the problem to answer with, after what is to be recorded is."""
        path = request.scope["path"]
        problem = problem_of(request, error)
        request.state.refused = problem.kind
        if problem.kind == "internal":
            asked = {"method": request.method, "path": path}
            log.error("%s %s failed", *asked.values(), exc_info=error, extra=asked)
        elif problem.kind == "unauthorized":
            self._count_stranger()
        elif KINDS[problem.kind][0] in _RECORDED and hasattr(request.state, "known"):
            await self._record(request, problem)
        return problem

    async def _record(self, request: Request, problem: Problem) -> None:
        chain, actor = request.state.known
        reason = str(problem)[:500]
        unrecorded = self.due((chain, actor), f"{problem.kind}: {reason}", time.monotonic())
        if unrecorded is None:
            return
        detail = {
            "kind": problem.kind,
            "reason": reason,
            "request": plain(f"{request.method} {request.scope['path']}"[:500]),
            "unrecorded": unrecorded,
        }
        try:
            await service_of(request).store.note(chain, actor, "refused", detail)
        except StoreUnavailable as error:
            log.warning("a refusal could not be recorded: %s: %s", error, detail)

    def due(self, caller: tuple[str, str], reason: str, now: float) -> int | None:
        """Says how many refusals of a caller went unrecorded before this one; None if it does."""
        told = self._told.get(caller)
        if told is None or now - told.since >= WHILE:
            told = _Told(now, unrecorded=0 if told is None else told.unrecorded)
            self._told[caller] = told
            self._forget_old(now)
        if reason in told.reasons or len(told.reasons) >= MOST:
            told.unrecorded += 1
            return None
        told.reasons.add(reason)
        before, told.unrecorded = told.unrecorded, 0
        return before

    def _forget_old(self, now: float) -> None:
        if len(self._told) > MANY:
            self._told = {
                caller: told for caller, told in self._told.items() if now - told.since < WHILE
            }

    def _count_stranger(self) -> None:
        if not self._strangers:
            asyncio.get_running_loop().call_later(MINUTE, self._tell_strangers)
        self._strangers += 1

    def _tell_strangers(self) -> None:
        log.warning(
            "requests without a valid token or key that were refused in the last minute: %d",
            self._strangers,
            extra={"strangers": self._strangers},
        )
        self._strangers = 0
