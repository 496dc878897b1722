"""The service: what all requests share, who sends them, and how bodies and queries are read."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from starlette.requests import ClientDisconnect, Request

from elmgrove.errors import Problem
from elmgrove.federation.charter import Charter
from elmgrove.reading.times import stated_time
from elmgrove.server.live_sums import CorruptEntries, LiveFleet, LiveOthers, LiveSums
from elmgrove.server.problems import no_federation
from elmgrove.server.secrets import Passwords, hashed, matches, prefix, secret_of
from elmgrove.server.store.admins import AdministratorRow, administrator_with
from elmgrove.server.store.audit import SERVER_LOG, by_administrator, by_device
from elmgrove.server.store.database import Transaction
from elmgrove.server.store.federations import (
    DeviceRow,
    FederationRow,
    device_of,
    federation_of,
    require_same,
)
from elmgrove.server.store.store import Store

#: Longest JSON document that is read, but for a charter: a few names.
LONGEST_JSON = 2**14


@dataclass
class Service:
    """The store, what is live of it, the administrator's hash, and the longest body to take."""

    #: A contribution of 2,000 hidden units at 2,000 inputs.
    max_body: ClassVar[int] = 64 * 2**20

    store: Store
    admin_hash: str
    corrupt: CorruptEntries = field(default_factory=CorruptEntries, init=False)
    passwords: Passwords = field(default_factory=Passwords, init=False)
    live_sums: LiveSums = field(init=False)
    live_others: LiveOthers = field(init=False)
    live_fleet: LiveFleet = field(init=False)
    _charters: dict[tuple[str, float], Charter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.live_sums = LiveSums(self.store, self.corrupt)
        self.live_others = LiveOthers(self.store, self.corrupt)
        self.live_fleet = LiveFleet(self.store)

    @property
    def live(self) -> tuple[LiveSums, LiveOthers, LiveFleet]:
        return self.live_sums, self.live_others, self.live_fleet

    def wake(self) -> None:
        """Tell that something was stored, so that all that is live takes it in at once."""
        for live in self.live:
            live.wake()

    def charter(self, federation: FederationRow) -> Charter:
        """Return the charter of a federation; it is made once, since every request asks for it."""
        key = (federation.name, federation.created)
        if key not in self._charters:
            self._charters[key] = Charter.from_fields(
                {
                    "name": federation.name,
                    "basis": federation.basis,
                    "ridge": federation.ridge,
                    "members": federation.members,
                    "merged": federation.merged,
                    "terms": federation.terms,
                }
            )
        return self._charters[key]


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def body_of(request: Request, limit: int, seconds: float = 120.0) -> bytes:
    """Read a request's body, if it is no longer than ``limit``, whatever its headers claim."""
    chunks, size = list[bytes](), 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise Problem(
                        "too-large", f"the body is longer than the {limit} bytes it may have"
                    )
                chunks.append(chunk)
    except ClientDisconnect:
        raise Problem("malformed", "the body broke off") from None
    except TimeoutError:
        raise Problem("slow", f"the body did not arrive within {seconds:g} s") from None
    return b"".join(chunks)


async def json_of(request: Request, limit: int = LONGEST_JSON) -> dict[str, Any]:
    return object_of(await body_of(request, limit))


def object_of(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Problem("malformed", f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Problem("malformed", "the body must be a JSON object")
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        # As "\ud800" it is JSON, but no text that could be written anywhere.
        text = error.object[error.start : error.end]
        raise Problem(
            "malformed",
            f"a name or another text can't be encoded: {text!r:.40} is half a character",
        ) from error
    return found


def text_in(request: Request, name: str) -> str | None:
    text = request.query_params.get(name)
    # PostgreSQL can't even look for such a name.
    if text is not None and "\0" in text:
        raise Problem("malformed", f"{name}: a name can't contain a NUL character")
    return text


def number_in(request: Request, name: str) -> float | None:
    """Return a number from 0 on in the query."""
    text = request.query_params.get(name)
    if text is None:
        return None
    digits, _, fraction = text.partition(".")
    if not f"{digits}{fraction}".isascii() or not f"{digits}{fraction}".isdigit() or len(text) > 18:
        raise Problem("malformed", f"{name}: {text!r:.40} is not a number from 0 on")
    return float(text)


def time_in(request: Request, name: str) -> float | None:
    """Return a time in the query, in ISO 8601 or in seconds since 1970."""
    text = request.query_params.get(name)
    return None if text is None else stated_time(name, text)


ADMIN_NEEDED = "this needs an administrator's token"
KEY_NEEDED = (
    "this needs the key of a device of this federation; one that was replaced is no key any more "
    "(elmgrove federation token FEDERATION DEVICE makes another)"
)
TOKEN_NEEDED = "this needs the token with which devices join this federation"
#: The administrator whose token the server was started with.
ROOT = "root"


class Role(Enum):
    """What a caller's secret lets it do: look at all, manage all, be a device, or join as one."""

    LOOK = "look"
    MANAGE = "manage"
    DEVICE = "device"
    JOINER = "joiner"


#: The roles that an administrator can have.
ADMINISTRATORS = (Role.LOOK, Role.MANAGE)


@dataclass(frozen=True)
class Caller:
    """A caller whose secret was right: an administrator or a device, by name, or one that joins.

    ``secret_hash`` is what the store knows that secret by.
    """

    service: Service
    federation: FederationRow
    role: Role
    device: str | None = None
    administrator: str | None = None
    secret_hash: str = ""

    @property
    def actor(self) -> str:
        if self.device is not None:
            return by_device(self.device)
        return "join token" if self.administrator is None else by_administrator(self.administrator)

    @property
    def charter(self) -> Charter:
        return self.service.charter(self.federation)

    @property
    def store(self) -> Store:
        """The store for what this caller writes: its secret is checked again in the transaction."""
        return self.service.store.by(self._require_still)

    async def _require_still(self, tx: Transaction) -> None:
        """Refuse a secret that is no longer valid, or where the federation was deleted."""
        if self.role is Role.DEVICE:
            require_valid(await device_of(tx, self.federation, self.secret_hash))
            return
        await require_same(tx, self.federation)
        if self.role is Role.JOINER:
            found = await federation_of(tx, self.federation.name)
            if found is None or found.token_hash != self.secret_hash:
                raise Problem("unauthorized", TOKEN_NEEDED)
        else:
            await _require_administrator(tx, self.service, self.secret_hash)

    def require_device(self, name: str) -> None:
        """Refuse all but the device itself: not even an administrator speaks for a device."""
        if not self._is(name):
            raise Problem("forbidden", f"only {name!r} itself may do this, with its own key")

    def require_own(self, name: str) -> None:
        if self.role not in ADMINISTRATORS and not self._is(name):
            raise Problem("forbidden", f"only {name!r} or an administrator may do this")

    @property
    def least(self) -> int:
        """How many other devices a sum must be of for this caller."""
        return self.charter.terms.least if self.role is Role.DEVICE else 1

    def require_admin(self) -> None:
        if self.role not in ADMINISTRATORS:
            raise Problem("forbidden", "only an administrator may do this")

    def _is(self, name: str) -> bool:
        return self.role is Role.DEVICE and self.device == name


async def require_admin(request: Request, own: str | None = None) -> tuple[Store, str]:
    """Return an administrator the store, and its name in the audit; refuse all others.

    It is for what concerns no single federation. The store refuses a token that ended meanwhile.
    What is an administrator's ``own``, that one may change, also if it may only look at the rest.
    """
    service, secret = service_of(request), _secret(request)
    administrator = await administrator_of(request, secret)
    if administrator is None:
        raise Problem("unauthorized", ADMIN_NEEDED)
    if administrator.name != own:
        require_role(request, administrator)
    store = service.store.by(lambda tx: _require_administrator(tx, service, hashed(secret)))
    return store, by_administrator(administrator.name)


async def caller_of(request: Request, *admitted: Role) -> Caller:
    """Find which caller sent a request about a federation, and refuses all but some roles.

    Administrators are always admitted, those that look to what changes nothing; devices are if no
    role is named.
    """
    service, secret = service_of(request), _secret(request)
    administrator = await administrator_of(request, secret)
    by_key = not admitted or Role.DEVICE in admitted
    needed = KEY_NEEDED if by_key else TOKEN_NEEDED
    if administrator is not None:
        return await administrator_at(request, administrator)
    federation = await _federation(request, False, needed)
    if Role.JOINER in admitted and matches(secret, federation.token_hash):
        caller = Caller(service, federation, Role.JOINER, secret_hash=hashed(secret))
        _know(request, federation.name, caller.actor)
        return caller
    if not by_key:
        raise Problem("unauthorized", needed)
    return await _device(request, service, federation, hashed(secret))


async def administrator_at(request: Request, administrator: AdministratorRow) -> Caller:
    """Return an administrator as the caller of a request about the federation in its path.

    Refuses one that may only look what changes something.
    """
    federation = await _federation(request, True, ADMIN_NEEDED)
    role, known_by = Role(administrator.role), administrator.token_hash
    caller = Caller(service_of(request), federation, role, None, administrator.name, known_by)
    _know(request, federation.name, caller.actor)
    require_role(request, administrator)
    return caller


async def _device(
    request: Request, service: Service, federation: FederationRow, key_hash: str
) -> Caller:
    device = await service.store.federations.device_of(federation.name, key_hash)
    if device is not None:
        _know(request, federation.name, by_device(device.name))
    device = require_valid(device)
    caller = Caller(service, federation, Role.DEVICE, device.name, secret_hash=key_hash)
    if device.next_hash == key_hash:
        await caller.store.federations.take_key(federation.name, key_hash)
    return caller


async def administrator_of(request: Request, secret: str) -> AdministratorRow | None:
    """Find the administrator that a token belongs to, if it is one's; refuse one that expired."""
    service = service_of(request)
    if matches(secret, service.admin_hash):
        found: AdministratorRow | None = root_of(service)
    elif secret.startswith(prefix("admin")):
        # Others need not be looked for, which spares devices the question.
        found = await service.store.admins.with_token(hashed(secret))
    else:
        return None
    if found is not None:
        _know(request, SERVER_LOG, by_administrator(found.name))
        require_unexpired(found)
    return found


def root_of(service: Service) -> AdministratorRow:
    return AdministratorRow(ROOT, Role.MANAGE.value, service.admin_hash, 0.0)


async def _require_administrator(tx: Transaction, service: Service, token_hash: str) -> None:
    """Refuse a token that was removed or has expired; the first administrator's is no such."""
    if token_hash == service.admin_hash:
        return
    if (found := await administrator_with(tx, token_hash)) is None:
        raise Problem("unauthorized", ADMIN_NEEDED)
    require_unexpired(found)


def require_role(request: Request, administrator: AdministratorRow) -> None:
    """Refuse what changes something to an administrator that may only look.

    Here, for all routes: no new one can forget it.
    """
    if administrator.role != Role.MANAGE.value and request.method not in ("GET", "HEAD"):
        raise Problem(
            "forbidden",
            f"{administrator.name!r} may look and change nothing: ask an administrator with the "
            f"role {Role.MANAGE.value}",
        )


def _know(request: Request, chain: str, actor: str) -> None:
    """Remember who asks, and in which chain of the audit a refusal is to be recorded."""
    request.state.known = (chain, actor)


def require_valid(device: DeviceRow | None) -> DeviceRow:
    """Return the device that has a key; refuse one that none has, or that is no longer valid."""
    if device is None:
        raise Problem("unauthorized", KEY_NEEDED)
    require_unexpired(device)
    return device


def require_unexpired(known: AdministratorRow | DeviceRow) -> None:
    if (invalid := known.invalid(time.time())) is not None:
        raise Problem("forbidden", invalid)


async def _federation(request: Request, is_admin: bool, needed: str) -> FederationRow:
    """The federation in the path.

    To all but administrators, one that does not exist looks like one that they are not in. It
    may also be deleted while the request is under way: ``answer`` then gives the same refusal.
    """
    # PostgreSQL can't even look for such a name.
    if "\0" in request.scope["path"] or b"%00" in request.scope["query_string"]:
        raise Problem("malformed", "a name can't contain a NUL character")
    refusal = no_federation() if is_admin else Problem("unauthorized", needed)
    request.state.no_federation = refusal
    found = await service_of(request).store.federations.find(request.path_params["federation"])
    if found is None:
        raise refusal
    return found


def _secret(request: Request) -> str:
    secret = secret_of(request.headers)
    if not secret:
        raise Problem("unauthorized", "send 'Authorization: Bearer' with a token or key")
    return secret
