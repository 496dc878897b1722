"""Refusals as RFC 9457 problem documents: what was wrong, named so that a program can tell."""

import math

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
)

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
    """Answers a request for the path ``instance`` with the problem's document."""
    status, title = KINDS[problem.kind]
    document = problem.document(status, title, instance)
    return JSONResponse(document, status, problem.headers, media_type="application/problem+json")


def too_many(detail: str, seconds: float) -> Problem:
    """Makes the refusal of a request that comes too soon; it may come again in so many seconds."""
    later = max(1, math.ceil(seconds))
    problem = Problem("too-many", f"{detail}; try again in {later} s")
    problem.headers = {"Retry-After": str(later)}
    return problem


def no_federation() -> Problem:
    """Makes the refusal for administrators, who may know which federations there are."""
    return Problem("not-found", "there is no federation of this name")


def problem_of(request: Request, error: Exception) -> Problem:
    """Turns an error of the library into a problem; one that is unknown is the server's fault."""
    match error:
        case Problem():
            return error
        case NotFound():
            # It was deleted after the caller was let in: the answer is what it is from now on.
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
