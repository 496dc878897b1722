"""Which caller a request comes from: the administrator, a device, or one that wants to join."""

import hmac
import os
import secrets
from dataclasses import dataclass
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
    """The hash of a secret, which is what the store holds of it.

    Secrets of 256 random bits can't be guessed, so one round will do.
    """
    return sha256(secret.encode()).hexdigest()


def matches(secret: str, stored: str) -> bool:
    """Whether a secret is the one behind a stored hash."""
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


@dataclass(frozen=True)
class Caller:
    """A caller whose secret was right. ``device`` is None for the administrator."""

    service: Service
    federation: FederationRow
    charter: Charter
    device: str | None

    def require_device(self, name: str) -> None:
        """Refuses all but the device itself: not even the administrator speaks for a device."""
        if self.device != name:
            raise Problem("forbidden", f"only {name!r} itself may do this, with its own key")

    def require_own(self, name: str) -> None:
        """Refuses all but the device itself and the administrator."""
        if self.device not in (None, name):
            raise Problem("forbidden", f"only {name!r} or the administrator may do this")

    def require_admin(self) -> None:
        """Refuses all but the administrator."""
        if self.device is not None:
            raise Problem("forbidden", "only the administrator may do this")


def require_admin(request: Request) -> Service:
    """The service, for the administrator alone and for what concerns no single federation."""
    service = service_of(request)
    if not matches(_secret(request), service.admin_hash):
        raise Problem("unauthorized", "this needs the administrator's token")
    return service


async def caller_of(request: Request) -> Caller:
    """The administrator, or the device of the federation in the path that has this key."""
    service, secret = service_of(request), _secret(request)
    is_admin = matches(secret, service.admin_hash)
    federation = await _federation(request, is_admin, KEY_NEEDED)
    if is_admin:
        return Caller(service, federation, service.charter(federation), None)
    device = await service.store.device_of(federation.name, hashed(secret))
    if device is None:
        raise Problem("unauthorized", KEY_NEEDED)
    if device.revoked:
        raise Problem("forbidden", f"the key of {device.name!r} was revoked")
    return Caller(service, federation, service.charter(federation), device.name)


async def joiner_of(request: Request) -> tuple[Caller, bool]:
    """A caller that has the federation's join token, or (True) the administrator."""
    service, secret = service_of(request), _secret(request)
    is_admin = matches(secret, service.admin_hash)
    federation = await _federation(request, is_admin, TOKEN_NEEDED)
    if not is_admin and not matches(secret, federation.token_hash):
        raise Problem("unauthorized", TOKEN_NEEDED)
    return Caller(service, federation, service.charter(federation), None), is_admin


async def _federation(request: Request, is_admin: bool, needed: str) -> FederationRow:
    """The federation in the path.

    To all but the administrator, one that does not exist looks like one that they are not in. It
    may also be deleted while the request is under way: ``answer`` then gives the same refusal.
    """
    # PostgreSQL can't even look for such a name.
    if "\0" in request.scope["path"] or b"%00" in request.scope["query_string"]:
        raise Problem("malformed", "no name holds a NUL character")
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
