"""Which caller a request comes from: the administrator, a device, or one that wants to join."""

import hmac
import os
import secrets
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request

from elmgrove.errors import BadInput
from elmgrove.federation import Charter
from elmgrove.server.problems import Problem, no_federation
from elmgrove.server.service import Service, service_of
from elmgrove.server.store import FederationRow

KEY_NEEDED = "this needs the key of a device of this federation"
TOKEN_NEEDED = "this needs the token with which devices join this federation"


def new_secret(purpose: str) -> str:
    """Makes a secret of 256 bits that begins with its purpose."""
    return f"elm-{purpose}-{secrets.token_urlsafe(32)}"


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
    """What a caller's secret proves: that it is the administrator, a device, or may join."""

    ADMIN = auto()
    DEVICE = auto()
    JOINER = auto()


@dataclass(frozen=True)
class Caller:
    """A caller whose secret was right. ``device`` is the name of a device, None for the others."""

    service: Service
    federation: FederationRow
    charter: Charter
    role: Role
    device: str | None = None

    def require_device(self, name: str) -> None:
        """Refuses all but the device itself: not even the administrator speaks for a device."""
        if not self._is(name):
            raise Problem("forbidden", f"only {name!r} itself may do this, with its own key")

    def require_own(self, name: str) -> None:
        """Refuses all but the device itself and the administrator."""
        if self.role is not Role.ADMIN and not self._is(name):
            raise Problem("forbidden", f"only {name!r} or the administrator may do this")

    def require_admin(self) -> None:
        """Refuses all but the administrator."""
        if self.role is not Role.ADMIN:
            raise Problem("forbidden", "only the administrator may do this")

    def _is(self, name: str) -> bool:
        return self.role is Role.DEVICE and self.device == name


def require_admin(request: Request) -> Service:
    """Gives the service to the administrator, and refuses all others.

    It is for what concerns no single federation.
    """
    service = service_of(request)
    if not matches(_secret(request), service.admin_hash):
        raise Problem("unauthorized", "this needs the administrator's token")
    request.state.admitted = True
    return service


async def caller_of(request: Request, *admitted: Role) -> Caller:
    """Finds which caller sent a request about a federation, and refuses all but some roles.

    The administrator is always admitted, and devices are if no role is named.
    """
    caller = await _caller(request, *admitted)
    # Limits differ for those who are let in.
    request.state.admitted = True
    return caller


async def _caller(request: Request, *admitted: Role) -> Caller:
    service, secret = service_of(request), _secret(request)
    is_admin = matches(secret, service.admin_hash)
    by_key = not admitted or Role.DEVICE in admitted
    needed = KEY_NEEDED if by_key else TOKEN_NEEDED
    federation = await _federation(request, is_admin, needed)
    charter = service.charter(federation)
    if is_admin:
        return Caller(service, federation, charter, Role.ADMIN)
    if Role.JOINER in admitted and matches(secret, federation.token_hash):
        return Caller(service, federation, charter, Role.JOINER)
    device = await service.store.device_of(federation.name, hashed(secret)) if by_key else None
    if device is None:
        raise Problem("unauthorized", needed)
    if device.revoked:
        raise Problem("forbidden", f"the key of {device.name!r} was revoked")
    return Caller(service, federation, charter, Role.DEVICE, device.name)


async def require_still_allowed(request: Request) -> None:
    """Refuses a caller whose key was revoked, or its federation deleted, since it was let in."""
    await caller_of(request)


async def _federation(request: Request, is_admin: bool, needed: str) -> FederationRow:
    """The federation in the path.

    To all but the administrator, one that does not exist looks like one that they are not in. It
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
