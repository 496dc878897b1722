"""A call: one question to some clients, and what came back."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from flwr.app import ArrayRecord, Message, RecordDict

from elmgrove.rounds.flower.nodes import Nodes
from elmgrove.rounds.flower.records import blob_of, content, notes_of
from elmgrove.rounds.loop import NOTHING_NEW, reason

T = TypeVar("T")


class Call:
    """Counts the bytes of its messages, and keeps the reason of everybody who is left out."""

    def __init__(self, nodes: Nodes, asked: Iterable[str], number: int) -> None:
        self._nodes = nodes
        self._number = number
        self._started = time.perf_counter()
        self.asked = tuple(asked)
        self.left_out: dict[str, str] = {}
        self.down = self.up = 0

    def messages(
        self, kind: str, blobs: Callable[[str], Mapping[str, ArrayRecord]]
    ) -> list[Message]:
        """One for each client that is there."""
        made = list[Message]()
        for name in self.asked:
            node = self._nodes.node(name)
            if node is None:
                self.left_out[name] = "not connected"
                continue
            held = content({"round": self._number}, **blobs(name))
            self.down += _size(held)
            made.append(Message(held, node, kind, group_id=str(self._number)))
        return made

    def answers(
        self, replies: Iterable[Message], read: Callable[[str, RecordDict], T | None]
    ) -> dict[str, T]:
        """What ``read`` makes of each reply, in the order of the names."""
        heard, silent = dict[str, T](), set(self.asked) - self.left_out.keys()
        for message in replies:
            name = self._nodes.name(message.metadata.src_node_id)
            if name not in silent:
                continue
            silent.remove(name)
            try:
                answer = read(name, self._opened(message))
            except Exception as error:
                # Whatever a client sends must not end the round of the others.
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
        """Since it began."""
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
    """The reason is the client's own."""


def _size(held: RecordDict) -> int:
    return sum(len(blob_of(record)) for record in held.array_records.values())
