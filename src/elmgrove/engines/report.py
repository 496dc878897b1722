"""What happened in a round, with what it cost."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from elmgrove.rounds.loop import Round


@dataclass(frozen=True)
class Report:
    """A round, and the bytes of its messages: ``down`` to the clients, ``up`` to the server.

    Bytes are those of the messages themselves; what an engine wraps around them is its own.
    """

    number: int
    asked: tuple[str, ...]
    answered: tuple[str, ...]
    left_out: Mapping[str, str]
    down: int
    up: int
    seconds: float

    @classmethod
    def of(cls, round_: Round, down: int, up: int, seconds: float) -> "Report":
        """A round of the loop with its cost."""
        known = round_.number, round_.asked, round_.answered, dict(round_.left_out)
        return cls(*known, down, up, seconds)

    @property
    def fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Report":
        """The inverse of ``fields``."""
        asked, answered = tuple(fields["asked"]), tuple(fields["answered"])
        return cls(**{**fields, "asked": asked, "answered": answered})
