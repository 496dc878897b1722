"""What happened in a round, with what it cost."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from elmgrove.rounds.clients import Loss
from elmgrove.rounds.loop import Round


@dataclass(frozen=True)
class RoundReport:
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
    def of(cls, round_: Round, down: int, up: int, seconds: float) -> "RoundReport":
        """A round of the loop with its cost."""
        known = round_.number, round_.asked, round_.answered, dict(round_.left_out)
        return cls(*known, down, up, seconds)

    @property
    def fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "RoundReport":
        """The inverse of ``fields``."""
        asked, answered = tuple(fields["asked"]), tuple(fields["answered"])
        return cls(**{**fields, "asked": asked, "answered": answered})


@dataclass(frozen=True)
class Delivery:
    """How well what came back explains each client's own rows; who got nothing, and why."""

    losses: Mapping[str, Loss]
    left_out: Mapping[str, str]
    down: int
    seconds: float

    @property
    def loss(self) -> float:
        """The mean over all rows of all clients; not a number where there are none."""
        rows = sum(loss.rows for loss in self.losses.values())
        total = sum(loss.mean * loss.rows for loss in self.losses.values())
        return total / rows if rows else float("nan")

    @property
    def fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        losses = {name: list(loss) for name, loss in self.losses.items()}
        return {
            "losses": losses,
            "left_out": dict(self.left_out),
            "down": self.down,
            "seconds": self.seconds,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Delivery":
        """The inverse of ``fields``."""
        losses = {name: Loss(*loss) for name, loss in fields["losses"].items()}
        return cls(losses, fields["left_out"], fields["down"], fields["seconds"])
