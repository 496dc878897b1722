"""Refusals: as RFC 9457 problem documents, in the audit log, and counted."""

import logging
import math
import time
from collections import Counter

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from elmgrove.errors import (
    BadFile,
    BadInput,
    Mismatch,
    NotAdmissible,
    NotFound,
    Outdated,
    Problem,
    Refused,
    StoreUnavailable,
    plain,
)

log = logging.getLogger("elmgrove.server")

#: Each kind of problem: its status and its title. The key ends the document's ``type``.
KINDS = {
    "malformed": (400, "The request can't be read"),
    "unauthorized": (401, "A valid token or key is needed"),
    "forbidden": (403, "This token or key may not do that"),
    "not-found": (404, "Not found"),
    "method-not-allowed": (405, "Method not allowed"),
    "slow": (408, "The request took too long to arrive"),
    "taken": (409, "The name is taken"),
    "outdated": (409, "The server holds a newer version"),
    "too-large": (413, "The request is too large"),
    "mismatch": (422, "Learned in another way than this federation's"),
    "not-admissible": (422, "No rows can have produced this evidence"),
    "refused": (422, "Not accepted"),
    "too-many": (429, "Too many requests"),
    "internal": (500, "The server failed; nothing was changed"),
    "unavailable": (503, "The server can't use its data base"),
}
#: What a problem document holds, for the description of the interface.
SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "enum": [f"urn:elmgrove:problem:{kind}" for kind in KINDS]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "held_epoch": {"type": "integer", "description": "with 'outdated': the epoch to get past"},
        "shrunk": {"type": "boolean", "description": "with 'outdated': leave before you publish"},
    },
}


def problem_response(problem: Problem, instance: str) -> JSONResponse:
    status, title = KINDS[problem.kind]
    document = problem.document(status, title, instance)
    return JSONResponse(document, status, problem.headers, media_type="application/problem+json")


def too_many(detail: str, seconds: float) -> Problem:
    """Return the refusal of a request that comes too soon; it may be repeated in ``seconds``."""
    later = max(1, math.ceil(seconds))
    problem = Problem("too-many", f"{detail}; try again in {later} s")
    problem.headers = {"Retry-After": str(later)}
    return problem


def no_federation() -> Problem:
    """Make the refusal for administrators, who may know which federations there are."""
    return Problem("not-found", "there is no federation of this name")


def problem_of(request: Request, error: Exception) -> Problem:
    """Turn an error of the library into a problem; one that is unknown is the server's fault."""
    match error:
        case Problem():
            return error
        case NotFound():
            # It was deleted after the caller was found: the answer is what it is from now on.
            refusal: Problem = request.state.no_federation
            return refusal
        case Outdated():
            return Problem("outdated", str(error), held_epoch=error.held_epoch, shrunk=error.shrunk)
        case Mismatch():
            return Problem("mismatch", str(error))
        case NotAdmissible():
            return Problem("not-admissible", str(error))
        case Refused():
            return Problem("refused", str(error))
        case BadFile() | BadInput():
            return Problem("malformed", str(error))
        case StoreUnavailable():
            why = f"{error.reason}: " if error.reason else ""
            return Problem("unavailable", f"{why}try again later")
        case HTTPException():
            kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "malformed")
            problem = Problem(kind, error.detail)
            problem.headers |= dict(error.headers or {})
            return problem
    return Problem("internal", "it was logged; please tell the administrator")


class ThrottledLog:
    """Logs what may happen often: once a minute, with how often it happened since."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._counts = Counter[str]()
        self._logged: dict[str, float] = {}

    def warn(self, what: str, detail: object = "", level: int = logging.WARNING) -> None:
        self._counts[what] += 1
        now = time.monotonic()
        if now - self._logged.get(what, -self._seconds) >= self._seconds:
            self._logged[what] = now
            more = f" ({detail})" if str(detail) else ""
            count = self._counts.pop(what)
            line = "%s%s: %d since the last such line"
            log.log(level, line, what, more, count, extra={"count": count})


throttled_log = ThrottledLog()


class Refusals:
    """Records the refusals of callers that are known, and logs how many there were of strangers.

    Strangers must not be able to fill the disk, nor may a device that is refused again and again.
    """

    #: Seconds for which the same refusal of the same caller is recorded once.
    PERIOD = 3600.0
    #: Different refusals of a caller that are recorded in that time.
    MOST = 20

    def __init__(self) -> None:
        # By caller: since when, which reasons were recorded, and how many more there were.
        self._recorded: dict[tuple[str, str], tuple[float, set[str], int]] = {}

    async def noted(self, request: Request, error: Exception) -> Problem:
        path = request.scope["path"]
        problem = problem_of(request, error)
        request.state.refused = problem.kind
        if problem.kind == "internal":
            asked = {"method": request.method, "path": path}
            log.error("%s %s failed", *asked.values(), exc_info=error, extra=asked)
        elif problem.kind == "unauthorized":
            throttled_log.warn("Refused requests without a valid token or key")
        # What says something about the caller.
        elif KINDS[problem.kind][0] in (400, 403, 408, 409, 413, 422) and hasattr(
            request.state, "known"
        ):
            await self._record(request, problem)
        return problem

    async def _record(self, request: Request, problem: Problem) -> None:
        federation, actor = request.state.known
        reason = str(problem)[:500]
        caller, now = (federation, actor), time.monotonic()
        unrecorded = self.unrecorded(caller, f"{problem.kind}: {reason}", now)
        if unrecorded is None:
            return
        detail = {
            "kind": problem.kind,
            "reason": reason,
            "request": plain(f"{request.method} {request.scope['path']}"[:500]),
            "unrecorded": unrecorded,
        }
        try:
            store = request.app.state.service.store
            await store.audit.add(federation, actor, "refused", detail)
        except StoreUnavailable as error:
            log.warning("a refusal could not be recorded: %s: %s", error, detail)

    def unrecorded(self, caller: tuple[str, str], reason: str, now: float) -> int | None:
        """Return how many refusals of a caller were not recorded before this one.

        None if this one is not recorded either.
        """
        since, reasons, before = self._recorded.get(caller, (-self.PERIOD, set[str](), 0))
        if now - since >= self.PERIOD:
            since, reasons = now, set()
            # Those whose time is over are dropped where there are many.
            if len(self._recorded) > 10_000:
                kept = self._recorded.items()
                self._recorded = {who: one for who, one in kept if now - one[0] < self.PERIOD}
        if reason in reasons or len(reasons) >= self.MOST:
            self._recorded[caller] = since, reasons, before + 1
            return None
        self._recorded[caller] = since, reasons | {reason}, 0
        return before
