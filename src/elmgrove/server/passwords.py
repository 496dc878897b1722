"""Passwords: hashed and compared by argon2, a few at once, since each takes memory on purpose."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from elmgrove.errors import BadInput
from elmgrove.server.problems import too_many

T = TypeVar("T")

#: Characters of a password.
SHORTEST, LONGEST = 12, 256
#: Passwords at work at once: 64 MiB and a tenth of a second of a core each...
AT_ONCE = 2
#: ...and how many may wait for that.
WAITING = 16
#: RFC 9106's second choice, for where memory is dear.
HASHER = PasswordHasher(time_cost=3, memory_cost=2**16, parallelism=4)
#: What is compared with where there is nothing to compare with; nobody knows what it is a hash of.
DECOY = (
    "$argon2id$v=19$m=65536,t=3,p=4$td3"
    "RR9yxrzs8CRgNvFv2Og$ZtFz7/1ylaFTGplCT48vHoyYKHRKYJieHisy/e0N2p4"
)


def require_password(text: object) -> str:
    """Gives a password; ``BadInput`` for one that is too short, too long, or no text."""
    if not isinstance(text, str) or not SHORTEST <= len(text) <= LONGEST:
        raise BadInput(f"password: it must be a text of {SHORTEST} to {LONGEST} characters")
    return text


class Passwords:
    """Hashes passwords and compares them with hashes, in threads."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def hashed(self, password: str) -> str:
        """Hashes a password, with a salt of its own."""
        return await self._in_turn(lambda: HASHER.hash(password))

    async def matches(self, password: str, stored: str | None) -> bool:
        """Says whether a password is the one behind a stored hash.

        Without a hash it is none, after as much work: so nobody learns from the time that an
        answer takes who has a password here.
        """
        compared = await self._in_turn(lambda: _verified(password, stored or DECOY))
        return compared and stored is not None

    async def _in_turn(self, work: Callable[[], T]) -> T:
        if self._waiting >= WAITING:
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
