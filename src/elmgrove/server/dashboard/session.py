"""Login, logout and forms: who may look at pages, by a token or by name and password."""

import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from elmgrove.errors import BadInput, Problem, Unauthorized
from elmgrove.federation.charter import require_name
from elmgrove.server.auth import (
    ROOT,
    Caller,
    Role,
    administrator_at,
    administrator_of,
    require_unexpired,
    root_of,
)
from elmgrove.server.dashboard.rendering import rendered
from elmgrove.server.limits import Buckets, network_of, throttled_log
from elmgrove.server.problems import KINDS, too_many
from elmgrove.server.secrets import (
    ROOT_SESSION,
    SESSION,
    hashed,
    new_secret,
    prefix,
    session_cookie,
    session_of,
)
from elmgrove.server.service import Service, body_of, service_of
from elmgrove.server.store.admins import AdministratorRow, SessionRow, administrator_with
from elmgrove.server.store.audit import SERVER_LOG, by_administrator
from elmgrove.server.store.database import Transaction

#: The fields of a form, each with its last value.
Form = Mapping[str, str]

#: Bytes of a form, at most.
LONGEST_FORM = 2**14


async def form_of(request: Request) -> Form:
    """Read the form in a request's body; refuse one that another site made a browser send."""
    _require_own_page(request)
    urlencoded = "application/x-www-form-urlencoded"
    if request.headers.get("content-type", "").partition(";")[0].strip() != urlencoded:
        raise Problem("malformed", f"a form must be {urlencoded}")
    body = await body_of(request, LONGEST_FORM)
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


#: Seconds after which one has to log in again.
LONGEST_SESSION = 12 * 3600.0


@dataclass(frozen=True)
class User:
    """An administrator who looks at pages, and what a form of these pages must hold (``csrf``)."""

    service: Service
    administrator: AdministratorRow
    csrf: str
    id_hash: str

    @property
    def name(self) -> str:
        """The administrator's name."""
        return self.administrator.name

    @property
    def may_manage(self) -> bool:
        """Return whether the user may change something; others see no buttons."""
        return self.administrator.role == Role.MANAGE.value

    async def caller(self, request: Request) -> Caller:
        """Return the user as the caller of a request about the federation in its path."""
        return await administrator_at(request, self.administrator)

    async def is_there(self) -> bool:
        """Return whether the session still lasts."""
        return await _user(self.service, self.id_hash) is not None


async def user_of(request: Request) -> User:
    """Find whose session a request belongs to; raise ``Unauthorized`` if it has ended."""
    service, secret = service_of(request), session_of(request.scope)
    found = await _user(service, _id_hash(service, secret)) if secret else None
    if found is None:
        raise Unauthorized
    request.state.known = (SERVER_LOG, by_administrator(found.name))
    return found


async def _user(service: Service, id_hash: str) -> User | None:
    now, session = time.time(), await service.store.admins.session(id_hash)
    if session is None or now >= session.expires:
        return None
    if session.administrator == ROOT:
        administrator: AdministratorRow | None = root_of(service)
    else:
        administrator = await service.store.admins.find(session.administrator)
    # One that was removed and added again is another one.
    if administrator is None or administrator.created > session.created:
        return None
    if administrator.invalid(now) is not None:
        return None
    return User(service, administrator, session.csrf, id_hash)


async def begin_session(
    request: Request, administrator: AdministratorRow, answer: Response
) -> None:
    """Begin a session, whose secret goes into a cookie that no script can read."""
    service, now = service_of(request), time.time()
    secret = new_secret(ROOT_SESSION if administrator.name == ROOT else SESSION)
    made = SessionRow(
        _id_hash(service, secret),
        administrator.name,
        secrets.token_urlsafe(32),
        now,
        now + LONGEST_SESSION,
    )
    store = service.store.by(lambda tx: _require_same(tx, administrator))
    await store.admins.open_session(made)
    # Else its first request would count as one of a stranger.
    request.state.made = hashed(secret)
    _set_cookie(request, answer, secret, LONGEST_SESSION)


