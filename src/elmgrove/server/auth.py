"""Which caller a request comes from: an administrator, a device, or one that wants to join."""

import hmac
import os
import re
import secrets
import time
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request

from elmgrove.errors import BadInput
from elmgrove.federation import SUMS, Charter
from elmgrove.server.problems import Problem, no_federation
from elmgrove.server.service import Service, service_of
from elmgrove.server.store import (
    OWN_CHAIN,
    AdministratorRow,
    DeviceRow,
    FederationRow,
    Key,
    by_administrator,
    by_device,
)

KEY_NEEDED = "this needs the key of a device of this federation"
TOKEN_NEEDED = "this needs the token with which devices join this federation"
#: The administrator whose token the server was started with.
ROOT = "root"


def new_secret(purpose: str) -> str:
    """Makes a secret of 256 bits that begins with its purpose."""
    return _prefix(purpose) + secrets.token_urlsafe(32)


def is_secret(purpose: str, text: object) -> bool:
    """Says whether this could be a secret that ``new_secret`` made."""
    form = re.escape(_prefix(purpose)) + "[A-Za-z0-9_-]{43}"
    return isinstance(text, str) and re.fullmatch(form, text) is not None


def _prefix(purpose: str) -> str:
    return f"elm-{purpose}-"


def hashed(secret: str) -> str:
    """Hashes a secret: the store holds nothing else of it.

    Secrets of 256 random bits can't be guessed, so one round will do.
    """
    return sha256(secret.encode()).hexdigest()


def matches(secret: str, stored: str) -> bool:
    """Says whether a secret is the one behind a stored hash."""
    return hmac.compare_digest(hashed(secret), stored)


