"""Forms: what a browser sends, read within bounds, and whether a page of ours sent it."""

import hmac
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, urlsplit

from starlette.requests import Request

from elmgrove.server.problems import Problem
from elmgrove.server.service import body_of

#: The fields of a form, each with its last value.
Form = Mapping[str, str]

#: Bytes and fields of a form, at most.
LONGEST_FORM, MOST_FIELDS = 2**14, 64
#: The field that holds what only a page of this visit knows.
CSRF = "csrf"
_URLENCODED = "application/x-www-form-urlencoded"


async def form_of(request: Request) -> Form:
    """Reads the form in a request's body; refuses one that another site made a browser send."""
    _require_own_page(request)
    if request.headers.get("content-type", "").partition(";")[0].strip() != _URLENCODED:
        raise Problem("malformed", f"a form must be {_URLENCODED}")
    body = await body_of(request, LONGEST_FORM)
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise Problem("malformed", f"the form can't be read: {error}") from error
    if any("\0" in text for field in fields for text in field):
        raise Problem("malformed", "a field can't contain a NUL character")
    return dict(fields)


def require_csrf(form: Form, expected: str) -> None:
    """Refuses a form that does not hold what its page was given."""
    if not hmac.compare_digest(form.get(CSRF, "").encode(), expected.encode()):
        raise Problem(
            "forbidden",
            "this form was not sent by a page of this visit, or by one from before you logged in "
            "again: go back, load the page again and repeat it; nothing was changed",
        )


def _require_own_page(request: Request) -> None:
    """Refuses what a browser says that it sends for another site.

    Through TLS it says so by ``Sec-Fetch-Site``, which no page can change; else by the origin.
    What sends neither is no browser of today, and has no cookie unless somebody gave it one.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site == "same-origin"
    else:
        own = request.headers.get("host") or None
        is_own = origin is None or parts_of(origin).netloc == own
    if not is_own:
        raise Problem("forbidden", "another site made your browser send this; nothing was changed")


def parts_of(url: str) -> SplitResult:
    """Splits a URL that a caller wrote; one that is none has no parts.

    >>> parts_of("http://[").netloc
    ''
    """
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