async def _require_same(tx: Transaction, administrator: AdministratorRow) -> None:
    """Refuse where token or password became another, or nobody's, while somebody logged in."""
    if administrator.name == ROOT:
        return
    found = await administrator_with(tx, administrator.token_hash)
    if found is None or found.password != administrator.password:
        raise Problem("forbidden", "what you logged in with was changed meanwhile: log in again")


async def end_session(request: Request, answer: Response) -> None:
    """End the session that a request belongs to, if there is one; its cookie is worthless."""
    service, secret = service_of(request), session_of(request.scope)
    if secret:
        await service.store.admins.close_session(_id_hash(service, secret))
    _set_cookie(request, answer, "", 0)


def _set_cookie(request: Request, answer: Response, secret: str, seconds: float) -> None:
    answer.set_cookie(
        session_cookie(request.scope),
        secret,
        max_age=int(seconds),
        path="/",
        secure=request.scope.get("scheme") == "https",
        httponly=True,
        samesite="strict",
    )


def _id_hash(service: Service, secret: str) -> str:
    """What the store knows a session by.

    Of the first administrator that depends on the token: another one ends the sessions by the old.
    """
    is_root = secret.startswith(prefix(ROOT_SESSION))
    return hashed(secret + service.admin_hash if is_root else secret)


#: Failed logins from an address before it has to wait.
TRIES_BY_ADDRESS = 10
WRONG_TOKEN = "This is no administrator's token, or it is not one any more."
WRONG_PASSWORD = "Name and password do not fit, or this name has no password."


class LoginLimiter:
    """Lets administrators in, and slows down those who guess."""

    def __init__(self) -> None:
        # One more each ten seconds.
        self._addresses = Buckets(1 / 10.0, TRIES_BY_ADDRESS)
        # From anywhere: whoever is kept out by others' tries still has the token.
        self._names = Buckets(1 / 30.0, 20)

    async def admit(self, request: Request, form: Form) -> AdministratorRow:
        """Return the administrator that a form's token or name and password belong to.

        Refuses all others, in the same words whether there is such a name or not.
        """
        address = network_of(request.client.host if request.client else "")
        name = form.get("name", "").strip()
        tries = [self._addresses.of(address)]
        if name:
            tries.append(self._names.of(name[:64]))
        if wait := max(one.wait() for one in tries):
            raise too_many("there were too many failed logins", wait)
        for one in tries:
            one.take()
        found = await (self._by_password if name else self._by_token)(request, form)
        if found is None:
            throttled_log.warn("Refused logins", f"from {address}")
            raise Problem("forbidden", WRONG_PASSWORD if name else WRONG_TOKEN)
        for one in tries:
            one.take(-1.0)
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
        said = "You have logged out." if "out" in request.query_params else ""
        return _page(asked, said=said)
    return RedirectResponse(_inside(asked), 303)


async def take(request: Request) -> Response:
    """Begin a session, or say why not."""
    request.state.route = "/ui/login"
    form = await form_of(request)
    asked = form.get("next", "")
    try:
        administrator = await request.app.state.login_limiter.admit(request, form)
    except Problem as refusal:
        problem = await request.app.state.refusals.noted(request, refusal)
        return _page(asked, problem=problem, name=form.get("name", ""))
    answer = RedirectResponse(_inside(asked), 303)
    await end_session(request, answer)
    await begin_session(request, administrator, answer)
    return answer


async def leave(request: Request) -> Response:
    """End the session."""
    answer = RedirectResponse("/ui/login?out", 303)
    await end_session(request, answer)
    return answer


def _page(
    asked: str, *, problem: Problem | None = None, said: str = "", name: str = ""
) -> Response:
    status = 200 if problem is None else KINDS[problem.kind][0]
    answer = rendered(
        "login.html",
        status=status,
        next=_inside(asked),
        problem="" if problem is None else str(problem),
        said=said,
        name=name[:64],
    )
    answer.headers.update({} if problem is None else problem.headers)
    return answer


def _inside(asked: str) -> str:
    """A page of the dashboard, whatever a link asks for: never another site's."""
    inside = asked.startswith("/ui/") and "//" not in asked and "\\" not in asked
    return asked if inside and asked.isprintable() else "/ui/"


def _is_name(text: str) -> bool:
    try:
        require_name("an administrator's", text)
    except BadInput:
        return False
    return True
