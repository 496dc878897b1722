"""Reports of federations in rounds: each round with its cost, and the delivery at the end."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from elmgrove.rounds.clients import Loss
from elmgrove.rounds.evaluation import Evaluation
from elmgrove.rounds.loop import Round


@dataclass(frozen=True)
class RoundReport(Round):
    """A round, and the bytes of its messages: ``down`` to the clients, ``up`` to the server.

    Only the messages themselves are counted, not what an engine wraps around them. ``evaluation``
    is how the model after the round does on the server's test rows, if it has any.
    """

    down: int
    up: int
    seconds: float
    evaluation: Evaluation | None = None

    @classmethod
    def of(
        cls,
        round_: Round,
        down: int,
        up: int,
        seconds: float,
        evaluation: Evaluation | None = None,
    ) -> "RoundReport":
        """Makes a report of a round, its cost, and what it led to."""
        return cls(
            number=round_.number,
            asked=round_.asked,
            answered=round_.answered,
            left_out=dict(round_.left_out),
            down=down,
            up=up,
            seconds=seconds,
            evaluation=evaluation,
        )

    @property
    def fields(self) -> dict[str, Any]:
        """The report as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "RoundReport":
        """Makes a report of what ``fields`` gave."""
        asked, answered = tuple(fields["asked"]), tuple(fields["answered"])
        found = fields["evaluation"]
        evaluation = None if found is None else Evaluation.from_fields(found)
        return cls(**fields | {"asked": asked, "answered": answered, "evaluation": evaluation})


@dataclass(frozen=True)
class Delivery:
    """The end of a federation: how well gifts explain the clients' rows, and which got none.

    ``losses`` has the clients that took their gift, ``left_out`` the others with the reason.
    """

    losses: Mapping[str, Loss]
    left_out: Mapping[str, str]
    down: int
    seconds: float

    @property
    def loss(self) -> float:
        """The mean squared error over all rows of all clients; not a number if there are none."""
        rows = sum(loss.rows for loss in self.losses.values())
        total = sum(loss.mean * loss.rows for loss in self.losses.values())
        return total / rows if rows else float("nan")

    @property
    def fields(self) -> dict[str, Any]:
        """The delivery as JSON holds it."""
        losses = {name: [loss.mean, loss.rows] for name, loss in self.losses.items()}
        return {
            "losses": losses,
            "left_out": dict(self.left_out),
            "down": self.down,
            "seconds": self.seconds,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Delivery":
        """Makes a delivery of what ``fields`` gave."""
        losses = {name: Loss(mean, rows) for name, (mean, rows) in fields["losses"].items()}
        return cls(
            losses=losses,
            left_out=fields["left_out"],
            down=fields["down"],
            seconds=fields["seconds"],
        )
