"""Login, logout and forms: who may look at pages, by a token or by name and password."""

import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import SplitResult, parse_qsl, urlsplit

from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from elmgrove.errors import BadInput, Problem, Unauthorized
from elmgrove.federation.charter import require_name
from elmgrove.server.auth import (
    ROOT,
    Caller,
    Role,
    Service,
    administrator_at,
    administrator_of,
    body_of,
    require_unexpired,
    root_of,
    service_of,
)
from elmgrove.server.dashboard.rendering import rendered, root_of_pages
from elmgrove.server.limits import TokenBuckets, network_of
from elmgrove.server.problems import KINDS, throttled_log, too_many
from elmgrove.server.store.admins import AdministratorRow, administrator_with
from elmgrove.server.store.audit import SERVER_LOG, by_administrator
from elmgrove.server.store.database import Transaction

#: The fields of a form, each with its last value.
Form = Mapping[str, str]


async def form_of(request: Request) -> Form:
    """Read the form in a request's body; refuse one that another site made a browser send."""
    _require_own_page(request)
    urlencoded = "application/x-www-form-urlencoded"
    if request.headers.get("content-type", "").partition(";")[0].strip() != urlencoded:
        raise Problem("malformed", f"a form must be {urlencoded}")
    body = await body_of(request, 2**14)
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=64, errors="strict"
        )
    except ValueError as error:
        raise Problem("malformed", f"the form can't be read: {error}") from error
    if any("\0" in text for field in fields for text in field):
        raise Problem("malformed", "a field can't contain a NUL character")
    return dict(fields)


def require_csrf(form: Form, expected: str) -> None:
    """Refuse a form that does not hold what its page was given."""
    if not hmac.compare_digest(form.get("csrf", "").encode(), expected.encode()):
        raise Problem(
            "forbidden",
            "this form was not sent by a page of this session, or by one from before you logged in "
            "again: go back, load the page again and repeat it; nothing was changed",
        )


def _require_own_page(request: Request) -> None:
    """Refuse what a browser says that it sends for another site.

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
    """Split a URL that a caller wrote; one that is none has no parts.

    >>> parts_of("http://[").netloc
    ''
    """
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


@dataclass(frozen=True)
class User:
    """An administrator who looks at pages, in a session that is known by its ``csrf``.

    Each form of these pages must hold that. ``number`` counts the times at which all sessions of
    this administrator were ended.
    """

    service: Service
    administrator: AdministratorRow
    number: int
    csrf: str

    @property
    def name(self) -> str:
        return self.administrator.name

    @property
    def may_manage(self) -> bool:
        """Return whether the user may change something; others see no buttons."""
        return self.administrator.role == Role.MANAGE.value

    async def caller(self, request: Request) -> Caller:
        return await administrator_at(request, self.administrator)

    async def is_there(self) -> bool:
        return await _administrator(self.service, self.name, self.number) is not None


class Sessions:
    """Reads and writes sessions, which are signed cookies that no script can read.

    Through TLS the cookie is one that nothing but this host, through TLS, can have set. After
    twelve hours one has to log in again.
    """

    def __init__(self, app: ASGIApp, key: str) -> None:
        made = partial(SessionMiddleware, app, key, max_age=12 * 3600, same_site="strict")
        self._plain = made(session_cookie="elmgrove")
        self._secure = made(session_cookie="__Host-elmgrove", https_only=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chosen = self._secure if scope.get("scheme") == "https" else self._plain
        await chosen(scope, receive, send)


async def user_of(request: Request) -> User:
    """Find whose session a request belongs to; raise ``Unauthorized`` if it has ended."""
    service, session = service_of(request), request.session
    if not session:
        raise Unauthorized
    name, number = session["administrator"], session["number"]
    found = await _administrator(service, name, number)
    if found is None:
        raise Unauthorized
    request.state.known = (SERVER_LOG, by_administrator(name))
    return User(service, found, number, session["csrf"])


async def _administrator(service: Service, name: str, number: int) -> AdministratorRow | None:
    found = root_of(service) if name == ROOT else await service.store.admins.find(name)
    if found is None or found.invalid(time.time()) is not None:
        return None
    return found if await service.store.admins.session_number(name) == number else None


async def begin_session(request: Request, administrator: AdministratorRow) -> None:
    store = service_of(request).store.by(lambda tx: _require_same(tx, administrator))
    number = await store.admins.begin_session(administrator.name)
    request.session.clear()
    request.session.update(
        administrator=administrator.name, number=number, csrf=secrets.token_urlsafe(32)
    )


async def _require_same(tx: Transaction, administrator: AdministratorRow) -> None:
    """Refuse where token or password became another, or nobody's, while somebody logged in."""
    if administrator.name == ROOT:
        return
    found = await administrator_with(tx, administrator.token_hash)
    if found is None or found.password != administrator.password:
        raise Problem("forbidden", "what you logged in with was changed meanwhile: log in again")


