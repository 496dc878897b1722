"""The strategy: a federation's rounds as Flower runs them."""

from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from elmgrove.rounds.clients import Loss
from elmgrove.rounds.flower.call import Call
from elmgrove.rounds.flower.nodes import Nodes
from elmgrove.rounds.flower.records import array_of, blob, notes_of
from elmgrove.rounds.loop import Round, drawn
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.rounds.rules import RoundRule


class RoundsStrategy(Strategy):
    """Asks the clients that ``rounds.loop.drawn`` draws; the federation combines replies.

    Clients are known by the names that they give themselves, so the draw is that of any other
    engine. One that fails, is late or gone, has no rows, or sends what the federation refuses is
    left out, with the reason in the round's ``RoundReport``, and the round goes on. After the last
    round every client gets what is known (``Delivery``). ``clients`` is how many to wait for first,
    at most ``start`` seconds; then each has ``timeout`` seconds to answer.
    """

    def __init__(
        self,
        federation: RoundRule[Any],
        *,
        clients: int,
        rounds: int = 1,
        fraction: float = 1.0,
        seed: int = 0,
        start: float = 600.0,
        timeout: float = 3600.0,
        on_round: Callable[[RoundReport], None] | None = None,
    ) -> None:
        self._federation = federation
        self._nodes = Nodes(clients, start, timeout)
        self._rounds = rounds
        self._fraction = fraction
        self._seed = seed
        self._timeout = timeout
        self._on_round = on_round
        self._call = Call(self._nodes, (), 0)
        self._delivery = Delivery({}, {}, 0, 0.0)

    def run(self, grid: Grid) -> Delivery:
        """All rounds, and what each client got at the end."""
        self.start(grid, array_of(self._federation.request()), self._rounds, self._timeout)
        return self._delivery

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The request, for each client that is drawn."""
        self._nodes.meet(grid)
        asked = drawn(self._nodes.names, self._fraction, self._seed, server_round)
        self._call = Call(self._nodes, asked, server_round)
        return self._call.messages("train", lambda _: {"request": arrays})

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The rule, on what can be used of the replies; gives the next request."""

        def read(name: str, held: RecordDict) -> Any:
            return self._federation.read(name, blob(held, "reply"))

        heard = self._call.answers(replies, read)
        if heard:
            self._federation.take(list(heard.values()))
        self._tell(server_round, tuple(heard))
        return array_of(self._federation.request()), None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """After the last round, what each client gets; before, nothing."""
        if server_round < self._rounds:
            return []
        self._nodes.meet(grid)
        self._call = Call(self._nodes, self._nodes.names, server_round)
        return self._call.messages(
            "evaluate",
            lambda name: {"request": arrays, "gift": array_of(self._federation.gift(name))},
        )

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """How well what the clients got explains their rows."""
        if server_round < self._rounds:
            return None
        call = self._call
        losses = call.answers(replies, _loss)
        self._delivery = Delivery(losses, call.left_out, call.down, call.seconds)
        return MetricRecord({"loss": self._delivery.loss, "clients": len(losses)})

    def summary(self) -> None:
        """Flower asks for it; the report of each round says more."""

    def _tell(self, number: int, answered: tuple[str, ...]) -> None:
        call = self._call
        happened = Round(number, call.asked, answered, call.left_out)
        if self._on_round is not None:
            self._on_round(RoundReport.of(happened, call.down, call.up, call.seconds))


def _loss(_: str, held: RecordDict) -> Loss:
    notes = notes_of(held)
    return Loss(float(notes["loss"]), int(notes["rows"]))
