"""Rounds as Flower runs them: the strategy, and messages as Flower's records."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from elmgrove.errors import BadInput
from elmgrove.federation.contribution import require_origin
from elmgrove.rounds.clients import Loss
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.loop import NOTHING_NEW, Round, drawn, reason
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.rounds.rules import RoundRule

BLOB = "blob"
NOTES = "notes"


def array_of(blob: bytes) -> ArrayRecord:
    """Makes a record of bytes; Flower cuts large ones into pieces."""
    return ArrayRecord({BLOB: Array(np.frombuffer(blob, np.uint8))})


def blob_of(record: ArrayRecord) -> bytes:
    """Gives the bytes of a record that ``array_of`` made."""
    return record[BLOB].numpy().tobytes()


def content(notes: dict[str, int | float | str], **blobs: bytes | ArrayRecord) -> RecordDict:
    """Makes the content of a message: blobs by name, and notes."""
    made = RecordDict({NOTES: ConfigRecord(dict(notes))})
    for name, blob in blobs.items():
        made[name] = array_of(blob) if isinstance(blob, bytes) else blob
    return made


def blob(held: RecordDict, name: str) -> bytes:
    """Gives a blob of a message by its name; no bytes if there is none."""
    return blob_of(held.array_records[name]) if name in held.array_records else b""


def notes_of(held: RecordDict) -> ConfigRecord:
    """Gives the notes of a message."""
    return held.config_records[NOTES]


T = TypeVar("T")
log = logging.getLogger("elmgrove.rounds")

#: Seconds between two looks at which nodes are connected.
_PAUSE = 0.5
#: Seconds for nodes that were asked before and gave no name that could be used.
_AGAIN = 10.0


class RoundsStrategy(Strategy):
    """A Flower ``Strategy`` that draws clients by name, asks them, and lets a rule combine replies.

    Clients are known by the names that they give themselves, so the draw (``rounds.loop.drawn``) is
    that of any other engine. A client that fails, is late or gone, has no rows, or sends what the
    rule refuses is left out, with the reason in the round's ``RoundReport``, and the round goes on.
    After the last round every client gets its gift (``Delivery``). ``clients`` is how many to wait
    for first, at most ``start`` seconds; then each has ``timeout`` seconds to answer. With an
    ``exam`` the server tests the global model after every round, and the report says how it did.
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
        exam: Exam | None = None,
        on_round: Callable[[RoundReport], None] | None = None,
    ) -> None:
        self._rule = rule
        self._exam = exam
        self._nodes = _Nodes(clients, start, timeout)
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
        self._nodes.look_up(grid)
        asked = drawn(self._nodes.names, self._fraction, self._seed, server_round)
        self._call = _Call(self._nodes, asked, server_round)
        return self._call.messages("train", lambda _: {"request": arrays})

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Applies the rule to the replies that can be used; gives the next request."""

        def read(name: str, held: RecordDict) -> Any:
            return self._rule.read(name, blob(held, "reply"))

        usable = self._call.read_replies(replies, read)
        if usable:
            self._rule.take(list(usable.values()))
        self._tell(server_round, tuple(usable))
        return array_of(self._rule.request()), None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Makes the gift of each client after the last round; nothing before."""
        if server_round < self._rounds:
            return []
        self._nodes.look_up(grid)
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
        losses = call.read_replies(replies, _loss)
        self._delivery = Delivery(losses, call.left_out, call.down, call.seconds)
        return MetricRecord({"loss": self._delivery.loss, "clients": len(losses)})

    def summary(self) -> None:
        """Says nothing, though Flower asks: the report of each round says more."""

    def _tell(self, number: int, answered: tuple[str, ...]) -> None:
        call, seconds = self._call, self._call.seconds
        happened = Round(number, call.asked, answered, call.left_out)
        found = None if self._exam is None else self._rule.evaluate(self._exam)
        if self._on_round is not None:
            self._on_round(RoundReport.of(happened, call.down, call.up, seconds, found))


def _loss(_: str, held: RecordDict) -> Loss:
    notes = notes_of(held)
    return Loss(float(notes["loss"]), int(notes["rows"]))