class LoginLimiter:
    """Lets administrators in, and slows down those who guess."""

    def __init__(self) -> None:
        # Ten tries from an address, and one more each ten seconds.
        self._addresses = TokenBuckets(1 / 10.0, 10)
        # From anywhere: whoever is kept out by others' tries still has the token.
        self._names = TokenBuckets(1 / 30.0, 20)

    async def admit(self, request: Request, form: Form) -> AdministratorRow:
        """Return the administrator that a form's token or name and password belong to.

        Refuses all others, in the same words whether there is such a name or not.
        """
        address = network_of(request.client.host if request.client else "")
        name = form.get("name", "").strip()
        tries = [(self._addresses, address)]
        if name:
            tries.append((self._names, name[:64]))
        if wait := max(buckets.wait(who) for buckets, who in tries):
            raise too_many("there were too many failed logins", wait)
        for buckets, who in tries:
            buckets.take(who)
        found = await (self._by_password if name else self._by_token)(request, form)
        if found is None:
            throttled_log.warn("Refused logins", f"from {address}")
            if name:
                why = "Name and password do not fit, or this name has no password."
            else:
                why = "This is no administrator's token, or it is not one any more."
            raise Problem("forbidden", why)
        for buckets, who in tries:
            buckets.take(who, -1.0)
        return found

    async def _by_token(self, request: Request, form: Form) -> AdministratorRow | None:
        return await administrator_of(request, form.get("token", "").strip())

    async def _by_password(self, request: Request, form: Form) -> AdministratorRow | None:
        found, name = None, form["name"].strip()
        if _is_name(name):
            found = await service_of(request).store.admins.find(name)
        stored = None if found is None else found.password
        fits = await service_of(request).passwords.matches(form.get("password", ""), stored)
        if found is None:
            return None
        # So that the audit has it; what is answered is the same.
        request.state.known = (SERVER_LOG, by_administrator(found.name))
        if not fits:
            return None
        require_unexpired(found)
        return found


async def show(request: Request) -> Response:
    """Show where to log in, or what was asked for to those who have."""
    request.state.route = "/ui/login"
    asked = request.query_params.get("next", "")
    try:
        await user_of(request)
    except Unauthorized:
        said = "You have logged out, everywhere." if "out" in request.query_params else ""
        return _page(request, asked, said=said)
    return RedirectResponse(_inside(request, asked), 303)


async def take(request: Request) -> Response:
    """Begin a session, or say why not."""
    request.state.route = "/ui/login"
    form = await form_of(request)
    asked = form.get("next", "")
    try:
        administrator = await request.app.state.login_limiter.admit(request, form)
    except Problem as refusal:
        problem = await request.app.state.refusals.noted(request, refusal)
        return _page(request, asked, problem=problem, name=form.get("name", ""))
    await begin_session(request, administrator)
    return RedirectResponse(_inside(request, asked), 303)


async def leave(request: Request) -> Response:
    """End all sessions of the administrator: a copy of a signed cookie is worth nothing then."""
    request.state.route = "/ui/logout"
    user = await user_of(request)
    require_csrf(await form_of(request), user.csrf)
    await user.service.store.admins.end_sessions(user.name)
    request.session.clear()
    return RedirectResponse(f"{root_of_pages(request)}/login?out", 303)


def _page(
    request: Request, asked: str, *, problem: Problem | None = None, said: str = "", name: str = ""
) -> Response:
    answer = rendered(
        "login.html",
        root_of_pages(request),
        status=200 if problem is None else KINDS[problem.kind][0],
        next=_inside(request, asked),
        problem="" if problem is None else str(problem),
        said=said,
        name=name[:64],
    )
    answer.headers.update({} if problem is None else problem.headers)
    return answer


def _inside(request: Request, asked: str) -> str:
    """A page of the dashboard, whatever a link asks for: never another site's."""
    root = f"{root_of_pages(request)}/"
    inside = asked.startswith(root) and "//" not in asked and "\\" not in asked
    return asked if inside and asked.isprintable() else root


def _is_name(text: str) -> bool:
    try:
        require_name("an administrator's", text)
    except BadInput:
        return False
    return True
