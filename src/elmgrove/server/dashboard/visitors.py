"""Visits: an administrator's stay on the dashboard, from login to logout."""

import secrets
import time
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from elmgrove.server.auth import ROOT, Caller, Role, administrator_at, root_of
from elmgrove.server.problems import Problem
from elmgrove.server.secrets import (
    ROOT_VISIT,
    VISIT,
    hashed,
    new_secret,
    prefix,
    visit_cookie,
    visit_of,
)
from elmgrove.server.service import Service, service_of
from elmgrove.server.store import (
    OWN_CHAIN,
    AdministratorRow,
    Operation,
    VisitRow,
    administrator_with,
    by_administrator,
)

#: Seconds after which one has to log in again.
LONGEST_VISIT = 12 * 3600.0


class NoVisit(Exception):
    """A page is asked for by somebody who has not logged in, or whose visit is over."""


@dataclass(frozen=True)
class Visitor:
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
        """Says whether the visitor may change something; others see no buttons."""
        return self.administrator.role == Role.MANAGE.value

    async def caller(self, request: Request) -> Caller:
        """Gives the visitor as the caller of a request about the federation in its path."""
        return await administrator_at(request, self.administrator)

    async def is_there(self) -> bool:
        """Says whether the visit still lasts."""
        return await _visitor(self.service, self.id_hash) is not None


async def visitor_of(request: Request) -> Visitor:
    """Finds whose visit a request belongs to; raises ``NoVisit`` where there is none any more."""
    service, secret = service_of(request), visit_of(request.scope)
    found = await _visitor(service, _id_hash(service, secret)) if secret else None
    if found is None:
        raise NoVisit
    request.state.known = (OWN_CHAIN, by_administrator(found.name))
    return found


async def _visitor(service: Service, id_hash: str) -> Visitor | None:
    now, visit = time.time(), await service.store.visit(id_hash)
    if visit is None or now >= visit.expires:
        return None
    if visit.administrator == ROOT:
        administrator: AdministratorRow | None = root_of(service)
    else:
        administrator = await service.store.administrator(visit.administrator)
    # One that was removed and added again is another one.
    if administrator is None or administrator.created > visit.created:
        return None
    if administrator.invalid(now) is not None:
        return None
    return Visitor(service, administrator, visit.csrf, id_hash)


async def begin_visit(request: Request, administrator: AdministratorRow, answer: Response) -> None:
    """Begins a visit, whose secret goes with the answer: into a cookie that no script can read."""
    service, now = service_of(request), time.time()
    secret = new_secret(ROOT_VISIT if administrator.name == ROOT else VISIT)
    made = VisitRow(
        _id_hash(service, secret),
        administrator.name,
        secrets.token_urlsafe(32),
        now,
        now + LONGEST_VISIT,
    )
    store = service.store.by(lambda: _require_same(administrator))
    await store.open_visit(made)
    # Else its first request would count as one of a stranger.
    request.state.made = hashed(secret)
    _set_cookie(request, answer, secret, LONGEST_VISIT)


def _require_same(administrator: AdministratorRow) -> Operation[None]:
    """Refuses where token or password became another, or nobody's, while somebody logged in."""
    if administrator.name == ROOT:
        return
    found = yield from administrator_with(administrator.token_hash)
    if found is None or found.password != administrator.password:
        raise Problem("forbidden", "what you logged in with was changed meanwhile: log in again")


async def end_visit(request: Request, answer: Response) -> None:
    """Ends the visit that a request belongs to, if there is one; its cookie is worthless."""
    service, secret = service_of(request), visit_of(request.scope)
    if secret:
        await service.store.close_visit(_id_hash(service, secret))
    _set_cookie(request, answer, "", 0)


def _set_cookie(request: Request, answer: Response, secret: str, seconds: float) -> None:
    answer.set_cookie(
        visit_cookie(request.scope),
        secret,
        max_age=int(seconds),
        path="/",
        secure=request.scope.get("scheme") == "https",
        httponly=True,
        samesite="strict",
    )


def _id_hash(service: Service, secret: str) -> str:
    """What the store knows a visit by.

    Of the first administrator that depends on the token: another one ends the visits by the old.
    """
    is_root = secret.startswith(prefix(ROOT_VISIT))
    return hashed(secret + service.admin_hash if is_root else secret)
