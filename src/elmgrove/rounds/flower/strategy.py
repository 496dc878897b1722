"""The strategy: a rule's rounds as Flower runs them, and the calls that they are made of."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from elmgrove.rounds.clients import Loss
from elmgrove.rounds.flower.nodes import Nodes
from elmgrove.rounds.flower.records import array_of, blob, blob_of, content, notes_of
from elmgrove.rounds.loop import NOTHING_NEW, Round, drawn, reason
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.rounds.rules import RoundRule

T = TypeVar("T")


class RoundsStrategy(Strategy):
    """A Flower ``Strategy`` that draws clients by name, asks them, and lets a rule combine replies.

    Clients are known by the names that they give themselves, so the draw (``rounds.loop.drawn``) is
    that of any other engine. A client that fails, is late or gone, has no rows, or sends what the
    rule refuses is left out, with the reason in the round's ``RoundReport``, and the round goes on.
    After the last round every client gets its gift (``Delivery``). ``clients`` is how many to wait
    for first, at most ``start`` seconds; then each has ``timeout`` seconds to answer.
    """

    def __init__(
        self,
        rule: RoundRule[Any],
        *,
        clients: int,
        rounds: int = 1,
        fraction: float = 1.0,
        seed: int = 0,
        start: float = 600.0,
        timeout: float = 3600.0,
        on_round: Callable[[RoundReport], None] | None = None,
    ) -> None:
        self._rule = rule
        self._nodes = Nodes(clients, start, timeout)
        self._rounds = rounds
        self._fraction = fraction
        self._seed = seed
        self._timeout = timeout
        self._on_round = on_round
        self._call = _Call(self._nodes, (), 0)
        self._delivery = Delivery({}, {}, 0, 0.0)

    def run(self, grid: Grid) -> Delivery:
        """Runs all rounds; gives what each client got at the end."""
        self.start(grid, array_of(self._rule.request()), self._rounds, self._timeout)
        return self._delivery

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Makes the request for each client that is drawn."""
        self._nodes.meet(grid)
        asked = drawn(self._nodes.names, self._fraction, self._seed, server_round)
        self._call = _Call(self._nodes, asked, server_round)
        return self._call.messages("train", lambda _: {"request": arrays})

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Applies the rule to the replies that can be used; gives the next request."""

        def read(name: str, held: RecordDict) -> Any:
            return self._rule.read(name, blob(held, "reply"))

        heard = self._call.answers(replies, read)
        if heard:
            self._rule.take(list(heard.values()))
        self._tell(server_round, tuple(heard))
        return array_of(self._rule.request()), None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Makes the gift of each client after the last round; nothing before."""
        if server_round < self._rounds:
            return []
        self._nodes.meet(grid)
        self._call = _Call(self._nodes, self._nodes.names, server_round)
        return self._call.messages(
            "evaluate",
            lambda name: {"request": arrays, "gift": array_of(self._rule.gift(name))},
        )

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Reads how well the gifts explain the clients' rows."""
        if server_round < self._rounds:
            return None
        call = self._call
        losses = call.answers(replies, _loss)
        self._delivery = Delivery(losses, call.left_out, call.down, call.seconds)
        return MetricRecord({"loss": self._delivery.loss, "clients": len(losses)})

    def summary(self) -> None:
        """Says nothing, though Flower asks: the report of each round says more."""

    def _tell(self, number: int, answered: tuple[str, ...]) -> None:
        call = self._call
        happened = Round(number, call.asked, answered, call.left_out)
        if self._on_round is not None:
            self._on_round(RoundReport.of(happened, call.down, call.up, call.seconds))


def _loss(_: str, held: RecordDict) -> Loss:
    notes = notes_of(held)
    return Loss(float(notes["loss"]), int(notes["rows"]))


class _Call:
    """One question to some clients: counts the bytes, and keeps why a client is left out."""

    def __init__(self, nodes: Nodes, asked: Iterable[str], number: int) -> None:
        self._nodes = nodes
        self._number = number
        self._started = time.perf_counter()
        self.asked = tuple(asked)
        self.left_out: dict[str, str] = {}
        self.down = self.up = 0

    def messages(
        self, message_type: str, blobs: Callable[[str], Mapping[str, ArrayRecord]]
    ) -> list[Message]:
        """Makes a message for each of the clients that is connected."""
        made = list[Message]()
        for name in self.asked:
            node = self._nodes.node(name)
            if node is None:
                self.left_out[name] = "not connected"
                continue
            held = content({"round": self._number}, **blobs(name))
            self.down += _size(held)
            made.append(Message(held, node, message_type, group_id=str(self._number)))
        return made

    def answers(
        self, replies: Iterable[Message], read: Callable[[str, RecordDict], T | None]
    ) -> dict[str, T]:
        """Gives what ``read`` makes of each reply, in the order of the names."""
        heard, silent = dict[str, T](), set(self.asked) - self.left_out.keys()
        for message in replies:
            name = self._nodes.name(message.metadata.src_node_id)
            if name not in silent:
                continue
            silent.remove(name)
            try:
                answer = read(name, self._opened(message))
            except Exception as error:
                # Whatever a client sends, the round of the others goes on.
                self.left_out[name] = reason(error) if not isinstance(error, _Said) else str(error)
                continue
            if answer is None:
                self.left_out[name] = NOTHING_NEW
            else:
                heard[name] = answer
        self.left_out |= dict.fromkeys(silent, "late: no answer within the time given")
        return {name: heard[name] for name in sorted(heard)}

    @property
    def seconds(self) -> float:
        """The seconds since the call began."""
        return time.perf_counter() - self._started

    def _opened(self, message: Message) -> RecordDict:
        if message.has_error():
            raise _Said(f"failed: {message.error.reason}")
        refused = notes_of(message.content).get("refused")
        if refused is not None:
            raise _Said(str(refused))
        self.up += _size(message.content)
        return message.content


class _Said(Exception):
    """The text is the reason that the client or Flower gave."""


def _size(held: RecordDict) -> int:
    return sum(len(blob_of(record)) for record in held.array_records.values())