def load_admin_token(path: Path) -> str:
    """Reads the administrator's token from its file, which is made if it is not there."""
    try:
        # Nobody else may read it, not even for the moment before it has its rights.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(new_secret("admin"))
    except FileExistsError:
        pass
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise BadInput(f"{path} is empty: write a token into it, or remove it to get a new one")
    return token


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

    ``secret_hash`` is what the store knows a device's key by.
    """

    service: Service
    federation: FederationRow
    charter: Charter
    role: Role
    device: str | None = None
    administrator: str | None = None
    secret_hash: str = ""

    @property
    def actor(self) -> str:
        """The caller as the audit names it."""
        if self.device is not None:
            return by_device(self.device)
        return "join token" if self.administrator is None else by_administrator(self.administrator)

    @property
    def key(self) -> Key | None:
        """The key of a device, to be checked again where it writes; None for the others."""
        return Key(self.secret_hash, require_valid) if self.role is Role.DEVICE else None

    def require_device(self, name: str) -> None:
        """Refuses all but the device itself: not even an administrator speaks for a device."""
        if not self._is(name):
            raise Problem("forbidden", f"only {name!r} itself may do this, with its own key")

    def require_own(self, name: str) -> None:
        """Refuses all but the device itself and administrators."""
        if self.role not in ADMINISTRATORS and not self._is(name):
            raise Problem("forbidden", f"only {name!r} or an administrator may do this")

    def require_shown(self, name: str | None) -> None:
        """Refuses a key that reads sums what another device contributed; None is what all did."""
        sums_alone = self.role is Role.DEVICE and self.charter.terms.shows == SUMS
        if sums_alone and (name is None or not self._is(name)):
            raise Problem(
                "forbidden",
                "in this federation a key reads sums over devices, and of single contributions its "
                "own: take an administrator's token, or a federation with --shows contributions",
            )

    @property
    def least(self) -> int:
        """From how many other devices on a sum is told to this caller."""
        return self.charter.terms.least if self.role is Role.DEVICE else 1

    def require_admin(self) -> None:
        """Refuses all but administrators."""
        if self.role not in ADMINISTRATORS:
            raise Problem("forbidden", "only an administrator may do this")

    def _is(self, name: str) -> bool:
        return self.role is Role.DEVICE and self.device == name


async def require_admin(request: Request) -> tuple[Service, str]:
    """Gives an administrator the service, and its name in the audit; refuses all others.

    It is for what concerns no single federation.
    """
    administrator = await _administrator(request, _secret(request))
    if administrator is None:
        raise Problem("unauthorized", "this needs an administrator's token")
    _require_role(request, administrator)
    return service_of(request), by_administrator(administrator.name)


async def caller_of(request: Request, *admitted: Role) -> Caller:
    """Finds which caller sent a request about a federation, and refuses all but some roles.

    Administrators are always admitted, those that look to what changes nothing; devices are if no
    role is named.
    """
    service, secret = service_of(request), _secret(request)
    administrator = await _administrator(request, secret)
    by_key = not admitted or Role.DEVICE in admitted
    needed = KEY_NEEDED if by_key else TOKEN_NEEDED
    federation = await _federation(request, administrator is not None, needed)
    charter = service.charter(federation)
    if administrator is not None:
        role, name = Role(administrator.role), administrator.name
        caller = Caller(service, federation, charter, role, administrator=name)
        _know(request, federation.name, caller.actor)
        _require_role(request, administrator)
        return caller
    if Role.JOINER in admitted and matches(secret, federation.token_hash):
        caller = Caller(service, federation, charter, Role.JOINER)
        _know(request, federation.name, caller.actor)
        return caller
    if not by_key:
        raise Problem("unauthorized", needed)
    return await _device(request, service, federation, hashed(secret))


async def _device(
    request: Request, service: Service, federation: FederationRow, key_hash: str
) -> Caller:
    device = await service.store.device_of(federation.name, key_hash)
    if device is not None:
        _know(request, federation.name, by_device(device.name))
    device = require_valid(device)
    if device.next_hash == key_hash:
        await service.store.take_key(federation, key_hash)
    charter = service.charter(federation)
    return Caller(service, federation, charter, Role.DEVICE, device.name, secret_hash=key_hash)


async def _administrator(request: Request, secret: str) -> AdministratorRow | None:
    service = service_of(request)
    if matches(secret, service.admin_hash):
        found: AdministratorRow | None
        found = AdministratorRow(ROOT, Role.MANAGE.value, service.admin_hash, 0.0)
    elif secret.startswith(_prefix("admin")):
        # Others need not be looked for, which spares devices the question.
        found = await service.store.administrator_of(hashed(secret))
    else:
        return None
    if found is not None:
        _know(request, OWN_CHAIN, by_administrator(found.name))
        if (invalid := found.invalid(time.time())) is not None:
            raise Problem("forbidden", invalid)
    return found


def _require_role(request: Request, administrator: AdministratorRow) -> None:
    """Refuses what changes something to an administrator that may only look.

    Here, for all routes: no new one can forget it.
    """
    if administrator.role != Role.MANAGE.value and request.method not in ("GET", "HEAD"):
        raise Problem(
            "forbidden",
            f"{administrator.name!r} may look and change nothing: ask an administrator with the "
            f"role {Role.MANAGE.value}",
        )


def _know(request: Request, chain: str, actor: str) -> None:
    """Remembers who asks, and in which chain of the audit a refusal is to be recorded."""
    request.state.known = (chain, actor)


def require_valid(device: DeviceRow | None) -> DeviceRow:
    """Gives the device that has a key; refuses one that none has, or that is no longer valid."""
    if device is None:
        raise Problem("unauthorized", KEY_NEEDED)
    if (invalid := device.invalid(time.time())) is not None:
        raise Problem("forbidden", invalid)
    return device


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
    found = await service_of(request).store.federation(request.path_params["federation"])
    if found is None:
        raise refusal
    return found


def _secret(request: Request) -> str:
    scheme, _, secret = request.headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Problem("unauthorized", "send 'Authorization: Bearer' with a token or key")
    return secret.strip()
