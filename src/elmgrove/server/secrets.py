"""Tokens, keys and passwords: how they are made, compared and remembered."""

import asyncio
import hmac
import os
import re
import secrets
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from starlette.datastructures import Headers

from elmgrove.errors import BadInput
from elmgrove.server.problems import too_many


def new_secret(purpose: str) -> str:
    """Make a secret of 256 bits that begins with its purpose."""
    return prefix(purpose) + secrets.token_urlsafe(32)


def is_secret(purpose: str, text: object) -> bool:
    form = re.escape(prefix(purpose)) + "[A-Za-z0-9_-]{43}"
    return isinstance(text, str) and re.fullmatch(form, text) is not None


def prefix(purpose: str) -> str:
    return f"elm-{purpose}-"


def hashed(secret: str) -> str:
    """Hash a secret: the store holds nothing else of it.

    Secrets of 256 random bits can't be guessed, so one round will do.
    """
    return sha256(secret.encode()).hexdigest()


def matches(secret: str, stored: str) -> bool:
    return hmac.compare_digest(hashed(secret), stored)


def load_admin_token(path: Path) -> str:
    """Read the administrator's token from its file, which is made if it is not there."""
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


def secret_of(headers: Headers) -> str:
    """Return what a request sends as its secret, valid or not; '' where it sends none.

    A secret may be written in many ways, with more spaces for instance, and is one caller's.
    """
    scheme, _, secret = headers.get("authorization", "").strip().partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


T = TypeVar("T")

#: RFC 9106's second choice, for where memory is dear.
HASHER = PasswordHasher(time_cost=3, memory_cost=2**16, parallelism=4)
#: What is compared with where there is nothing to compare with; nobody knows what it is a hash of.
DECOY = (
    "$argon2id$v=19$m=65536,t=3,p=4$td3"
    "RR9yxrzs8CRgNvFv2Og$ZtFz7/1ylaFTGplCT48vHoyYKHRKYJieHisy/e0N2p4"
)


def require_password(text: object) -> str:
    """Return a password; ``BadInput`` for one that is too short, too long, or no text."""
    if not isinstance(text, str) or not 12 <= len(text) <= 256:
        raise BadInput("password: it must be a text of 12 to 256 characters")
    return text


class Passwords:
    """Hashes passwords and compares them with hashes, in threads."""

    def __init__(self) -> None:
        # Each takes 64 MiB and a tenth of a second of a core.
        self._turns = asyncio.Semaphore(2)
        self._waiting = 0

    async def hashed(self, password: str) -> str:
        return await self._in_turn(lambda: HASHER.hash(password))

    async def matches(self, password: str, stored: str | None) -> bool:
        """Return whether a password is the one behind a stored hash.

        Without a hash it is none, after as much work: so nobody learns from the time that an
        answer takes who has a password here.
        """
        compared = await self._in_turn(lambda: _verified(password, stored or DECOY))
        return compared and stored is not None

    async def _in_turn(self, work: Callable[[], T]) -> T:
        if self._waiting >= 16:
            raise too_many("too many passwords are being looked at", 1.0)
        self._waiting += 1
        try:
            async with self._turns:
                return await asyncio.to_thread(work)
        finally:
            self._waiting -= 1


def _verified(password: str, stored: str) -> bool:
    try:
        return HASHER.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
