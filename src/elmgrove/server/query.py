"""What a query asks for, read field by field; what can't be meant is refused by its name."""

from starlette.requests import Request

from elmgrove.errors import Problem
from elmgrove.reading.times import stated_time


def text_in(request: Request, name: str) -> str | None:
    """Gives a name in the query."""
    text = request.query_params.get(name)
    # PostgreSQL can't even look for such a name.
    if text is not None and "\0" in text:
        raise Problem("malformed", f"{name}: a name can't contain a NUL character")
    return text


def number_in(request: Request, name: str) -> float | None:
    """Gives a number from 0 on in the query."""
    text = request.query_params.get(name)
    if text is None:
        return None
    digits, _, fraction = text.partition(".")
    if not f"{digits}{fraction}".isascii() or not f"{digits}{fraction}".isdigit() or len(text) > 18:
        raise Problem("malformed", f"{name}: {text!r:.40} is not a number from 0 on")
    return float(text)


def time_in(request: Request, name: str) -> float | None:
    """Gives a time in the query, in ISO 8601 or in seconds since 1970."""
    text = request.query_params.get(name)
    return None if text is None else stated_time(name, text)
