"""Login and logout: who may look at pages, by a token or by name and password."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from elmgrove.errors import BadInput
from elmgrove.federation import require_name
from elmgrove.server.auth import administrator_of, require_unexpired
from elmgrove.server.dashboard.forms import Form, form_of
from elmgrove.server.dashboard.rendering import rendered
from elmgrove.server.dashboard.visitors import NoVisit, begin_visit, end_visit, visitor_of
from elmgrove.server.limits import Buckets, neighbourhood, seldom
from elmgrove.server.problems import KINDS, Problem, too_many
from elmgrove.server.service import service_of
from elmgrove.server.store import OWN_CHAIN, AdministratorRow, by_administrator

#: Failed logins from an address: so many at once, and one more each so many seconds...
TRIES_BY_ADDRESS, SECONDS_BY_ADDRESS = 10, 10.0
#: ...and by a name, from wherever. Who is kept out by others' tries has the token.
TRIES_BY_NAME, SECONDS_BY_NAME = 20, 30.0

WRONG_TOKEN = "This is no administrator's token, or it is not one any more."
WRONG_PASSWORD = "Name and password do not fit, or this name has no password."


class Doorkeeper:
    """Lets administrators in, and slows down those who guess."""

    def __init__(self) -> None:
        self._addresses = Buckets(1 / SECONDS_BY_ADDRESS, TRIES_BY_ADDRESS)
        self._names = Buckets(1 / SECONDS_BY_NAME, TRIES_BY_NAME)

    async def admit(self, request: Request, form: Form) -> AdministratorRow:
        """Gives the administrator that a form's token or name and password belong to.

        Refuses all others, in the same words whether there is such a name or not.
        """
        address = neighbourhood(request.client.host if request.client else "")
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
            seldom.warn("Refused logins", f"from {address}")
            raise Problem("forbidden", WRONG_PASSWORD if name else WRONG_TOKEN)
        for one in tries:
            one.take(-1.0)
        return found

    async def _by_token(self, request: Request, form: Form) -> AdministratorRow | None:
        return await administrator_of(request, form.get("token", "").strip())

    async def _by_password(self, request: Request, form: Form) -> AdministratorRow | None:
        found, name = None, form["name"].strip()
        if _is_name(name):
            found = await service_of(request).store.administrator(name)
        stored = None if found is None else found.password
        fits = await service_of(request).passwords.matches(form.get("password", ""), stored)
        if found is None:
            return None
        # So that the audit has it; what is answered is the same.
        request.state.known = (OWN_CHAIN, by_administrator(found.name))
        if not fits:
            return None
        require_unexpired(found)
        return found


async def show(request: Request) -> Response:
    """Shows where to log in, or what was asked for to those who have."""
    request.state.route = "/ui/login"
    asked = request.query_params.get("next", "")
    try:
        await visitor_of(request)
    except NoVisit:
        said = "You have logged out." if "out" in request.query_params else ""
        return _page(asked, said=said)
    return RedirectResponse(_inside(asked), 303)


async def take(request: Request) -> Response:
    """Begins a visit, or says why not."""
    request.state.route = "/ui/login"
    form = await form_of(request)
    asked = form.get("next", "")
    try:
        administrator = await request.app.state.doorkeeper.admit(request, form)
    except Problem as refusal:
        problem = await request.app.state.refusals.noted(request, refusal)
        return _page(asked, problem=problem, name=form.get("name", ""))
    answer = RedirectResponse(_inside(asked), 303)
    await end_visit(request, answer)
    await begin_visit(request, administrator, answer)
    return answer


async def leave(request: Request) -> Response:
    """Ends the visit."""
    answer = RedirectResponse("/ui/login?out", 303)
    await end_visit(request, answer)
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
