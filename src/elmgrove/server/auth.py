"""Who is asking: the administrator, a device, or one that wants to become one."""

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


def new_secret(kind: str) -> str:
    """A new secret of 256 bits; what it is for can be seen at its beginning."""
    return f"elm-{kind}-{secrets.token_urlsafe(32)}"


def hashed(secret: str) -> str:
    """What is stored of it. Secrets of 256 random bits can't be guessed, so one round will do."""
    return sha256(secret.encode()).hexdigest()


def matches(secret: str, stored: str) -> bool:
    """Whether a secret is the one behind a stored hash."""
    return hmac.compare_digest(hashed(secret), stored)


def admin_token(path: Path) -> str:
    """The administrator's token from its file, which is made if it is not there."""
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
    """Somebody whose secret was right. ``device`` is None for the administrator."""

    service: Service
    federation: FederationRow
    charter: Charter
    device: str | None

    def require_device(self, name: str) -> None:
        """Nobody speaks for another device, not even the administrator."""
        if self.device != name:
            raise Problem("forbidden", f"only {name!r} itself may do this, with its own key")

    def require_own(self, name: str) -> None:
        """The device itself or the administrator."""
        if self.device not in (None, name):
            raise Problem("forbidden", f"only {name!r} or the administrator may do this")

    def require_admin(self) -> None:
        """The administrator alone."""
        if self.device is not None:
            raise Problem("forbidden", "only the administrator may do this")


def require_admin(request: Request) -> Service:
    """For what concerns no single federation."""
    service = service_of(request)
    if not matches(_secret(request), service.admin_hash):
        raise Problem("unauthorized", "this needs the administrator's token")
    return service


async def caller_of(request: Request) -> Caller:
    """Administrator or device of the federation in the path.

    A federation that does not exist looks to others like one that they are not in.
    """
    service, secret = service_of(request), _secret(request)
    federation = await _federation(request)
    if matches(secret, service.admin_hash):
        if federation is None:
            raise no_federation()
        return Caller(service, federation, service.charter(federation), None)
    if federation is not None:
        device = await service.store.device_of(federation.name, hashed(secret))
        if device is not None and device.revoked:
            raise Problem("forbidden", f"the key of {device.name!r} was revoked")
        if device is not None:
            return Caller(service, federation, service.charter(federation), device.name)
    raise Problem("unauthorized", "this needs the key of a device of this federation")


async def joiner_of(request: Request) -> tuple[Caller, bool]:
    """Somebody with the federation's join token, or (True) the administrator."""
    service, secret = service_of(request), _secret(request)
    federation, is_admin = await _federation(request), matches(secret, service.admin_hash)
    if federation is None and is_admin:
        raise no_federation()
    if federation is not None and (is_admin or matches(secret, federation.token_hash)):
        return Caller(service, federation, service.charter(federation), None), is_admin
    raise Problem("unauthorized", "this needs the token with which devices join this federation")


async def _federation(request: Request) -> FederationRow | None:
    # PostgreSQL can't even look for such a name.
    if "\0" in request.scope["path"] or b"%00" in request.scope["query_string"]:
        raise Problem("malformed", "no name holds a NUL character")
    return await service_of(request).store.federation(request.path_params["federation"])


def _secret(request: Request) -> str:
    scheme, _, secret = request.headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Problem("unauthorized", "send 'Authorization: Bearer' with a token or key")
    return secret.strip()
