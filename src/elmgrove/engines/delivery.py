"""The end of a federation: what each client got, and what it makes of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elmgrove.engines.worker import Loss


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
