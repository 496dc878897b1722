"""A federation in rounds, as its server has it: what it asks, takes and gives."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from elmgrove.algebra.basis import Basis
from elmgrove.engines.task import Task
from elmgrove.errors import BadInput
from elmgrove.federation import Merged

R = TypeVar("R")


class Federation(ABC, Generic[R]):
    """One rule of cooperation with its messages, whatever carries them.

    Each round an engine sends ``request`` to some clients, lets ``read`` look at what each
    answered (it raises, with the reason, what can't be used) and ``take`` combine the rest. At
    the end ``gift`` is what a client gets, and ``merged`` what all of them know together.
    """

    def __init__(self, name: str, basis: Basis, ridge: float = 1e-3) -> None:
        self.task = Task(name, basis, ridge)
        self.rounds = 0

    @property
    def basis(self) -> Basis:
        """What everybody learns with."""
        return self.task.basis

    def request(self) -> bytes:
        """What each client of the next round is sent."""
        return self.task.to_bytes()

    @abstractmethod
    def read(self, origin: str, reply: bytes) -> R | None:
        """What a client answered; None where it has no rows."""

    def take(self, replies: Sequence[R]) -> None:
        """The rule, applied to the replies of one round, in the order of the clients' names."""
        self.rounds += 1
        self.combine(replies)

    @abstractmethod
    def combine(self, replies: Sequence[R]) -> None:
        """What the rule makes of these."""

    @abstractmethod
    def gift(self, origin: str) -> bytes:
        """What a client gets at the end, beside the request."""

    @abstractmethod
    def merged(self) -> Merged:
        """What all clients know together."""


def require_sender(origin: str, stated: str) -> None:
    """Raises ``BadInput`` for a message in somebody else's name."""
    if origin != stated:
        raise BadInput(f"a message of {stated!r} that came from {origin!r}")