class _Nodes:
    """The clients by the names that they gave themselves, since Flower's numbers are random.

    The first ``look_up`` waits for so many ``clients``, and then for their names, at most ``start``
    seconds each. A node without a name, or with one that is taken, takes no part, which is
    logged; it is asked again before the next round, but not waited for as long as a node that
    just came (``timeout``). A node that is gone keeps its name, since it may come back.
    """

    def __init__(self, clients: int, start: float, timeout: float) -> None:
        self._clients = clients
        self._start = start
        self._timeout = timeout
        self._asked: set[int] = set()
        self._nodes: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._here: set[int] = set()

    @property
    def names(self) -> list[str]:
        """The names of all clients that were ever found, sorted."""
        return sorted(self._nodes)

    def node(self, name: str) -> int | None:
        """Gives the node of a client, if it is connected now."""
        node = self._nodes[name]
        return node if node in self._here else None

    def name(self, node: int) -> str | None:
        """Gives the name of the client on a node."""
        return self._names.get(node)

    def look_up(self, grid: Grid) -> None:
        """Looks which nodes are connected, and asks the new ones for their names."""
        self._here = self._present(grid)
        new = sorted(self._here - self._names.keys())
        asked = [Message(content({}), node, "query") for node in new]
        patience = self._patience(new)
        for message in grid.send_and_receive(asked, timeout=patience) if asked else ():
            self._enter(message)

    def _patience(self, new: list[int]) -> float:
        first, known = not self._asked, self._asked.issuperset(new)
        self._asked |= set(new)
        if first:
            return self._start
        return min(self._timeout, _AGAIN) if known else self._timeout

    def _present(self, grid: Grid) -> set[int]:
        until = time.monotonic() + self._start
        while True:
            here = set(grid.get_node_ids())
            if len(here) >= self._clients:
                # A client that goes later is left out and not waited for.
                self._clients = 0
                return here
            if time.monotonic() > until:
                raise BadInput(
                    f"{len(here)} of {self._clients} clients came within {self._start:g} s"
                )
            time.sleep(_PAUSE)

    def _enter(self, message: Message) -> None:
        node = message.metadata.src_node_id
        try:
            name = _name_in(message)
            if self._nodes.get(name) in self._here:
                raise BadInput(f"the name {name!r} is taken")
        except BadInput as error:
            log.warning("node %d takes no part: %s", node, error)
            return
        self._names.pop(self._nodes.get(name, node), None)
        self._nodes[name], self._names[node] = node, name


def _name_in(message: Message) -> str:
    if message.has_error():
        raise BadInput(message.error.reason)
    notes = notes_of(message.content)
    if "name" not in notes:
        raise BadInput(str(notes.get("refused", "it gave no name")))
    name = str(notes["name"])
    require_origin(name)
    return name


class _Call:
    """One question to some clients: counts the bytes, and keeps why a client is left out."""

    def __init__(self, nodes: _Nodes, asked: Iterable[str], number: int) -> None:
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

    def read_replies(
        self, replies: Iterable[Message], read: Callable[[str, RecordDict], T | None]
    ) -> dict[str, T]:
        """Gives what ``read`` makes of each reply that can be used, in the order of the names."""
        usable, silent = dict[str, T](), set(self.asked) - self.left_out.keys()
        for message in replies:
            name = self._nodes.name(message.metadata.src_node_id)
            if name not in silent:
                continue
            silent.remove(name)
            reply = None
            try:
                why = _refusal(message)
                if why is None:
                    self.up += _size(message.content)
                    reply = read(name, message.content)
            except Exception as error:  # whatever a client sends, the others go on
                why = reason(error)
            if reply is None:
                self.left_out[name] = why or NOTHING_NEW
            else:
                usable[name] = reply
        self.left_out |= dict.fromkeys(silent, "late: no answer within the time given")
        return {name: usable[name] for name in sorted(usable)}

    @property
    def seconds(self) -> float:
        """The seconds since the call began."""
        return time.perf_counter() - self._started


def _refusal(message: Message) -> str | None:
    if message.has_error():
        return f"failed: {message.error.reason}"
    refused = notes_of(message.content).get("refused")
    return None if refused is None else str(refused)


def _size(held: RecordDict) -> int:
    return sum(len(blob_of(record)) for record in held.array_records.values())
